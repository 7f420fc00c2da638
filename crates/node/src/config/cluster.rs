//! The section `cluster:`: how this node is one of several. The same on every node, but for the machine's own name and
//! directory, which the command line may give.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::fields;

/// A node's part in a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterConfig {
    /// The cluster's name: nodes of differently named clusters don't hear each other.
    #[serde(deserialize_with = "fields::cluster_name")]
    pub name: String,
    /// What this node is called, unique in the cluster. `None`: the machine's host name.
    #[serde(default, deserialize_with = "fields::node_name")]
    pub node: Option<String>,
    /// The directory of everything that this node keeps.
    #[serde(deserialize_with = "fields::directory")]
    pub data: PathBuf,
    /// Peer addresses of the nodes that found the cluster, `host:port`; the same on every node.
    #[serde(deserialize_with = "fields::seeds")]
    pub seeds: Vec<String>,
    /// Where other nodes reach this one.
    #[serde(default)]
    pub peers: PeersConfig,
    /// Where nodes tell each other how they are.
    #[serde(default)]
    pub gossip: GossipConfig,
    /// Where clients reach this node, as others are told. `None`: `clients.listen`, with a host that others reach.
    #[serde(default, deserialize_with = "fields::host_port")]
    pub clients_advertise: Option<String>,
    /// What fails together: replicas are spread over zones.
    #[serde(default, deserialize_with = "fields::place")]
    pub zone: String,
    /// What is near each other.
    #[serde(default, deserialize_with = "fields::place")]
    pub region: String,
    /// How long what is sent to other regions is held back, by the region: for trying out on one machine what is far apart.
    /// No file says it.
    #[serde(skip)]
    pub delays: BTreeMap<String, Duration>,
    /// Share of the work relative to other nodes; 0 holds nothing.
    #[serde(default = "defaults::weight", deserialize_with = "fields::weight")]
    pub weight: u32,
    /// How many shards the cluster is made with.
    #[serde(default = "defaults::shards", deserialize_with = "fields::shards")]
    pub shards: u32,
    /// Replicas of each.
    #[serde(default = "defaults::replicas", deserialize_with = "fields::replicas")]
    pub replicas: u32,
    /// A node that nobody hears for this long is replaced.
    #[serde(default = "defaults::replace_after_seconds", deserialize_with = "fields::replace_after_seconds")]
    pub replace_after_seconds: u64,
    /// Log entries of a group between two snapshots, about.
    #[serde(default = "defaults::snapshot_every", deserialize_with = "fields::snapshot_every")]
    pub snapshot_every: u64,
    /// Whether this node holds tokens of counters that other nodes lead, and lends them to edges of its region. Without, each
    /// check is decided by its counter's leader.
    #[serde(default = "defaults::leases")]
    pub leases: bool,
}

/// The door for peers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PeersConfig {
    /// Address and port.
    #[serde(deserialize_with = "fields::socket_addr")]
    pub listen: SocketAddr,
    /// Where other nodes reach that, `host:port`. `None`: the address that this machine reaches the first seed from.
    #[serde(deserialize_with = "fields::host_port")]
    pub advertise: Option<String>,
    /// Says yes to unencrypted traffic between machines. Loopback needs no such word.
    pub plaintext: bool,
}

/// Where nodes tell each other how they are. Datagrams are sealed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GossipConfig {
    /// Address and port, UDP.
    #[serde(deserialize_with = "fields::socket_addr")]
    pub listen: SocketAddr,
    /// Where other nodes reach that. `None`: the host of `peers.advertise`, with this port.
    #[serde(deserialize_with = "fields::socket_addr_or_none")]
    pub advertise: Option<SocketAddr>,
    /// The key that seals datagrams; the same on every node.
    pub key_file: Option<PathBuf>,
}

/// Defaults of single fields.
pub(super) mod defaults {
    pub(in crate::config) fn weight() -> u32 {
        100
    }

    pub(in crate::config) fn shards() -> u32 {
        16
    }

    pub(in crate::config) fn replicas() -> u32 {
        3
    }

    pub(in crate::config) fn replace_after_seconds() -> u64 {
        300
    }

    pub(in crate::config) fn snapshot_every() -> u64 {
        20_000
    }

    pub(in crate::config) fn leases() -> bool {
        true
    }
}

impl ClusterConfig {
    /// A cluster of this name, with the rest as it is by default.
    #[must_use]
    pub fn new(name: impl Into<String>, data: impl Into<PathBuf>, seeds: Vec<String>) -> Self {
        Self {
            name: name.into(),
            node: None,
            data: data.into(),
            seeds,
            peers: PeersConfig::default(),
            gossip: GossipConfig::default(),
            clients_advertise: None,
            zone: String::new(),
            region: String::new(),
            delays: BTreeMap::new(),
            weight: defaults::weight(),
            shards: defaults::shards(),
            replicas: defaults::replicas(),
            replace_after_seconds: defaults::replace_after_seconds(),
            snapshot_every: defaults::snapshot_every(),
            leases: defaults::leases(),
        }
    }

    /// Whether no other machine can be a part of it.
    #[must_use]
    pub fn is_on_one_machine(&self) -> bool {
        let listens = [self.peers.listen, self.gossip.listen];
        listens.iter().all(|listen| listen.ip().is_loopback())
            && self.seeds.iter().all(|seed| is_loopback(fields::host(seed)))
    }
}

fn is_loopback(host: &str) -> bool {
    host.parse::<IpAddr>().map_or_else(|_| host.eq_ignore_ascii_case("localhost"), |ip| ip.is_loopback())
}

impl Default for PeersConfig {
    fn default() -> Self {
        Self { listen: (Ipv4Addr::LOCALHOST, 7601).into(), advertise: None, plaintext: false }
    }
}

impl Default for GossipConfig {
    fn default() -> Self {
        Self { listen: (Ipv4Addr::LOCALHOST, 7603).into(), advertise: None, key_file: None }
    }
}
