//! Multi-group Raft: one group a shard plus the control group, over one log and one connection per pair of nodes.

mod blocking;
mod clock;
pub mod disk;
pub mod election;
pub mod log;
pub mod machine;
pub mod meta;
pub mod runner;
pub mod transport;
pub mod types;
