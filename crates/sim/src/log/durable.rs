//! What a replica starts from: its vote, its last snapshot and the entries after it.

use std::collections::VecDeque;
use std::rc::Rc;

use super::{Entry, Snap};
use crate::disk::Write;

/// See the module. Entries follow `base` without a gap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Durable {
    pub(super) term: u64,
    pub(super) voted: Option<usize>,
    /// Place and term of the entry before the first.
    pub(super) base: (u64, u64),
    pub(super) entries: VecDeque<Rc<Entry>>,
    /// The newest snapshot.
    pub(crate) snap: Option<Rc<Snap>>,
}

impl Durable {
    /// A write is done.
    pub(crate) fn take(&mut self, write: Write) {
        match write {
            Write::Vote { term, voted } => (self.term, self.voted) = (term, voted),
            Write::Append(entries) => self.append(&entries),
            Write::Snapshot { snap, purged } => {
                self.rest_on(&snap, purged);
                self.snap = Some(snap);
            }
        }
    }

    /// Place and term of the last entry.
    pub(super) fn last(&self) -> (u64, u64) {
        self.entries.back().map_or(self.base, |entry| (entry.index, entry.term))
    }

    pub(super) fn term_at(&self, index: u64) -> Option<u64> {
        if index == self.base.0 {
            return Some(self.base.1);
        }
        self.at(index).map(|entry| entry.term)
    }

    pub(super) fn at(&self, index: u64) -> Option<&Rc<Entry>> {
        let place = index.checked_sub(self.base.0 + 1)?;
        self.entries.get(usize::try_from(place).ok()?)
    }

    /// Puts entries in, in place of whatever stood from the first of them on.
    pub(super) fn append(&mut self, entries: &[Rc<Entry>]) {
        let Some(first) = entries.first() else { return };
        while self.entries.back().is_some_and(|entry| entry.index >= first.index) {
            self.entries.pop_back();
        }
        if self.last().0 + 1 == first.index {
            self.entries.extend(entries.iter().cloned());
        }
    }

    /// Goes on from a snapshot: entries up to `purged` go, and all of them where they don't go on from it.
    pub(super) fn rest_on(&mut self, snap: &Snap, purged: u64) {
        if self.term_at(snap.index) != Some(snap.term) {
            self.entries.clear();
            self.base = (snap.index, snap.term);
            return;
        }
        while self.entries.front().is_some_and(|entry| entry.index <= purged) {
            if let Some(entry) = self.entries.pop_front() {
                self.base = (entry.index, entry.term);
            }
        }
    }
}
