//! What can go wrong, by what was asked.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use leasehold_consensus::disk::LockError;
use leasehold_consensus::log::OpenError;
use leasehold_consensus::meta::MetaError;
use leasehold_consensus::runner::CreateError;

/// Why a node didn't start. Nothing is left running.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory is another process's, or can't be made.
    #[error("data directory {path}: {source}")]
    Data {
        /// Where.
        path: PathBuf,
        /// Why not.
        source: LockError,
    },
    /// What the node remembers can't be read.
    #[error("{0}")]
    Meta(#[from] MetaError),
    /// The log can't be opened.
    #[error("{0}")]
    Log(#[from] OpenError),
    /// A port can't be opened.
    #[error("binding {field} to {address}: {source}")]
    Bind {
        /// The field of the configuration.
        field: &'static str,
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// A setting can't be.
    #[error("{field}: {message}")]
    Setting {
        /// The field of the configuration.
        field: &'static str,
        /// What is wrong and what to write instead.
        message: String,
    },
    /// A replica can't be started.
    #[error("{0}")]
    Replica(#[from] CreateError),
    /// The system refused something else that a node needs.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// Why an ask has no answer. Whether it was carried out isn't known, unless it says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// No leader answered by the deadline.
    #[error("no leader answered in time")]
    Deadline,
    /// Too much waits already. Nothing was done.
    #[error("too many asks wait")]
    Overloaded,
    /// The node belongs to no cluster yet. Nothing was done.
    #[error("the cluster is still forming")]
    Forming,
    /// The node is stopping. Nothing was done.
    #[error("the node is stopping")]
    Stopping,
}
