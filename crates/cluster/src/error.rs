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
    /// The log was begun and isn't there any more, and with it the votes that the node gave: as the same node it may not
    /// vote again.
    #[error(
        "the log of the data directory {path} is gone: empty the directory, the node then joins as a new one"
    )]
    LogGone {
        /// The data directory.
        path: PathBuf,
    },
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

/// Why an ask has no answer. Only after [`Self::Deadline`] may it have been carried out, or a part of it; where another
/// reason is given, what was taken of a request over several shards goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// No leader answered by the deadline. Whether it was carried out isn't known.
    #[error("no leader answered in time")]
    Deadline,
    /// No leader could be reached by the deadline. Nothing was done.
    #[error("no leader could be reached in time")]
    Unreached,
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

impl Unanswered {
    /// Whether nothing was done, for certain.
    pub(crate) const fn is_undone(self) -> bool {
        match self {
            Self::Deadline => false,
            Self::Unreached | Self::Overloaded | Self::Forming | Self::Stopping => true,
        }
    }

    /// Why the whole has no answer when this is the reason of a part: nothing is promised where other parts were done.
    pub(crate) const fn of_whole(self, others_done: bool) -> Self {
        if others_done { Self::Deadline } else { self }
    }
}
