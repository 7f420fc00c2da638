//! From the section `cluster:` to what a node takes part with.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use leasehold_cluster::{Fatal, GossipKey, StartError as ClusterStartError};
use leasehold_decide::TopKeys;
use leasehold_lease::EdgeId;
use leasehold_limit::KeySecret;

use super::{StartError, demands_max, from_hex, random, random_secret, shard_bounds};
use crate::authority::ClusterAuthority;
use crate::config::{ClusterConfig, Config, GossipConfig, check_node_name};
use crate::core::Core;
use crate::files::read_text;
use crate::lease_service::Greeter;
use crate::metrics::Metrics;
use crate::rules::{ClusterRules, FirstRules, Keeper, Source};

/// Bytes of a gossip key, written as twice as many hexadecimal digits.
const KEY_BYTES: usize = 32;

/// Bytes of the file with the gossip keys. A larger one holds something else.
const KEY_FILE_BYTES_MAX: usize = 1_024;

/// What a process says with its end when it can't go on: "internal software error" in `sysexits.h`.
const EXIT_FATAL: i32 = 70;

/// Of the entries between two snapshots, the share that is kept for followers that are a little behind: they are sent
/// entries, not the snapshot.
const KEPT_SHARE: u64 = 4;

/// What is read before anything is opened.
pub(crate) struct Prepared {
    pub(crate) first: FirstRules,
    pub(crate) node: String,
    secret: KeySecret,
    /// As whom this life of the process holds leases.
    edge: EdgeId,
    gossip_key: GossipKey,
    gossip_key_other: Option<GossipKey>,
}

/// Reads what a node of a cluster needs. Blocks on the disk.
pub(crate) fn prepare(config: &Config, cluster: &ClusterConfig) -> Result<Prepared, StartError> {
    let secret = random_secret()?;
    let first = match config.rules.as_deref() {
        None => FirstRules::default(),
        Some(path) => FirstRules::read(&Source::at(Some(path)), &secret)?,
    };
    let node = cluster.node.clone().map_or_else(host_name, Ok)?;
    let (gossip_key, gossip_key_other) = gossip_keys(&cluster.name, &cluster.gossip)?;
    let edge = EdgeId(u128::from_be_bytes(random("drawing an edge's number")?));
    Ok(Prepared { first, node, secret, edge, gossip_key, gossip_key_other })
}

/// What the cluster is told of this node, whose clients are served at `clients`.
pub(crate) fn part(
    config: &Config,
    cluster: &ClusterConfig,
    prepared: &Prepared,
    clients: SocketAddr,
) -> leasehold_cluster::ClusterConfig {
    leasehold_cluster::ClusterConfig {
        name: cluster.name.clone(),
        node: prepared.node.clone(),
        data: cluster.data.clone(),
        seeds: cluster.seeds.clone(),
        peers_listen: cluster.peers.listen,
        peers_advertise: cluster.peers.advertise.clone(),
        gossip_listen: cluster.gossip.listen,
        gossip_advertise: cluster.gossip.advertise,
        clients_advertise: clients_advertise(cluster, &prepared.node, clients),
        gossip_key: prepared.gossip_key.clone(),
        gossip_key_other: prepared.gossip_key_other.clone(),
        zone: cluster.zone.clone(),
        region: cluster.region.clone(),
        delays: cluster.delays.clone(),
        weight: cluster.weight,
        shards: cluster.shards,
        replicas: cluster.replicas,
        rules: prepared.first.texts().to_vec(),
        replace_after: Duration::from_secs(cluster.replace_after_seconds),
        bounds: shard_bounds(&config.counters),
        snapshot_every: cluster.snapshot_every,
        keep_entries: cluster.snapshot_every / KEPT_SHARE,
    }
}

/// The node behind the doors, with the rules that it will follow.
pub(crate) fn core(
    config: &Config,
    name: &str,
    prepared: &Prepared,
    cluster: leasehold_cluster::Cluster,
) -> (Core<ClusterAuthority>, Arc<ClusterRules>) {
    let request_timeout = Duration::from_millis(config.intake.request_timeout_ms);
    let authority = ClusterAuthority::new(cluster.clone(), request_timeout);
    let leases = config.cluster.as_ref().is_some_and(|cluster| cluster.leases);
    let authority = if leases { authority.leasing(prepared.edge) } else { authority };
    let metrics = Arc::new(Metrics::of(cluster.clone(), authority.leases().cloned()));
    let fallback_domain = config.authorize.domain.clone();
    let secret = prepared.secret.clone();
    let region = config.cluster.as_ref().map(|cluster| cluster.region.clone()).unwrap_or_default();
    let rules = ClusterRules::new(name, secret, Arc::clone(&metrics), fallback_domain, region);
    let rules = Arc::new(rules);
    let keeper = Keeper::Cluster { rules: Arc::clone(&rules), cluster };
    let demands_max = demands_max(shard_bounds(&config.counters));
    let top_keys = TopKeys::new(config.admin.show_key_values);
    let core = Core::new(keeper, authority, metrics, top_keys, demands_max);
    core.names.keep(prepared.edge, &format!("node {}", prepared.node));
    (core, rules)
}

