//! The newest entries of a group, in memory: what followers usually ask for.
//!
//! Invariant: consecutive, ending with the group's last entry; never more bytes than its share, except for one entry.

use std::collections::VecDeque;

use super::Entry;

/// What an entry takes besides its bytes.
const ENTRY_BYTES: usize = size_of::<Entry>();

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Tail {
    entries: VecDeque<Entry>,
    bytes: usize,
}

impl Tail {
    pub(super) fn push(&mut self, entries: Vec<Entry>) {
        for entry in entries {
            self.bytes += ENTRY_BYTES + entry.data.len();
            self.entries.push_back(entry);
        }
    }

    /// Forgets the oldest until the rest takes no more than its share.
    pub(super) fn shrink_to(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max && self.entries.len() > 1 {
            self.pop_front();
        }
        // The queue keeps the room of its longest moment otherwise.
        if self.entries.capacity() > 64 && self.entries.capacity() / 4 > self.entries.len() {
            self.entries.shrink_to(self.entries.len() * 2);
        }
    }

    pub(super) fn truncate(&mut self, from: u64) {
        while self.entries.back().is_some_and(|entry| entry.id.index >= from) {
            if let Some(entry) = self.entries.pop_back() {
                self.bytes -= ENTRY_BYTES + entry.data.len();
            }
        }
    }

    pub(super) fn purge(&mut self, upto: u64) {
        while self.entries.front().is_some_and(|entry| entry.id.index <= upto) {
            self.pop_front();
        }
    }

    /// From `low` on, up to `high` and about `bytes_max`, at least one; `None` when `low` isn't here.
    pub(super) fn read(&self, low: u64, high: u64, bytes_max: u64) -> Option<Vec<Entry>> {
        let first = self.entries.front().filter(|first| first.id.index <= low)?;
        let skipped = usize::try_from(low - first.id.index).ok()?;
        let mut bytes = 0_u64;
        let found = self.entries.iter().skip(skipped).take_while(|entry| {
            let fits = bytes == 0 || bytes < bytes_max;
            bytes = bytes.saturating_add(u64::try_from(entry.data.len()).unwrap_or(u64::MAX)).max(1);
            fits && entry.id.index <= high
        });
        Some(found.cloned().collect())
    }

    fn pop_front(&mut self) {
        if let Some(entry) = self.entries.pop_front() {
            self.bytes -= ENTRY_BYTES + entry.data.len();
        }
    }
}
