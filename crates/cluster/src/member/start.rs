//! From a configuration to a node that takes part, or waits for the others.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};

use leasehold_consensus::log::Log;
use leasehold_consensus::transport::{ClusterId, Identity, Plain, Transport, TransportConfig};
use leasehold_control::NodeRecord;
use leasehold_placement::Shards;
use leasehold_wire::peer::{FORM_NODES_MAX, FORM_TEXT_BYTES_MAX, FormRequest};
use parking_lot::Mutex;
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::vitals::Vitals;
use super::{Addresses, Ending, Inner, Phase, part, place};
use crate::data::DataDir;
use crate::form::{self, ClusterIdentity};
use crate::own;
use crate::whereabouts::Whereabouts;
use crate::{Clock, ClusterConfig, Fatal, StartError};

/// Opens everything, then takes part or begins to look for the others.
pub(super) async fn start(
    config: ClusterConfig,
    listener: Option<std::net::TcpListener>,
    clock: Arc<dyn Clock>,
    fatal: Fatal,
) -> Result<Arc<Inner>, StartError> {
    check(&config)?;
    let stop = CancellationToken::new();
    let ending = Ending { fatal, told: Arc::new(AtomicBool::new(false)), stop: stop.clone() };
    let (data, log) = open(&config, clock.as_ref(), ending.clone()).await?;
    let opened = open_ports(&config, listener, &data).await;
    let Ports { transport, whereabouts, addresses, request } = match opened {
        Ok(ports) => ports,
        Err(error) => {
            close(&data, log).await;
            return Err(error);
        }
    };
    let inner = Arc::new(Inner {
        identity: Arc::new(ClusterIdentity::read(Arc::clone(&data), request)?),
        config,
        clock,
        fatal: ending,
        data,
        log,
        transport,
        whereabouts,
        addresses,
        phase: watch::Sender::new(Phase::Waiting("starting".to_owned())),
        control: watch::Sender::default(),
        part: OnceLock::new(),
        vitals: Vitals::default(),
        leader_changes: AtomicU64::new(0),
        forming: Mutex::default(),
        tasks: TaskTracker::new(),
        stop,
    });
    hold_back(&inner);
    match begin(&inner).await {
        Ok(()) => Ok(inner),
        Err(error) => {
            inner.shutdown().await;
            Err(error)
        }
    }
}

/// Holds messages to other regions back as configured, as far as it is known who is in them.
fn hold_back(inner: &Arc<Inner>) {
    if inner.config.delays.is_empty() {
        return;
    }
    let (delays, control) = (inner.config.delays.clone(), inner.control.subscribe());
    inner.transport.hold_back(Arc::new(move |node| {
        let control = control.borrow();
        let region = control.nodes().get(&node).map(|record| &*record.region);
        region.and_then(|region| delays.get(region)).copied().unwrap_or_default()
    }));
}

/// A member goes on at once, so that what it can't read back is told before anything else; others look for a cluster.
async fn begin(inner: &Arc<Inner>) -> Result<(), StartError> {
    let ending = inner.fatal.clone();
    form::serve(&inner.transport, &inner.identity, Arc::new(move |error| ending.tell(&error.to_string())));
    if inner.identity.cluster().is_some() {
        return place::take_part(inner).await;
    }
    let joining = Arc::clone(inner);
    let forming = tokio::spawn(async move {
        if let Err(error) = join(&joining).await {
            joining.fatal.tell(&error.to_string());
        }
    });
    *inner.forming.lock() = Some(forming);
    Ok(())
}

async fn join(inner: &Arc<Inner>) -> Result<(), StartError> {
    let waiting = |text: &str| {
        tracing::info!("{text}");
        inner.phase.send_replace(Phase::Waiting(text.to_owned()));
    };
    let way = inner.stop.run_until_cancelled(form::form(&inner.identity, &inner.transport, waiting)).await;
    let Some(way) = way.transpose()? else { return Ok(()) };
    let (cluster, peers) = match way {
        form::Way::Founder(founding) => (founding.cluster.id, Vec::new()),
        form::Way::Joined { cluster, peers } => (cluster, peers),
    };
    inner.identity.belong(cluster).await?;
    inner.transport.identify(Identity { cluster: ClusterId(cluster.0), node: inner.data.node() });
    tracing::info!(%cluster, node = inner.data.node().0, "belongs to the cluster");
    part::take(inner, peers).await
}

