//! Opening a log: reads every segment, and tells a torn write from damage.
//!
//! Invariant: what comes out is the state after some write, and after every acknowledged one unless the last write
//! itself was damaged. Anything else is an error: a log that may have forgotten something must not be voted with.

use std::io;
use std::sync::Arc;

use bytes::Bytes;

use super::index::{Effect, Index, Run, SegmentFile};
use super::record::{self, Entries, HEAD_BYTES, Head, Place, Record};
use super::segment;
use super::{GroupId, OpenError};
use crate::disk::{Disk, DiskFile};

/// What the files say.
#[derive(Debug, Default)]
pub(super) struct Recovered {
    pub(super) index: Index,
    /// 0 when there is no segment.
    pub(super) last_sequence: u64,
    pub(super) last_end: u64,
}

/// A segment being read.
struct Scan {
    sequence: u64,
    file: Arc<dyn DiskFile>,
    bytes: Bytes,
    head: Head,
}

pub(super) fn recover(disk: &dyn Disk) -> Result<Recovered, OpenError> {
    segment::remove_unfinished(disk)?;
    let names = disk.list()?;
    let sequences: Vec<u64> = names.iter().filter_map(|name| segment::sequence(name)).collect();

    let mut recovered = Recovered::default();
    let mut next = sequences.first().map(|first| Scan::open(disk, *first)).transpose()?;
    for at in 0..sequences.len() {
        let Some(scan) = next.take() else { break };
        next = sequences.get(at + 1).map(|sequence| Scan::open(disk, *sequence)).transpose()?;
        let sealed_at = next.as_ref().map(|next| next.head.previous_end);
        if let Some(gap) = next.as_ref().filter(|next| next.sequence != scan.sequence + 1) {
            return Err(damaged(gap.sequence, 0, "the segment before it is missing"));
        }
        recovered.replay(&scan, at == 0, sealed_at)?;
    }
    recovered.check_whole()?;
    disk.sync_dir()?;
    Ok(recovered)
}

impl Scan {
    fn open(disk: &dyn Disk, sequence: u64) -> Result<Self, OpenError> {
        let file = disk.open(&segment::name(sequence))?;
        let len = usize::try_from(file.len()?).map_err(io::Error::other)?;
        let mut bytes = vec![0; len];
        file.read_at(&mut bytes, 0)?;
        let bytes = Bytes::from(bytes);
        match record::decode(&bytes, sequence, 0) {
            Some((_, Record::Head(head), _)) if head.segment == sequence => {
                Ok(Self { sequence, file, bytes, head })
            }
            _ => Err(damaged(sequence, 0, "its first record can't be read")),
        }
    }

    fn len(&self) -> u64 {
        u64::try_from(self.bytes.len()).expect("a length fits in 64 bits")
    }

    fn record_at(&self, offset: u64) -> Option<(GroupId, Record, u64)> {
        let start = usize::try_from(offset).ok().filter(|start| *start < self.bytes.len())?;
        record::decode(&self.bytes.slice(start..), self.sequence, offset)
    }

    /// Whether something behind `offset` proves that what stands there was synced.
    fn marker_behind(&self, offset: u64) -> Option<u64> {
        let offsets = (offset.next_multiple_of(8)..self.len()).step_by(8).skip(1);
        let mut markers = offsets.filter(|at| {
            let start = usize::try_from(*at).unwrap_or(usize::MAX);
            self.bytes.get(start..).is_some_and(|bytes| record::is_marker(bytes, self.sequence, *at))
        });
        markers.next()
    }
}

impl Recovered {
    fn replay(&mut self, scan: &Scan, first: bool, sealed_at: Option<u64>) -> Result<(), OpenError> {
        let mut offset = HEAD_BYTES as u64;
        let mut last_marker = scan.head.head_bytes;
        let end = loop {
            if sealed_at == Some(offset) {
                break offset;
            }
            let Some((group, record, len)) = scan.record_at(offset) else {
                break scan.end_at(offset, sealed_at)?;
            };
            if offset >= scan.head.head_bytes {
                if matches!(record, Record::Marker { synced } if synced == offset) {
                    last_marker = offset;
                } else {
                    let place = place(scan.sequence, offset, len);
                    let replayed = self.replay_record(group, record, place);
                    replayed.map_err(|what| damaged(scan.sequence, offset, what))?;
                }
            } else if first {
                self.take_head(group, &record);
            } else {
                self.check_head(group, &record, scan, offset)?;
            }
            offset += len;
        };
        if sealed_at.is_none() {
            scan.write_back(last_marker, end)?;
        }
        (self.last_sequence, self.last_end) = (scan.sequence, end);
        self.index.files.insert(scan.sequence, SegmentFile { file: Arc::clone(&scan.file), len: scan.len() });
        Ok(())
    }

