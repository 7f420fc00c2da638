//! Rules that change while everybody asks.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use leasehold_tests::Deadline;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;

use crate::history::{Event, Rules};
use crate::look::{figure, get};
use crate::record::Record;
use crate::scenario::{DOMAIN, LimitSpec, yaml};
use crate::world::World;

/// A cluster that is in trouble may take rules only when that is over.
const TAKEN_WITHIN: Duration = Duration::from_secs(5);

/// Who doesn't follow by then is left alone: it is never known.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(5);

/// Puts the other numbers in force through any node, or the first ones again.
pub(super) async fn push(world: &World, record: &Record, other: bool, chance: &mut SmallRng) -> String {
    let limits: Vec<LimitSpec> = world
        .scenario
        .limits
        .iter()
        .map(|limit| if other { limit.pushed() } else { limit.clone() })
        .collect();
    let (text, deadline) = (yaml(&limits), Deadline::after(TAKEN_WITHIN));
    let pushed = record.now_ns();
    while !deadline.passed() {
        let Some(node) = world.cluster.running().choose(chance).copied() else { break };
        let http = world.cluster.admin_http(node);
        let path = format!("/v1/rules/{DOMAIN}");
        let put = http.try_send(Method::PUT, &path, &[], Bytes::from(text.clone()));
        if let Ok(Ok(reply)) = tokio::time::timeout(Duration::from_secs(2), put).await
            && reply.status == 200
            && let Some(version) = reply.json()["version"].as_u64()
        {
            let in_force = followed(world, version).await.then(|| record.now_ns());
            let limits = limits.iter().map(LimitSpec::describe).collect();
            record.write(&Event::Rules(Rules { version, pushed, in_force, limits }));
            return format!("version {version} through node-{node}");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // They may be in force all the same.
    let limits = limits.iter().map(LimitSpec::describe).collect();
    let version = version(world).await.unwrap_or(0);
    record.write(&Event::Rules(Rules { version, pushed, in_force: None, limits }));
    "no node took them in time".to_owned()
}

/// The version of the rules that the cluster has now.
pub(crate) async fn version(world: &World) -> Option<u64> {
    world.cluster.status().await.map(|status| status.rules_version)
}

/// Whether every process decides by them soon.
async fn followed(world: &World, version: u64) -> bool {
    let (watched, deadline) = (world.watched(), Deadline::after(FOLLOWED_WITHIN));
    for (_, admin) in watched.nodes.iter().chain(&watched.edges) {
        loop {
            let page = get(*admin, "/metrics").await;
            if page
                .and_then(|page| figure(&page, "leasehold_rules_version", ""))
                .is_some_and(|now| now >= version)
            {
                break;
            }
            if deadline.passed() {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    true
}
