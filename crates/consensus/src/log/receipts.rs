//! When the newest entries of a group came to this replica.
//!
//! Invariant: a time belongs to one entry, by its term and leader too, so an entry that was cut off again lends its time to no
//! other; and it is never earlier than the entry was made. What isn't known (after a restart, or too long ago) is said to be so.

use std::collections::VecDeque;
use std::sync::Arc;

use leasehold_model::{Nanos, Stamp};
use parking_lot::Mutex;

use super::{Entry, EntryId};

/// Entries whose times are kept, as long as they aren't applied. At the bound the oldest are forgotten: all that hangs on
/// them is taken over by the later ones when those are applied.
const RECEIPTS_MAX: usize = 1024;

/// See the module. Clones are the same ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Receipts(Arc<Mutex<VecDeque<Receipt>>>);

#[derive(Clone, Copy, Debug)]
struct Receipt {
    entry: EntryId,
    at: Stamp,
}

impl Receipts {
    /// These entries have come now. They take the place of what stood there and behind.
    pub(crate) fn note(&self, entries: &[Entry], now: Stamp) {
        let Some(first) = entries.first() else { return };
        let mut receipts = self.0.lock();
        while receipts.back().is_some_and(|last| last.entry.index >= first.id.index) {
            receipts.pop_back();
        }
        for entry in entries {
            if receipts.len() >= RECEIPTS_MAX {
                receipts.pop_front();
            }
            receipts.push_back(Receipt { entry: entry.id, at: now });
        }
    }

    /// How long ago this entry came, if that is known. Forgets it, and those before it.
    pub(crate) fn take(&self, entry: EntryId, now: Stamp) -> Option<Nanos> {
        let mut receipts = self.0.lock();
        let mut came = None;
        while let Some(first) = receipts.front().filter(|first| first.entry.index <= entry.index) {
            came = (first.entry == entry).then(|| now.since(first.at));
            receipts.pop_front();
        }
        came
    }
}

#[cfg(test)]
mod tests;
