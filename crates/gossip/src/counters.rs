//! What was sent, heard and dropped, counted since the start.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why a datagram or a value was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Its source sent more than its budget; it wasn't opened.
    Budget,
    /// Too short to have been sealed.
    Short,
    /// Longer than anything that is sealed.
    Long,
    /// Another version of the sealing format.
    Version,
    /// No key of the ring opens it: forged, damaged, or from another cluster.
    Forged,
    /// From a boot before one that was heard.
    OldBoot,
    /// Heard before, or too late to tell.
    Replayed,
    /// Sealed under this node's own id: an echo, or two nodes with one id.
    Echo,
    /// Sealed properly, but not a message that is safe to hand on.
    Malformed,
    /// The operating system reported an error on receiving.
    Receive,
    /// A value in some node's state that isn't what its key promises, once each round; the rest of that state is used.
    Value,
    /// There are more members than the table holds.
    Members,
    /// To be sent, but too long to be sealed.
    SendLong,
    /// The operating system refused to send.
    Send,
}

impl Reason {
    /// All of them, in the order of [`Counts::dropped`].
    pub const ALL: [Self; 14] = [
        Self::Budget,
        Self::Short,
        Self::Long,
        Self::Version,
        Self::Forged,
        Self::OldBoot,
        Self::Replayed,
        Self::Echo,
        Self::Malformed,
        Self::Receive,
        Self::Value,
        Self::Members,
        Self::SendLong,
        Self::Send,
    ];

    /// As a metric's label.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Budget => "budget",
            Self::Short => "short",
            Self::Long => "long",
            Self::Version => "version",
            Self::Forged => "forged",
            Self::OldBoot => "old_boot",
            Self::Replayed => "replayed",
            Self::Echo => "echo",
            Self::Malformed => "malformed",
            Self::Receive => "receive",
            Self::Value => "value",
            Self::Members => "members",
            Self::SendLong => "send_long",
            Self::Send => "send",
        }
    }

    const fn index(self) -> usize {
        self as usize
    }
}

/// The running counts. Adding is wait-free; a reading is not a snapshot of one instant.
#[derive(Debug, Default)]
pub struct Counters {
    dropped: [AtomicU64; Reason::ALL.len()],
    heard: AtomicU64,
    sent: AtomicU64,
    trimmed: AtomicU64,
    restarts: AtomicU64,
}

/// A reading of the counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// How many were dropped, by reason, in the order of [`Reason::ALL`].
    pub dropped: [u64; Reason::ALL.len()],
    /// Datagrams that passed every check.
    pub heard: u64,
    /// Datagrams that were sent.
    pub sent: u64,
    /// Messages whose news was cut to fit a datagram; the rest follows in the next exchange.
    pub trimmed: u64,
    /// How often the gossip task had to be started again.
    pub restarts: u64,
}

impl Counts {
    /// How many were dropped for this reason.
    #[must_use]
    pub const fn dropped_for(&self, reason: Reason) -> u64 {
        self.dropped[reason.index()]
    }
}

impl Counters {
    pub(crate) fn dropped(&self, reason: Reason) {
        self.dropped_many(reason, 1);
    }

    pub(crate) fn dropped_many(&self, reason: Reason, count: u64) {
        self.dropped[reason.index()].fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn heard(&self) {
        self.heard.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn sent(&self) {
        self.sent.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn trimmed(&self) {
        self.trimmed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn restarted(&self) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
    }

    /// The counts as they are now.
    #[must_use]
    pub fn read(&self) -> Counts {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            dropped: self.dropped.each_ref().map(load),
            heard: load(&self.heard),
            sent: load(&self.sent),
            trimmed: load(&self.trimmed),
            restarts: load(&self.restarts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_own_counter_and_name() {
        let counters = Counters::default();
        for (index, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason.index(), index);
            counters.dropped_many(reason, u64::try_from(index).unwrap() + 1);
        }
        let expected: Vec<u64> = (1..=14).collect();
        assert_eq!(counters.read().dropped.to_vec(), expected);
        let mut names = Reason::ALL.map(Reason::name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Reason::ALL.len());
    }
}