fn check(config: &ClusterConfig) -> Result<(), StartError> {
    let fail = |field, message: String| Err(StartError::Setting { field, message });
    if config.seeds.is_empty() || config.seeds.len() > FORM_NODES_MAX {
        return fail("cluster.seeds", format!("name 1 to {FORM_NODES_MAX} founders"));
    }
    let is_address = |seed: &String| {
        seed.len() <= FORM_TEXT_BYTES_MAX
            && seed.rsplit_once(':').is_some_and(|(host, port)| {
                !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0)
            })
    };
    if let Some(seed) = config.seeds.iter().find(|seed| !is_address(seed)) {
        return fail("cluster.seeds", format!("{seed:?}: write host:port with a port above 0"));
    }
    if let Err(error) = Shards::new(config.shards) {
        return fail("cluster.shards", error.to_string());
    }
    if config.replicas == 0 {
        return fail("cluster.replicas", "use an odd number, usually 3".to_owned());
    }
    Ok(())
}

async fn open(
    config: &ClusterConfig,
    clock: &dyn Clock,
    ending: Ending,
) -> Result<(Arc<DataDir>, Log), StartError> {
    let (path, name, wall) = (config.data.clone(), config.name.clone(), clock.wall());
    let opened = tokio::task::spawn_blocking(move || {
        let data = DataDir::open(&path, &name, wall)?;
        let log = data.open_log(Arc::new(move |error: &io::Error| {
            ending.tell(&format!("the log failed: {error}"));
        }))?;
        Ok((Arc::new(data), log))
    });
    let what = "opening the data directory";
    opened.await.map_err(|error| StartError::System { what, source: io::Error::other(error) })?
}

struct Ports {
    transport: Transport,
    whereabouts: Whereabouts,
    addresses: Addresses,
    request: FormRequest,
}

async fn open_ports(
    config: &ClusterConfig,
    listener: Option<std::net::TcpListener>,
    data: &DataDir,
) -> Result<Ports, StartError> {
    let bind = |field, address| move |source| StartError::Bind { field, address, source };
    let listener = match listener {
        Some(open) => open.set_nonblocking(true).and_then(|()| TcpListener::from_std(open)),
        None => TcpListener::bind(config.peers_listen).await,
    };
    let listener = listener.map_err(bind("peers.listen", config.peers_listen))?;
    let peers = listener.local_addr().map_err(bind("peers.listen", config.peers_listen))?;
    let gossip = UdpSocket::bind(config.gossip_listen).await;
    let gossip = gossip.map_err(bind("gossip.listen", config.gossip_listen))?;
    let gossip_port = gossip.local_addr().map_err(bind("gossip.listen", config.gossip_listen))?.port();
    let advertised = own::advertised(config, peers, gossip_port).await?;
    let record = own::record(config, data.node(), &advertised);
    let whereabouts =
        Whereabouts::start(config, gossip, gossip_port, advertised.gossip, &record, data.boot())?;
    let addresses = Addresses { peers, peers_advertised: advertised.peers, gossip: whereabouts.address() };
    let (request, seed) = request(config, record)?;
    let identity = data.cluster()?;
    let identity = identity.map(|id| Identity { cluster: ClusterId(id.0), node: data.node() });
    let transport = Transport::start(listener, TransportConfig { identity, seed, secure: Arc::new(Plain) })
        .map_err(bind("peers.listen", config.peers_listen))?;
    Ok(Ports { transport, whereabouts, addresses, request })
}

/// What this node asks others with, and a seed for what chance there is in its calls.
fn request(config: &ClusterConfig, record: NodeRecord) -> Result<(FormRequest, u64), StartError> {
    let failed = |error| StartError::System { what: "drawing a nonce", source: io::Error::other(error) };
    let mut nonce = [0; 16];
    getrandom::fill(&mut nonce).map_err(failed)?;
    let seed = getrandom::u64().map_err(failed)?;
    let request = FormRequest {
        cluster: config.name.clone(),
        seeds: config.seeds.iter().cloned().collect::<BTreeSet<_>>(),
        shards: config.shards,
        replicas: config.replicas,
        record,
        nonce: u128::from_be_bytes(nonce),
    };
    Ok((request, seed))
}

async fn close(data: &DataDir, log: Log) {
    // It fails only when the runtime ends, and the log with it.
    let _ = tokio::task::spawn_blocking(move || log.close()).await;
    data.close();
}
