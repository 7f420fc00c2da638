//! A node's disk: what is written is there after a sync, and after a crash only what was synced is sure to be.
//!
//! Invariant: a crash keeps a prefix of what wasn't synced, cut anywhere, inside a write too: a torn one loses its tail. One
//! sync is under way at a time and takes all that was written by its begin; who waits for a write is told after it.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use crate::chance::Chance;
use crate::log::{Durable, Entry, Snap, Speech};

/// One write of a group.
#[derive(Clone, Debug)]
pub(crate) enum Write {
    /// The term, and whom it votes for.
    Vote {
        /// The newest term known.
        term: u64,
        /// Whom this node voted for in it.
        voted: Option<usize>,
    },
    /// Entries, in place of whatever stood from the first of them on.
    Append(Vec<Rc<Entry>>),
    /// A snapshot; entries up to an index go.
    Snapshot {
        /// What to start from.
        snap: Rc<Snap>,
        /// Entries up to here aren't needed any more.
        purged: u64,
    },
}

/// Something to say to a node once a write is on disk.
pub(crate) type Then = Vec<(usize, Speech)>;

#[derive(Clone, Debug)]
struct Pending {
    group: usize,
    write: Write,
    then: Then,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    groups: BTreeMap<usize, Durable>,
    pending: VecDeque<Pending>,
    /// How many of the pending the sync under way takes.
    syncing: Option<usize>,
    /// No room for entries; votes have a reserve.
    pub(crate) full: bool,
    /// Each sync takes so much longer.
    pub(crate) slow: u64,
}

impl Disk {
    /// What is on it of a group.
    #[must_use]
    pub(crate) fn read(&self, group: usize) -> Durable {
        self.groups.get(&group).cloned().unwrap_or_default()
    }

    /// Queues a write.
    pub(crate) fn write(&mut self, group: usize, write: Write, then: Then) {
        self.pending.push_back(Pending { group, write, then });
    }

    /// Begins a sync if there is something to sync and none is under way.
    pub(crate) fn begin_sync(&mut self) -> bool {
        if self.syncing.is_some() || self.pending.is_empty() {
            return false;
        }
        self.syncing = Some(self.pending.len());
        true
    }

    /// The sync is done: what is to be said now, by group.
    pub(crate) fn synced(&mut self) -> Vec<(usize, Then)> {
        let count = self.syncing.take().unwrap_or(0);
        let done: Vec<Pending> = self.pending.drain(..count).collect();
        done.into_iter()
            .map(|Pending { group, write, then }| {
                self.groups.entry(group).or_default().take(write);
                (group, then)
            })
            .collect()
    }

    /// Power fails. Says whether a write was torn.
    pub(crate) fn crash(&mut self, torn: bool, chance: &mut Chance) -> bool {
        self.syncing = None;
        let keep = chance.place(self.pending.len() + 1);
        let mut pending = std::mem::take(&mut self.pending).into_iter();
        for Pending { group, write, .. } in pending.by_ref().take(keep) {
            self.groups.entry(group).or_default().take(write);
        }
        let Some(Pending { group, write: Write::Append(mut entries), .. }) = pending.next().filter(|_| torn)
        else {
            return false;
        };
        entries.truncate(chance.place(entries.len() + 1));
        if !entries.is_empty() {
            self.groups.entry(group).or_default().take(Write::Append(entries));
        }
        true
    }
}
