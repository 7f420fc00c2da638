//! Reading entries back.
//!
//! Invariant: what is returned has its checksum checked, or never left memory. A file is read outside the lock: the
//! writer doesn't wait for it.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::index::{Index, Run, SegmentFile};
use super::record::{self, Record};
use super::{Entry, GroupId, GroupState};

/// Reads a log beside its writer.
#[derive(Clone, Debug)]
pub struct Reader {
    index: Arc<Mutex<Index>>,
}

/// Why entries that exist can't be read: the process has to end.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The bytes on the disk aren't those that were written.
    #[error("group {group}: entries {low} to {high} are damaged (log segment {segment}, byte {offset})")]
    Damaged {
        /// The group.
        group: GroupId,
        /// First entry of the record.
        low: u64,
        /// Last entry of the record.
        high: u64,
        /// Sequence of the segment.
        segment: u64,
        /// Where in it.
        offset: u64,
    },
    /// The file can't be read.
    #[error("the log can't be read: {0}")]
    Io(#[from] io::Error),
}

/// How much room a log takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Files.
    pub segments: usize,
    /// Reserved on the disk.
    pub disk_bytes: u64,
    /// Of records with an entry that lives.
    pub live_bytes: u64,
}

impl Reader {
    pub(super) fn new(index: Arc<Mutex<Index>>) -> Self {
        Self { index }
    }

    /// Every group that has ever been written, cleared ones too.
    #[must_use]
    pub fn groups(&self) -> Vec<GroupId> {
        self.index.lock().groups.keys().copied().collect()
    }

    /// What a group has; nothing when it isn't known.
    #[must_use]
    pub fn state(&self, group: GroupId) -> GroupState {
        self.index.lock().groups.get(&group).map(|log| log.state()).unwrap_or_default()
    }

    /// How much room the log takes.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let index = self.index.lock();
        Usage { segments: index.files.len(), disk_bytes: index.disk_bytes(), live_bytes: index.live.bytes() }
    }

    /// The entries with an index in `range`, in order: those that exist, and of these no more than about `bytes_max`,
    /// but at least one.
    ///
    /// Blocks on the disk for entries that aren't in memory.
    ///
    /// # Errors
    /// When an entry exists and can't be read.
    pub fn read(&self, group: GroupId, range: Range<u64>, bytes_max: u64) -> Result<Vec<Entry>, ReadError> {
        match self.plan(group, range, bytes_max) {
            Plan::Cached(entries) => Ok(entries),
            Plan::Stored(records) => read_all(group, &records),
        }
    }

    /// As [`Self::read`], for entries in memory only: never blocks. `None` when the disk has to be asked.
    #[must_use]
    pub fn read_cached(&self, group: GroupId, range: Range<u64>, bytes_max: u64) -> Option<Vec<Entry>> {
        match self.plan(group, range, bytes_max) {
            Plan::Cached(entries) => Some(entries),
            Plan::Stored(_) => None,
        }
    }

    fn plan(&self, group: GroupId, range: Range<u64>, bytes_max: u64) -> Plan {
        let index = self.index.lock();
        let nothing = Plan::Cached(Vec::new());
        let Some(log) = index.groups.get(&group) else { return nothing };
        let (Some(first), Some(last)) = (log.runs.front(), log.runs.back()) else { return nothing };
        let low = range.start.max(first.low);
        let Some(high) = range.end.checked_sub(1).map(|high| high.min(last.high)).filter(|high| low <= *high)
        else {
            return nothing;
        };
        if let Some(entries) = log.tail.read(low, high, bytes_max) {
            return Plan::Cached(entries);
        }
        let mut bytes = 0_u64;
        let runs = log.runs_of(low, high).take_while(|run| {
            let fits = bytes == 0 || bytes < bytes_max;
            bytes = bytes.saturating_add(run.place.map_or(0, |place| place.len.into()));
            fits
        });
        let wanted = runs.map(|run| Run { low: run.low.max(low), high: run.high.min(high), ..*run });
        Plan::Stored(wanted.map(|run| (run, stored(&index, &run))).collect())
    }
}

enum Plan {
    Cached(Vec<Entry>),
    /// The open files stay readable when their segments are removed meanwhile.
    Stored(Vec<(Run, SegmentFile)>),
}

fn stored(index: &Index, run: &Run) -> SegmentFile {
    let place = run.place.expect("recovery ends with a place for every run");
    index.files.get(&place.segment).expect("a segment stays while an entry in it lives").clone()
}

fn read_all(group: GroupId, records: &[(Run, SegmentFile)]) -> Result<Vec<Entry>, ReadError> {
    let mut entries = Vec::new();
    for (run, file) in records {
        entries.extend(read_run(group, run, file)?);
    }
    Ok(entries)
}

/// Reads the entries of one run from the record that holds them.
pub(super) fn read_run(group: GroupId, run: &Run, from: &SegmentFile) -> Result<Vec<Entry>, ReadError> {
    let place = run.place.expect("recovery ends with a place for every run");
    let mut bytes = vec![0; usize::try_from(place.len).expect("records fit in memory")];
    from.file.read_at(&mut bytes, place.offset)?;
    let damaged = ReadError::Damaged {
        group,
        low: run.low,
        high: run.high,
        segment: place.segment,
        offset: place.offset,
    };
    let found = match record::decode(&Bytes::from(bytes), place.segment, place.offset) {
        Some((owner, Record::Entries(found) | Record::Moved(found), _)) if owner == group => found,
        _ => return Err(damaged),
    };
    let expected = run.high - run.low + 1;
    match found.slice(run.low, run.high) {
        Some(entries) if u64::try_from(entries.len()) == Ok(expected) => Ok(entries),
        _ => Err(damaged),
    }
}
