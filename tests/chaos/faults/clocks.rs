//! Clocks that jump, and clocks that run at another rate.

use rand::rngs::SmallRng;

use super::nodes;
use crate::net::Place;
use crate::scenario::FaultSpec;
use crate::world::World;

/// The wall clock of each jumps by so much; what only counts goes on as it is.
pub(super) fn step(world: &World, targets: &[Place], spec: &FaultSpec, chance: &mut SmallRng) -> String {
    let Some(clocks) = &world.clocks else { return "no clocks of our own".to_owned() };
    let mut notes = Vec::new();
    for node in nodes(targets) {
        let seconds = spec.seconds.map_or(0.0, |seconds| seconds.draw(chance));
        clocks.set(node, &format!("{seconds:+.0}"));
        notes.push(format!("{seconds:+.0} s"));
    }
    notes.join(", ")
}

pub(super) fn step_back(world: &World, targets: &[Place]) -> String {
    for node in nodes(targets) {
        if let Some(clocks) = &world.clocks {
            clocks.set(node, "+0");
        }
    }
    "right again".to_owned()
}

/// All clocks of each run so much faster from now on: it is killed and starts under them.
pub(super) fn drift(world: &mut World, targets: &[Place], spec: &FaultSpec, chance: &mut SmallRng) -> String {
    let mut notes = Vec::new();
    for node in nodes(targets) {
        let percent = spec.percent.map_or(0.0, |percent| percent.draw(chance));
        begin_again(world, node, &format!("+0 x{:.4}", 1.0 + percent / 100.0));
        notes.push(format!("{percent:+.2} %"));
    }
    notes.join(", ")
}

pub(super) fn set_right(world: &mut World, targets: &[Place]) -> String {
    for node in nodes(targets) {
        begin_again(world, node, "+0");
    }
    "right again".to_owned()
}

/// A rate counts from a process's start.
fn begin_again(world: &mut World, node: usize, clock: &str) {
    if world.cluster.running().contains(&node) {
        world.cluster.kill(node);
    }
    if let Some(clocks) = &world.clocks {
        clocks.set(node, clock);
    }
    world.cluster.restart(node);
}
