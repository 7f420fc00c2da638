//! The server, alone or one of a cluster: boot, clock, rules in force, who may change counters, metrics.
//!
//! Invariant: this is the shell. Everything that can be decided wrongly is a function in a pure crate; here a clock is
//! read, files are watched, ports are bound and one lock is held. A configuration is checked before a port opens.

mod admin;
mod authority;
mod boot;
pub mod clock;
pub mod config;
mod core;
#[cfg(test)]
mod kept;
mod lease_service;
mod membership;
mod metrics;
mod node;
mod operate;
mod rules;
mod usage;

pub use boot::StartError;
pub use config::{ClusterConfig, Config, ConfigError, DEFAULT_CONFIG_YAML, DevOptions};
pub use leasehold_service::{files, logging};
pub use node::Node;
pub use rules::{EXAMPLE_RULES_YAML, rule_files};
