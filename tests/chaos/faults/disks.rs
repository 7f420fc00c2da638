//! Disks that are full, fail, are slow, lose power, or give back something else than was written.

use std::fs;
use std::io;

use bytes::Bytes;
use http::Method;
use leasehold_tests::Deadline;
use leasehold_tests::disk::{damage, newest_segment};
use rand::rngs::SmallRng;
use std::time::Duration;

use super::nodes;
use crate::net::Place;
use crate::scenario::FaultSpec;
use crate::shim::Shim;
use crate::world::World;

/// Bytes of one set of rules that fill a log: each change is an entry of this size.
const RULES_BYTES: usize = 60_000;

/// A log that has room left for longer isn't waited for.
const FULL_WITHIN: Duration = Duration::from_secs(25);

/// Takes all room, and has the log use up what it had reserved.
pub(super) async fn fill(world: &World, targets: &[Place]) -> String {
    let mut notes = Vec::new();
    for node in nodes(targets) {
        if let Some(disk) = world.disks.get(&node) {
            disk.fill();
        }
        let deadline = Deadline::after(FULL_WITHIN);
        let other = world.cluster.running().into_iter().find(|other| *other != node).unwrap_or(node);
        let mut entries = 0;
        while !says_full(world, node).await && !deadline.passed() {
            let text = format!("domain: extra # {entries} {}\nlimits: []\n", "x".repeat(RULES_BYTES));
            let http = world.cluster.admin_http(other);
            let put = http.try_send(Method::PUT, "/v1/rules/extra", &[], Bytes::from(text));
            // A node that can't take rules now may be able to soon.
            let _ = tokio::time::timeout(Duration::from_secs(2), put).await;
            entries += 1;
        }
        let full = says_full(world, node).await;
        notes.push(format!("says that it is full: {full}, after {entries} entries of {RULES_BYTES} bytes"));
    }
    notes.join("; ")
}

async fn says_full(world: &World, node: usize) -> bool {
    let said = world.cluster.readiness(node).await;
    said.is_some_and(|reply| reply.status == 503 && reply.text().contains("the disk is full"))
}

pub(super) fn empty(world: &World, targets: &[Place]) -> String {
    for disk in nodes(targets).filter_map(|node| world.disks.get(&node)) {
        disk.empty();
    }
    "there is room".to_owned()
}

/// Has every sync fail: a node that can't sync must end.
pub(super) fn fail(world: &World, targets: &[Place]) -> io::Result<String> {
    for node in nodes(targets) {
        shim(world)?.fail(node)?;
    }
    Ok("every sync fails with EIO".to_owned())
}

/// Mends the disk and starts what has ended.
pub(super) async fn recover(world: &mut World, targets: &[Place]) -> io::Result<String> {
    let mut notes = Vec::new();
    for node in nodes(targets) {
        // It ends by itself: a node that goes on after a sync failed may acknowledge what is lost.
        let status = world.cluster.wait_until_ended(node).await;
        notes.push(format!("it had ended by itself: {status}"));
        shim(world)?.leave(node)?;
        world.cluster.restart(node);
    }
    Ok(notes.join("; "))
}

pub(super) fn slow(
    world: &World,
    targets: &[Place],
    spec: &FaultSpec,
    chance: &mut SmallRng,
) -> io::Result<String> {
    let ms = spec.sync_ms.map_or(0, |ms| ms.draw_whole(chance));
    for node in nodes(targets) {
        shim(world)?.slow(node, ms)?;
    }
    Ok(format!("every sync takes {ms} ms longer"))
}

pub(super) fn leave(world: &World, targets: &[Place]) -> io::Result<String> {
    for node in nodes(targets) {
        shim(world)?.leave(node)?;
    }
    Ok("syncs as it did".to_owned())
}

/// Kills all of them at once, with what they had not synced.
pub(super) fn lose_power(world: &mut World, targets: &[Place]) -> io::Result<String> {
    for node in nodes(targets) {
        world.cluster.kill(node);
    }
    let mut lost = 0;
    for node in nodes(targets) {
        lost += shim(world)?.lose_unsynced(node)?;
    }
    Ok(format!("kill -9, and {lost} bytes of logs that weren't synced are lost"))
}

/// Kills a node, flips a bit of its log and starts it: it must refuse.
///
/// # Panics
/// When it doesn't: it would serve from a log that isn't what was written.
pub(super) async fn flip_byte(world: &mut World, targets: &[Place]) -> String {
    let mut notes = Vec::new();
    for node in nodes(targets) {
        world.cluster.kill(node);
        damage(&newest_segment(&world.cluster.data(node)));
        world.cluster.restart(node);
        let status = world.cluster.wait_until_ended(node).await;
        assert!(!status.success(), "node-{node} started with a damaged log, and ended well");
        notes.push(format!("a bit of its log is flipped; it refuses to start: {status}"));
    }
    notes.join("; ")
}

/// Moves the damaged data away, as the node said, and starts it.
pub(super) fn rejoin(world: &mut World, targets: &[Place]) -> io::Result<String> {
    for node in nodes(targets) {
        let data = world.cluster.data(node);
        let mut away = data.with_extension("damaged");
        while away.exists() {
            away.set_extension("damaged-before");
        }
        fs::rename(&data, away)?;
        world.cluster.restart(node);
    }
    Ok("its data is moved away, and it joins as a new node".to_owned())
}

fn shim(world: &World) -> io::Result<&Shim> {
    world.shim.as_ref().ok_or_else(|| io::Error::other("the disk's shim isn't there"))
}
