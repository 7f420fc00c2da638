//! What a broker answered its children, for those that ask again.
//!
//! Invariant: forgetting an answer is safe at any time: see [`broker`](super::broker).

use std::collections::{BTreeMap, VecDeque};

use leasehold_model::{BootTime, Nanos, RequestId};

use crate::{LIFETIME_MAX, Leased};

/// Longer than any ask is sent again: its lease would be over.
const KEPT: Nanos = LIFETIME_MAX;

#[cfg_attr(test, derive(Clone, Hash))]
#[derive(Debug, Default)]
pub(super) struct Replies {
    by_id: BTreeMap<(u128, u64), Leased>,
    /// In the order they were given, to forget by.
    given: VecDeque<(BootTime, RequestId)>,
}

impl Replies {
    pub(super) fn get(&self, id: RequestId) -> Option<Leased> {
        self.by_id.get(&(id.session, id.seq)).copied()
    }

    /// Keeps an answer; at `max` the oldest goes.
    pub(super) fn remember(&mut self, id: RequestId, leased: Leased, max: usize, now: BootTime) {
        if self.by_id.insert((id.session, id.seq), leased).is_some() {
            return;
        }
        self.given.push_back((now, id));
        while self.given.len() > max.max(1) {
            self.forget_oldest();
        }
    }

    /// Drops a session's answers below a sequence.
    pub(super) fn settle(&mut self, session: u128, below: u64) {
        let settled: Vec<_> = self.by_id.range((session, 0)..(session, below)).map(|(&id, _)| id).collect();
        for id in settled {
            self.by_id.remove(&id);
        }
    }

    /// Drops what nobody asks for any more.
    pub(super) fn forget(&mut self, now: BootTime) {
        while self.given.front().is_some_and(|&(given, _)| now.since(given) >= KEPT) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, id)) = self.given.pop_front() {
            self.by_id.remove(&(id.session, id.seq));
        }
    }
}