    /// The head of the oldest segment is all that is left of those before it.
    fn take_head(&mut self, group: GroupId, record: &Record) {
        let log = self.index.groups.entry(group).or_default();
        if let Record::Bounds { purged, last } = record {
            log.set_bounds(*purged, *last);
        } else if let Record::Vote(vote) = record {
            log.vote = Some(*vote);
        }
    }

    /// The heads of later segments repeat what the ones before them say.
    fn check_head(&self, group: GroupId, record: &Record, scan: &Scan, offset: u64) -> Result<(), OpenError> {
        let state = self.index.groups.get(&group).map(|log| log.state()).unwrap_or_default();
        let same = if let Record::Bounds { purged, last } = record {
            (state.purged, state.last) == (*purged, *last)
        } else if let Record::Vote(vote) = record {
            state.vote == Some(*vote)
        } else {
            false
        };
        if same {
            Ok(())
        } else {
            Err(damaged(scan.sequence, offset, "it doesn't continue the one before it"))
        }
    }

    fn replay_record(&mut self, group: GroupId, record: Record, place: Place) -> Result<(), &'static str> {
        let log = self.index.groups.entry(group).or_default();
        let effect = match record {
            Record::Entries(entries) if entries.first.index == log.next_index() => {
                Effect::Append { run: run(&entries, place), entries: Vec::new() }
            }
            Record::Entries(_) => return Err("entries don't follow the last one"),
            Record::Moved(entries) => Effect::Moved(run(&entries, place)),
            Record::Vote(vote) => Effect::Vote(vote),
            Record::Truncate { from, last } => Effect::Truncate { from, last },
            Record::Purge(upto) => Effect::Purge(upto),
            Record::Clear => Effect::Clear,
            Record::Head(_) | Record::Bounds { .. } | Record::Marker { .. } => {
                return Err("a record stands where it can't");
            }
        };
        self.index.apply(group, effect);
        Ok(())
    }

    /// Every entry that should exist has a place.
    fn check_whole(&self) -> Result<(), OpenError> {
        for (group, log) in &self.index.groups {
            if let Some(lost) = log.runs.iter().find(|run| run.place.is_none()) {
                let what = format!("entries {} to {} of group {group} are nowhere", lost.low, lost.high);
                return Err(damaged(self.last_sequence, self.last_end, &what));
            }
        }
        Ok(())
    }
}

impl Scan {
    /// Where the segment ends when no record can be read at `offset`.
    fn end_at(&self, offset: u64, sealed_at: Option<u64>) -> Result<u64, OpenError> {
        if sealed_at.is_some() || offset < self.head.head_bytes {
            return Err(damaged(self.sequence, offset, "a synced record can't be read"));
        }
        match self.marker_behind(offset) {
            Some(marker) => {
                let what = format!("a record can't be read that was synced before byte {marker} was written");
                Err(damaged(self.sequence, offset, &what))
            }
            None => Ok(offset),
        }
    }

    /// Writes the last write once more and syncs it. It may stand in the cache only: its sync may never have run, or
    /// may have failed, after which the system shows bytes that the disk doesn't have.
    fn write_back(&self, from: u64, to: u64) -> io::Result<()> {
        let range = usize::try_from(from).map_err(io::Error::other)?
            ..usize::try_from(to).map_err(io::Error::other)?;
        if let Some(bytes) = self.bytes.get(range).filter(|bytes| !bytes.is_empty()) {
            self.file.write_at(bytes, from)?;
        }
        self.file.sync_data()
    }
}

fn run(entries: &Entries, place: Place) -> Run {
    Run {
        term: entries.first.term,
        node: entries.first.node,
        low: entries.first.index,
        high: entries.last_index(),
        place: Some(place),
    }
}

fn place(segment: u64, offset: u64, len: u64) -> Place {
    Place { segment, offset, len: u32::try_from(len).expect("a record's length is 32 bits") }
}

fn damaged(segment: u64, offset: u64, what: &str) -> OpenError {
    OpenError::Damaged { segment, offset, what: what.to_owned() }
}
