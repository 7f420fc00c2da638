//! What a node's data path counts, for operators.

use std::sync::atomic::{AtomicU64, Ordering};

/// Since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Entries that shards led here committed for asks.
    pub entries: u64,
    /// Commands in them.
    pub commands: u64,
    /// Commands answered from applied state, without an entry.
    pub unlogged: u64,
    /// Messages with asks sent to other nodes.
    pub forwards: u64,
    /// Commands in them.
    pub forwarded: u64,
    /// Messages to leaders of shards in other regions, looks included.
    pub far: u64,
    /// Attempts after the first.
    pub retries: u64,
    /// Attempts whose outcome nobody knows: they were made again under the same id, or given up.
    pub unknown: u64,
    /// Asks refused because too much waited.
    pub overloaded: u64,
    /// Requests whose limits lie on several shards.
    pub spread: u64,
    /// Of these, returns of what a refused one had taken.
    pub returns: u64,
    /// Of these, returns that were given up: their units are stranded.
    pub stranded: u64,
}

/// Counts up.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    pub(crate) entries: AtomicU64,
    pub(crate) commands: AtomicU64,
    pub(crate) unlogged: AtomicU64,
    pub(crate) forwards: AtomicU64,
    pub(crate) forwarded: AtomicU64,
    pub(crate) far: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) unknown: AtomicU64,
    pub(crate) overloaded: AtomicU64,
    pub(crate) spread: AtomicU64,
    pub(crate) returns: AtomicU64,
    pub(crate) stranded: AtomicU64,
}

impl Meters {
    /// One more.
    pub(crate) fn count(meter: &AtomicU64) {
        Self::count_all(meter, 1);
    }

    /// So many more.
    pub(crate) fn count_all(meter: &AtomicU64, many: usize) {
        meter.fetch_add(u64::try_from(many).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Counts {
        let read = |meter: &AtomicU64| meter.load(Ordering::Relaxed);
        Counts {
            entries: read(&self.entries),
            commands: read(&self.commands),
            unlogged: read(&self.unlogged),
            forwards: read(&self.forwards),
            forwarded: read(&self.forwarded),
            far: read(&self.far),
            retries: read(&self.retries),
            unknown: read(&self.unknown),
            overloaded: read(&self.overloaded),
            spread: read(&self.spread),
            returns: read(&self.returns),
            stranded: read(&self.stranded),
        }
    }
}
