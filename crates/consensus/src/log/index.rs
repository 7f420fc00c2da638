//! Where the entries of each group stand, and what of each segment still lives.
//!
//! Invariant: the runs of a group are consecutive, from the entry after `purged` to the last one. The same functions
//! serve the running log and its replay, so both come to the same state.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::record::Place;
use super::tail::Tail;
use super::{Entry, EntryId, GroupId, GroupState, Vote};
use crate::disk::DiskFile;

/// What is known of all groups and files.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) groups: BTreeMap<GroupId, GroupLog>,
    pub(super) live: LiveMap,
    pub(super) files: BTreeMap<u64, SegmentFile>,
    pub(super) tail_bytes_max: usize,
}

/// A segment that can be read.
#[derive(Clone, Debug)]
pub(super) struct SegmentFile {
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) len: u64,
}

/// What a durable record does to the index.
#[derive(Debug)]
pub(super) enum Effect {
    Append { run: Run, entries: Vec<Entry> },
    Moved(Run),
    Vote(Vote),
    Truncate { from: u64, last: Option<EntryId> },
    Purge(EntryId),
    Clear,
}

impl Index {
    pub(super) fn apply(&mut self, group: GroupId, effect: Effect) {
        let log = self.groups.entry(group).or_default();
        match effect {
            Effect::Append { run, entries } => log.append(run, entries, &mut self.live),
            Effect::Moved(run) => log.relocate(run, &mut self.live),
            Effect::Vote(vote) => log.vote = Some(vote),
            Effect::Truncate { from, last } => log.truncate(from, last, &mut self.live),
            Effect::Purge(upto) => log.purge(upto, &mut self.live),
            Effect::Clear => log.clear(&mut self.live),
        }
        let share = self.tail_bytes_max / self.groups.len().max(1);
        if let Some(log) = self.groups.get_mut(&group) {
            log.tail.shrink_to(share);
        }
    }

    pub(super) fn disk_bytes(&self) -> u64 {
        self.files.values().map(|file| file.len).sum()
    }
}

/// Consecutive entries of one leader that stand in one record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) term: u64,
    pub(super) node: u64,
    /// First that lives.
    pub(super) low: u64,
    /// Last that lives.
    pub(super) high: u64,
    /// None during replay, for entries of a segment that is gone: a later record says where they were moved.
    pub(super) place: Option<Place>,
}

impl Run {
    fn last(&self) -> EntryId {
        EntryId { term: self.term, node: self.node, index: self.high }
    }

    fn count(&self) -> u64 {
        self.high - self.low + 1
    }
}

/// What of a segment lives.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Live {
    pub(super) entries: u64,
    /// Of all records with an entry that lives.
    pub(super) bytes: u64,
}

/// Live entries by segment.
#[derive(Debug, Default)]
pub(super) struct LiveMap {
    segments: BTreeMap<u64, Live>,
}

impl LiveMap {
    pub(super) fn of(&self, segment: u64) -> Live {
        self.segments.get(&segment).copied().unwrap_or_default()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.segments.values().map(|live| live.bytes).sum()
    }

    pub(super) fn forget(&mut self, segment: u64) {
        self.segments.remove(&segment);
    }

    fn add(&mut self, run: &Run) {
        if let Some(place) = run.place {
            let live = self.segments.entry(place.segment).or_default();
            live.entries += run.count();
            live.bytes += u64::from(place.len);
        }
    }

    fn remove(&mut self, run: &Run) {
        if let Some(place) = run.place {
            let live = self.segments.entry(place.segment).or_default();
            live.entries = live.entries.saturating_sub(run.count());
            live.bytes = live.bytes.saturating_sub(u64::from(place.len));
        }
    }
}

/// One group's part of the index.
#[derive(Debug, Default)]
pub(super) struct GroupLog {
    pub(super) vote: Option<Vote>,
    pub(super) purged: Option<EntryId>,
    pub(super) runs: VecDeque<Run>,
    pub(super) tail: Tail,
}

