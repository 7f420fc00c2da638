//! Multi-group Raft: one group a shard plus the control group, over one log and one connection per pair of nodes.

pub mod disk;
pub mod log;
pub mod meta;
pub mod transport;
pub mod types;
