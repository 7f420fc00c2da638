//! Ids for the acquires that came without one, so that they can be asked again, and count of those that may be.
//!
//! Invariant: a sequence that may still be asked again is open, and [`Session::settled`] never names it or a later one. So
//! a shard may drop what it remembers below. A copy of a settled ask that was delayed on the way finds nothing and is
//! charged once more: that strands tokens, it mints none.

use std::collections::BTreeSet;
use std::sync::Arc;

use leasehold_model::RequestId;
use leasehold_shard::Settled;
use parking_lot::Mutex;

/// One process's ids for one shard.
#[derive(Debug)]
pub(crate) struct Session {
    id: u128,
    sequences: Mutex<Sequences>,
}

#[derive(Debug, Default)]
struct Sequences {
    next: u64,
    open: BTreeSet<u64>,
}

/// Some ids that may be asked again as long as this lives.
#[derive(Debug)]
pub(crate) struct OpenIds {
    session: Arc<Session>,
    sequences: Vec<u64>,
}

impl Session {
    /// `id` is random: no other process's session, and no caller's, has it.
    pub(crate) fn new(id: u128) -> Arc<Self> {
        Arc::new(Self { id, sequences: Mutex::default() })
    }

    /// No ids yet; [`OpenIds::draw`] gives them.
    pub(crate) fn open(self: &Arc<Self>) -> OpenIds {
        OpenIds { session: Arc::clone(self), sequences: Vec::new() }
    }

    /// Below what there is no answer left to wait for; none before the first id.
    pub(crate) fn settled(&self) -> Option<Settled> {
        let sequences = self.sequences.lock();
        let below = sequences.open.first().copied().unwrap_or(sequences.next);
        (below > 0).then_some(Settled { session: self.id, below })
    }
}

impl OpenIds {
    /// One more id, open as long as `self` lives.
    pub(crate) fn draw(&mut self) -> RequestId {
        let mut sequences = self.session.sequences.lock();
        let seq = sequences.next;
        sequences.next += 1;
        sequences.open.insert(seq);
        self.sequences.push(seq);
        RequestId { session: self.session.id, seq }
    }
}

impl Drop for OpenIds {
    fn drop(&mut self) {
        if self.sequences.is_empty() {
            return;
        }
        let mut sequences = self.session.sequences.lock();
        for seq in &self.sequences {
            sequences.open.remove(seq);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_may_be_asked_again_is_settled() {
        let session = Session::new(7);
        assert_eq!(session.settled(), None);
        let (mut first, mut second) = (session.open(), session.open());
        assert_eq!(first.draw(), RequestId { session: 7, seq: 0 });
        assert_eq!(session.settled(), None);
        assert_eq!([second.draw().seq, second.draw().seq], [1, 2]);
        drop(first);
        assert_eq!(session.settled(), Some(Settled { session: 7, below: 1 }));
        drop(second);
        assert_eq!(session.settled(), Some(Settled { session: 7, below: 3 }));
    }
}
