//! The server: boot, clock, rules in force, the local authority, metrics.
//!
//! Invariant: this is the shell. Everything that can be decided wrongly is a function in a pure crate; here a clock is
//! read, files are watched, ports are bound and one lock is held. A configuration is checked before a port opens.

mod admin;
mod authority;
mod boot;
pub mod clock;
pub mod config;
mod core;
mod decide;
pub mod files;
mod fullness;
mod gate;
pub mod logging;
mod membership;
mod metrics;
mod node;
mod operate;
mod rules;

pub use boot::StartError;
pub use config::{Config, ConfigError, DEFAULT_CONFIG_YAML, DevOptions};
pub use node::Node;
pub use rules::rule_files;
