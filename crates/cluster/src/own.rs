//! What a node tells others of itself: its record, and the addresses in it.
//!
//! Invariant: an advertised address has a host and a port that others can use; where the configuration doesn't say, it is the
//! address that this machine reaches the seeds from.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use leasehold_control::NodeRecord;
use leasehold_gossip::Profile;
use leasehold_model::NodeId;
use leasehold_placement::Standing;
use tokio::net::lookup_host;
use tokio::time::timeout;

use crate::{ClusterConfig, StartError};

/// How long a name may take to be looked up.
const LOOKUP_MAX: Duration = Duration::from_secs(2);
/// An address for documentation, to see which way traffic would leave. Nothing is sent there.
const ELSEWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 9);

/// Where others reach this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Advertised {
    /// `host:port` for peers.
    pub(crate) peers: String,
    /// For gossip.
    pub(crate) gossip: SocketAddr,
}

/// Finds what to advertise; `peers` is the address that peers are served at, `gossip_port` that of gossip.
///
/// # Errors
/// A setting that is needed after all.
pub(crate) async fn advertised(
    config: &ClusterConfig,
    peers: SocketAddr,
    gossip_port: u16,
) -> Result<Advertised, StartError> {
    let host = match &config.peers_advertise {
        Some(address) => address.clone(),
        None => {
            let ip = reachable_ip(peers.ip(), &config.seeds).await.ok_or_else(|| StartError::Setting {
                field: "peers.advertise",
                message:
                    "write the address that other nodes reach this one at: it listens on all addresses, \
                          and no seed and no other network can be reached from here"
                        .to_owned(),
            })?;
            SocketAddr::new(ip, peers.port()).to_string()
        }
    };
    let gossip = match config.gossip_advertise {
        Some(address) => {
            SocketAddr::new(address.ip(), if address.port() == 0 { gossip_port } else { address.port() })
        }
        None => SocketAddr::new(gossip_ip(config, &host).await?, gossip_port),
    };
    Ok(Advertised { peers: host, gossip })
}

async fn gossip_ip(config: &ClusterConfig, peers: &str) -> Result<IpAddr, StartError> {
    if !config.gossip_listen.ip().is_unspecified() {
        return Ok(config.gossip_listen.ip());
    }
    let looked_up = match resolve(peers).await {
        Some(address) => Some(address.ip()),
        None => reachable_ip(config.gossip_listen.ip(), &config.seeds).await,
    };
    looked_up.ok_or_else(|| StartError::Setting {
        field: "gossip.advertise",
        message: format!("write the address that other nodes reach gossip at: {peers} can't be looked up"),
    })
}

/// The address that others reach, of a socket that listens on `listening`.
async fn reachable_ip(listening: IpAddr, seeds: &[String]) -> Option<IpAddr> {
    if !listening.is_unspecified() {
        return Some(listening);
    }
    for seed in seeds {
        if let Some(ip) = resolve(seed).await.and_then(source_towards) {
            return Some(ip);
        }
    }
    source_towards(ELSEWHERE)
}

async fn resolve(address: &str) -> Option<SocketAddr> {
    timeout(LOOKUP_MAX, lookup_host(address)).await.ok()?.ok()?.next()
}

/// The address that traffic to `target` would leave from. Connecting a UDP socket sends nothing.
fn source_towards(target: SocketAddr) -> Option<IpAddr> {
    let any: SocketAddr =
        if target.is_ipv4() { ([0; 4], 0).into() } else { (std::net::Ipv6Addr::UNSPECIFIED, 0).into() };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(target).ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|ip| !ip.is_unspecified())
}

/// This node as it registers.
pub(crate) fn record(config: &ClusterConfig, id: NodeId, advertised: &Advertised) -> NodeRecord {
    NodeRecord {
        id,
        name: config.node.as_str().into(),
        peer_address: advertised.peers.as_str().into(),
        gossip_address: advertised.gossip.to_string().into(),
        client_address: config.clients_advertise.as_str().into(),
        zone: config.zone.as_str().into(),
        region: config.region.as_str().into(),
        weight: config.weight,
        standing: Standing::Active,
    }
}

/// This node as gossip tells it.
pub(crate) fn profile(record: &NodeRecord) -> Profile {
    Profile {
        name: record.name.clone(),
        peer_address: record.peer_address.clone(),
        client_address: record.client_address.clone(),
        zone: record.zone.clone(),
        region: record.region.clone(),
        level: leasehold_consensus::transport::PROTOCOL_LEVEL,
        ..Profile::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_to_loopback_leaves_from_loopback() {
        let ip = source_towards("127.0.0.1:7601".parse().unwrap());
        assert_eq!(ip, Some(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    }

    #[tokio::test]
    async fn who_listens_on_all_addresses_is_reached_where_it_reaches_the_seeds_from() {
        let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let seeds = ["127.0.0.1:7601".to_owned()];
        assert_eq!(reachable_ip(any, &seeds).await, Some(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        let one = "127.0.0.7".parse().unwrap();
        assert_eq!(reachable_ip(one, &seeds).await, Some(one));
    }
}
