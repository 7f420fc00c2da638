//! A running node: what was bound, what it serves, and how it stops.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use leasehold_front::RulesStatus;
use leasehold_limit::rules::{RuleBook, RuleError};

use crate::config::Config;

/// A node that serves until it is [drained](Self::drain).
#[derive(Debug)]
pub struct Node {
    client_addr: SocketAddr,
    admin_addr: SocketAddr,
}

/// Why a node did not start. Nothing is left running.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The rules are wrong. Print each mistake; there are no older rules to fall back to.
    #[error("{} mistakes in the rules", .0.len())]
    Rules(Vec<RuleError>),
    /// The rules could not be read.
    #[error("reading rules from {path}: {source}")]
    ReadRules {
        /// File or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The key secret could not be read, or isn't one.
    #[error("key_secret_file {path}: {message}")]
    Secret {
        /// The file.
        path: PathBuf,
        /// What is wrong and what it must hold.
        message: String,
    },
    /// A port could not be bound.
    #[error("binding {field} to {addr}: {source}")]
    Bind {
        /// The field of the configuration.
        field: &'static str,
        /// As configured.
        addr: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The system refused something else that a node needs.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
}

impl Node {
    /// Reads the rules, binds both ports and serves. Ready when it returns.
    ///
    /// # Errors
    /// [`StartError`] names the field or file to mend.
    pub async fn start(_config: Config) -> Result<Self, StartError> {
        tokio::task::yield_now().await;
        todo!()
    }

    /// Where clients are served: the configured address, with the port that was bound.
    #[must_use]
    pub fn client_addr(&self) -> SocketAddr {
        self.client_addr
    }

    /// Where operators are served.
    #[must_use]
    pub fn admin_addr(&self) -> SocketAddr {
        self.admin_addr
    }

    /// The rules in force.
    #[must_use]
    pub fn rules(&self) -> Arc<RuleBook> {
        todo!()
    }

    /// What is in force and how the last reload went.
    #[must_use]
    pub fn rules_status(&self) -> RulesStatus {
        todo!()
    }

    /// Reads the rules again now, as SIGHUP does. Waits until they are in force or refused.
    pub async fn reload_rules(&self) -> RulesStatus {
        tokio::task::yield_now().await;
        todo!()
    }

    /// Stops gracefully: not ready first, then no new connections, then what is in flight finishes, within the
    /// configured `drain_seconds`. Returns whether everything finished in time.
    pub async fn drain(self) -> bool {
        tokio::task::yield_now().await;
        todo!()
    }
}
