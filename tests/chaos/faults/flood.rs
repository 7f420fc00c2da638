//! A flood of ever new keys in a domain of its own: it may fill that domain's share of memory and must cost nobody else.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use leasehold_tests::Http;
use rand::Rng;
use rand::rngs::SmallRng;
use serde_json::json;
use tokio::task::{AbortHandle, JoinSet};

use crate::scenario::FaultSpec;
use crate::world::World;

const RULES: &str =
    "domain: flood\nlimits:\n  - { name: each, per: [each], limit: 1/3600s, on_unavailable: deny }\n";

/// Requests under way at once.
const SENDERS: u32 = 4;

/// Asks for so many new keys a second until it is aborted, and no longer than the fault is to last.
pub(super) async fn begin(
    world: &World,
    spec: &FaultSpec,
    lasts: Duration,
    chance: &mut SmallRng,
) -> (String, AbortHandle) {
    let admin = world.cluster.admin_http(world.cluster.running().first().copied().unwrap_or(0));
    let put = admin.try_send(Method::PUT, "/v1/rules/flood", &[], Bytes::from(RULES));
    let taken = tokio::time::timeout(Duration::from_secs(2), put).await.is_ok_and(|put| put.is_ok());
    let rate = spec.rate.map_or(1, |rate| rate.draw_whole(chance)).max(1);
    let between = Duration::from_secs(1) * SENDERS / u32::try_from(rate).unwrap_or(u32::MAX);
    let (doors, session): (_, u32) = (world.cluster.all_clients(), chance.random());
    let flood = tokio::spawn(async move {
        let mut senders = JoinSet::new();
        for sender in 0..SENDERS {
            let https: Vec<Http> = doors.iter().map(|door| Http::new(*door)).collect();
            senders.spawn(async move {
                let mut ticks = tokio::time::interval(between);
                ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
                for number in 0_usize.. {
                    ticks.tick().await;
                    let key = format!("{session:x}-{sender}-{number}");
                    let body = json!({ "domain": "flood", "attributes": { "each": key } });
                    let header = [("content-type", "application/json")];
                    let http = &https[number % https.len()];
                    let ask =
                        http.try_send(Method::POST, "/v1/check", &header, Bytes::from(body.to_string()));
                    let _ = tokio::time::timeout(Duration::from_secs(2), ask).await;
                }
            });
        }
        tokio::time::sleep(lasts).await;
    });
    (
        format!("{rate} new keys a second in a domain of their own; its rules were taken: {taken}"),
        flood.abort_handle(),
    )
}

pub(super) const fn end() -> String {
    String::new()
}
