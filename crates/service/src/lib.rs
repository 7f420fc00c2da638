//! What the processes that serve have in common: configuration, files, logs, doors, whether traffic should come, metrics.
//!
//! Invariant: it is the same for a node and for a sidecar; what differs is in them. Nothing is decided here.

pub mod config;
pub mod doors;
pub mod files;
mod fullness;
mod gate;
pub mod logging;
pub mod metrics;
mod top_keys;

pub use fullness::Fullness;
pub use gate::Gate;
pub use top_keys::top_keys;