impl GroupLog {
    pub(super) fn state(&self) -> GroupState {
        GroupState { vote: self.vote, purged: self.purged, last: self.last() }
    }

    pub(super) fn last(&self) -> Option<EntryId> {
        self.runs.back().map(Run::last).or(self.purged)
    }

    /// The index that an append has to begin with.
    pub(super) fn next_index(&self) -> u64 {
        self.last().map_or(0, |last| last.index.saturating_add(1))
    }

    /// Takes over the bounds that a segment's head states; where the entries stand isn't known yet.
    pub(super) fn set_bounds(&mut self, purged: Option<EntryId>, last: Option<EntryId>) {
        self.purged = purged;
        let low = purged.map_or(0, |purged| purged.index.saturating_add(1));
        if let Some(last) = last.filter(|last| last.index >= low && Some(*last) != purged) {
            self.runs.push_back(Run { term: last.term, node: last.node, low, high: last.index, place: None });
        }
    }

    fn append(&mut self, run: Run, entries: Vec<Entry>, live: &mut LiveMap) {
        live.add(&run);
        self.runs.push_back(run);
        self.tail.push(entries);
    }

    /// What would be the last entry after a truncation.
    pub(super) fn last_below(&self, from: u64) -> Option<EntryId> {
        let run = self.runs.iter().rev().find(|run| run.low < from);
        run.map(|run| EntryId { index: run.high.min(from - 1), ..run.last() }).or(self.purged)
    }

    /// `last` is what [`Self::last_below`] said when the truncation was written.
    fn truncate(&mut self, from: u64, last: Option<EntryId>, live: &mut LiveMap) {
        while let Some(run) = self.runs.pop_back_if(|run| run.high >= from) {
            live.remove(&run);
            if run.low < from {
                let mut kept = Run { high: from - 1, ..run };
                if let (None, Some(last)) = (kept.place, last) {
                    (kept.term, kept.node) = (last.term, last.node);
                }
                live.add(&kept);
                self.runs.push_back(kept);
                break;
            }
        }
        self.tail.truncate(from);
    }

    fn purge(&mut self, upto: EntryId, live: &mut LiveMap) {
        if self.purged.is_some_and(|purged| purged.index >= upto.index) {
            return;
        }
        while let Some(run) = self.runs.pop_front_if(|run| run.low <= upto.index) {
            live.remove(&run);
            if run.high > upto.index {
                let kept = Run { low: upto.index + 1, ..run };
                live.add(&kept);
                self.runs.push_front(kept);
                break;
            }
        }
        self.purged = Some(upto);
        self.tail.purge(upto.index);
    }

    fn clear(&mut self, live: &mut LiveMap) {
        for run in std::mem::take(&mut self.runs) {
            live.remove(&run);
        }
        self.purged = None;
        self.tail = Tail::default();
    }

    /// Gives entries a new place. Those that don't live any more have none.
    fn relocate(&mut self, moved: Run, live: &mut LiveMap) {
        let from = self.runs.partition_point(|run| run.high < moved.low);
        let to = self.runs.partition_point(|run| run.low <= moved.high);
        if from >= to {
            return;
        }
        let old: Vec<Run> = self.runs.drain(from..to).collect();
        let mut new = Vec::with_capacity(old.len() + 2);
        for run in &old {
            live.remove(run);
            let (low, high) = (run.low.max(moved.low), run.high.min(moved.high));
            new.extend((run.low < low).then(|| Run { high: low - 1, ..*run }));
            new.push(Run { low, high, ..moved });
            new.extend((run.high > high).then(|| Run { low: high + 1, ..*run }));
        }
        for (at, run) in new.into_iter().enumerate() {
            live.add(&run);
            self.runs.insert(from + at, run);
        }
    }

    /// The runs that hold `low..=high`, in order.
    pub(super) fn runs_of(&self, low: u64, high: u64) -> impl Iterator<Item = &Run> {
        let from = self.runs.partition_point(|run| run.high < low);
        self.runs.range(from..).take_while(move |run| run.low <= high)
    }
}