/// How the node greets edges.
pub(crate) fn greeter(
    config: &Config,
    named: &ClusterConfig,
    prepared: &Prepared,
    cluster: &leasehold_cluster::Cluster,
) -> Greeter {
    Greeter {
        node: cluster.node().0,
        name: prepared.node.clone(),
        region: named.region.clone(),
        reset: config.http.reset,
    }
}

/// Ends the process, saying why: whoever goes on without its log or its votes is worse than one that is gone.
pub(crate) fn fatal() -> Fatal {
    Fatal(Arc::new(|why| {
        eprintln!("leasehold: this node can't go on: {why}");
        std::process::exit(EXIT_FATAL);
    }))
}

impl From<ClusterStartError> for StartError {
    fn from(error: ClusterStartError) -> Self {
        match error {
            ClusterStartError::Bind { field, address, source } => {
                Self::Bind { field: configured(field), addr: address, source }
            }
            ClusterStartError::Setting { field, message } => {
                Self::Setting { field: configured(field), message }
            }
            other @ (ClusterStartError::Data { .. }
            | ClusterStartError::Meta(_)
            | ClusterStartError::Log(_)
            | ClusterStartError::LogGone { .. }
            | ClusterStartError::Replica(_)
            | ClusterStartError::System { .. }) => Self::Cluster(Box::new(other)),
        }
    }
}

/// A field of the section by its whole path.
fn configured(field: &'static str) -> &'static str {
    match field {
        "peers.listen" => "cluster.peers.listen",
        "peers.advertise" => "cluster.peers.advertise",
        "gossip.listen" => "cluster.gossip.listen",
        "gossip.advertise" | "advertise" => "cluster.gossip.advertise",
        "seeds" => "cluster.seeds",
        other => other,
    }
}

/// What the machine is called.
fn host_name() -> Result<String, StartError> {
    let named = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = named.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
    let name = name.trim();
    check_node_name(name).map_err(|_| StartError::Setting {
        field: "cluster.node",
        message: format!(
            "the machine's host name {name:?} is none for a node; write one, or give --node NAME"
        ),
    })?;
    Ok(name.to_owned())
}

/// The configured address, or the one that is served with a host that others reach, as far as that is known.
fn clients_advertise(cluster: &ClusterConfig, node: &str, clients: SocketAddr) -> String {
    if let Some(address) = &cluster.clients_advertise {
        return address.clone();
    }
    if !clients.ip().is_unspecified() {
        return clients.to_string();
    }
    let peers = cluster.peers.advertise.as_deref().and_then(|address| address.rsplit_once(':'));
    format!("{}:{}", peers.map_or(node, |(host, _)| host), clients.port())
}

/// The keys of gossip: the one that seals, and one that is also opened.
fn gossip_keys(cluster: &str, gossip: &GossipConfig) -> Result<(GossipKey, Option<GossipKey>), StartError> {
    let Some(path) = &gossip.key_file else {
        tracing::warn!("gossip is sealed with a key that everybody knows: good enough on one machine only");
        return Ok((well_known(cluster), None));
    };
    let wrong =
        |message| StartError::Secret { field: "cluster.gossip.key_file", path: path.clone(), message };
    let text = read_text(path, KEY_FILE_BYTES_MAX).map_err(|error| wrong(error.to_string()))?;
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).map(from_hex).collect();
    match *lines.as_slice() {
        [Some(key)] => Ok((GossipKey::from_bytes(key), None)),
        [Some(key), Some(other)] => Ok((GossipKey::from_bytes(key), Some(GossipKey::from_bytes(other)))),
        _ => Err(wrong(format!(
            "it must hold {} hexadecimal digits, in a second line perhaps those of a second key; make one by openssl rand \
             -hex {KEY_BYTES}",
            KEY_BYTES * 2
        ))),
    }
}

/// A key that keeps clusters on one machine apart, and nobody out.
fn well_known(cluster: &str) -> GossipKey {
    let mut key = [0; KEY_BYTES];
    for (seed, half) in (0..).zip(key.chunks_exact_mut(KEY_BYTES / 2)) {
        let hash = KeySecret::new([seed; 16]).session(cluster.as_bytes());
        half.copy_from_slice(&hash.to_le_bytes());
    }
    GossipKey::from_bytes(key)
}

#[cfg(test)]
mod tests;
