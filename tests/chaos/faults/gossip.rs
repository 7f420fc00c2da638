//! Datagrams that nobody of the cluster sent: garbage, forged ones, and real ones sent again.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rand::Rng;
use rand::rngs::SmallRng;
use rand::{SeedableRng, seq::IndexedRandom};
use tokio::net::UdpSocket;
use tokio::task::AbortHandle;

use crate::look::{figure, get};
use crate::net::switch::{Forger, gossip_payload};
use crate::scenario::FaultSpec;
use crate::world::World;

/// The longest garbage.
const GARBAGE_BYTES_MAX: usize = 1_400;

/// Sends so many datagrams a second until it is aborted, and no longer than the fault is to last.
pub(super) fn begin(
    world: &World,
    spec: &FaultSpec,
    lasts: Duration,
    chance: &mut SmallRng,
) -> io::Result<(String, AbortHandle)> {
    let switch = world.net.switch().ok_or_else(|| io::Error::other("no network of our own"))?;
    let rate = spec.rate.map_or(1, |rate| rate.draw_whole(chance)).max(1);
    let between = Duration::from_secs(1) / u32::try_from(rate).unwrap_or(u32::MAX);
    let doors: Vec<SocketAddr> =
        world.cluster.running().into_iter().map(|node| world.cluster.gossip(node)).collect();
    let (forger, mut chance) = (switch.forger(), SmallRng::from_rng(chance));
    let attack = tokio::spawn(async move {
        let attack = async {
            let socket = UdpSocket::bind("0.0.0.0:0").await?;
            let mut ticks = tokio::time::interval(between);
            loop {
                ticks.tick().await;
                if !send_one(&socket, &forger, &doors, &mut chance).await {
                    return io::Result::Ok(());
                }
            }
        };
        let _ = tokio::time::timeout(lasts, attack).await;
    });
    Ok((format!("{rate} datagrams a second: garbage, forged, and real ones again"), attack.abort_handle()))
}

/// Whether there was somebody to send to.
async fn send_one(socket: &UdpSocket, forger: &Forger, doors: &[SocketAddr], chance: &mut SmallRng) -> bool {
    let Some(door) = doors.choose(chance) else { return false };
    let kept = forger.kept();
    match (chance.random_range(0..3), kept.choose(chance)) {
        (0, Some(packet)) => forger.inject(packet).await,
        (1, Some(packet)) => forger.inject(&forge(packet, chance)).await,
        _ => {
            let mut garbage = vec![0; chance.random_range(0..GARBAGE_BYTES_MAX)];
            chance.fill(garbage.as_mut_slice());
            // A full buffer is no failure of the attack.
            let _ = socket.send_to(&garbage, door).await;
        }
    }
    true
}

/// A real datagram with some bits of what it says flipped. It says that it has no checksum, so that the kernel passes it on.
fn forge(packet: &[u8], chance: &mut SmallRng) -> Vec<u8> {
    let mut forged = packet.to_owned();
    let Some(payload) = gossip_payload(packet).filter(|payload| *payload < packet.len()) else {
        return forged;
    };
    forged[payload - 2..payload].fill(0);
    for _ in 0..chance.random_range(1..5) {
        let at = chance.random_range(payload..forged.len());
        forged[at] ^= 1 << chance.random_range(0..8);
    }
    forged
}

/// How many datagrams were taken for nothing.
pub(super) async fn end(world: &World) -> String {
    let mut dropped = 0;
    for (_, admin) in world.watched().nodes {
        let page = get(admin, "/metrics").await.unwrap_or_default();
        dropped += figure(&page, "leasehold_cluster_gossip_dropped_total", "").unwrap_or(0);
    }
    format!("{dropped} datagrams were dropped by those that got them")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::switch::GOSSIP;

    #[test]
    fn a_forged_datagram_differs_in_what_it_says_and_nowhere_else() {
        let mut packet = vec![7; 60];
        (packet[0], packet[9]) = (0x45, 17);
        packet[22..24].copy_from_slice(&GOSSIP.to_be_bytes());
        let forged = forge(&packet, &mut SmallRng::seed_from_u64(1));
        assert_eq!((&forged[..26], &forged[26..28]), (&packet[..26], &[0, 0][..]));
        assert_ne!(forged[28..], packet[28..]);
    }
}
