//! The sidecar: a node's doors, over leases that it holds beside the services that ask.
//!
//! Invariant: it offers what a node offers, and decides by the same engine; what differs is whom it asks. It holds no
//! counters: what it holds is lent to it, and goes back when it is drained.

mod clock;
pub mod config;
mod core;
mod edge;
mod metrics;
mod operate;

pub use config::{Config, DEFAULT_CONFIG_YAML};
pub use edge::{Edge, StartError};
