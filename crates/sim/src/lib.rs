//! Whole clusters of the pure crates in one thread, from a seed: virtual time, three clocks a machine, a network that loses,
//! repeats, reorders and cuts, disks that forget what wasn't synced, and an ordered log that stands in for Raft.
//!
//! Invariant: a seed decides everything. One generator, ordered maps, no thread and nothing asynchronous inside a world; the
//! code that decides, lends and counts is the product's. What isn't: the log, routing, and who talks to whom; those the
//! chaos harness breaks for real.

mod chance;
mod client;
mod clocks;
mod ctx;
mod disk;
mod edge;
mod faults;
mod holder;
pub mod invariants;
mod log;
mod machine;
mod net;
mod node;
mod plan;
pub mod reached;
pub mod sweep;
mod world;

pub use invariants::Finding;
pub use world::Outcome;

use plan::Plan;
use world::World;

/// Runs the world of a seed for so many simulated seconds.
#[must_use]
pub fn run(seed: u64, seconds: u64) -> Outcome {
    World::new(Plan::new(seed, seconds), false).run()
}

/// The same, and tells what happens.
#[must_use]
pub fn replay(seed: u64, seconds: u64) -> Outcome {
    World::new(Plan::new(seed, seconds), true).run()
}
