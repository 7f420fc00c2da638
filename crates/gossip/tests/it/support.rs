//! Nodes to test with. Few tests run at a time, so that the times they print are not each other's.

use std::net::SocketAddr;
use std::time::Duration;

use leasehold_gossip::{Boot, Gossip, GossipConfig, KEY_LEN, Key, KeyRing, Profile};
use leasehold_model::NodeId;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

static TURNS: Semaphore = Semaphore::const_new(3);

pub(crate) async fn turn() -> SemaphorePermit<'static> {
    TURNS.acquire().await.expect("never closed")
}

pub(crate) fn key(byte: u8) -> Key {
    Key::from_bytes([byte; KEY_LEN])
}

pub(crate) fn ring(sealing: u8, other: Option<u8>) -> KeyRing {
    KeyRing::new("main", &key(sealing), other.map(key).as_ref())
}

pub(crate) fn config(id: u64, seeds: &[SocketAddr]) -> GossipConfig {
    let profile = Profile {
        name: format!("node-{id}").into(),
        peer_address: format!("10.0.0.{id}:7400").into(),
        client_address: format!("10.0.0.{id}:7401").into(),
        zone: "zone-a".into(),
        region: "here".into(),
        ..Profile::default()
    };
    GossipConfig {
        id: NodeId(id),
        boot: Boot(1),
        listen: ([127, 0, 0, 1], 0).into(),
        advertise: None,
        seeds: seeds.iter().map(SocketAddr::to_string).collect(),
        keys: ring(1, None),
        profile,
        interval: GossipConfig::INTERVAL,
    }
}

/// Nodes 1 to `count`, of which the first is the others' seed.
pub(crate) async fn start(count: u64) -> Vec<Gossip> {
    let mut nodes: Vec<Gossip> = Vec::new();
    for id in 1..=count {
        let seeds: Vec<SocketAddr> = nodes.first().map(Gossip::local_address).into_iter().collect();
        nodes.push(Gossip::start(config(id, &seeds)).await.unwrap());
    }
    nodes
}

/// Waits until it holds; how long that took.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) -> Duration {
    wait(holds).await.unwrap_or_else(|| panic!("never: {what}"))
}

/// Waits until every node takes exactly these for live.
pub(crate) async fn until_live(nodes: &[Gossip], ids: &[u64]) -> Duration {
    let took = wait(|| nodes.iter().all(|node| live(node) == ids)).await;
    took.unwrap_or_else(|| {
        let heard: Vec<Vec<u64>> = nodes.iter().map(live).collect();
        panic!("never were exactly {ids:?} live, but {heard:?}")
    })
}

async fn wait(holds: impl Fn() -> bool) -> Option<Duration> {
    let start = Instant::now();
    while !holds() {
        if start.elapsed() > Duration::from_secs(20) {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Some(start.elapsed())
}

pub(crate) fn live(node: &Gossip) -> Vec<u64> {
    node.members().live().map(|member| member.id.0).collect()
}
