//! Files of the log: their names, and how one comes to be.
//!
//! Invariant: a file named `.seg` has a whole, synced head. It is put together under another name first, so a crash
//! leaves no half a head behind that could be taken for damage.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use super::GroupId;
use super::index::GroupLog;
use super::record::{Batch, HEAD_BYTES, Head};
use crate::disk::{Disk, DiskFile};

/// What a segment is called until its head is synced.
const UNFINISHED: &str = "next.tmp";

/// A segment that takes records.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) sequence: u64,
    /// Reserved on the disk.
    pub(super) len: u64,
    /// Where the next record goes.
    pub(super) end: u64,
}

pub(super) fn name(sequence: u64) -> String {
    format!("{sequence:016x}.seg")
}

/// The sequence in a segment's name; `None` for other files.
pub(super) fn sequence(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".seg").filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(digits, 16).ok()
}

/// Removes what a crash left of a segment in the making.
pub(super) fn remove_unfinished(disk: &dyn Disk) -> io::Result<()> {
    match disk.remove(UNFINISHED) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Makes a segment with this head, room for `room` bytes after it, and at least `len` long.
pub(super) fn create(disk: &dyn Disk, head: &Batch, len: u64, room: u64) -> io::Result<Segment> {
    let end = head.len();
    let len = len.max(end.saturating_add(room)).next_multiple_of(4096);
    let sequence = head.segment();

    let file = disk.create(UNFINISHED)?;
    file.preallocate(len)?;
    file.write_at(head.bytes(), 0)?;
    file.sync_data()?;
    // From here on the name may be durable, and with it the end of the segment before: an error is no "full" any more,
    // after which that one could grow on.
    disk.rename(UNFINISHED, &name(sequence)).and_then(|()| disk.sync_dir()).map_err(io::Error::other)?;
    Ok(Segment { file, sequence, len, end })
}

/// The head of the segment after one that ends at `previous_end`: what all groups have by now.
pub(super) fn head(segment: u64, previous_end: u64, groups: &BTreeMap<GroupId, GroupLog>) -> Batch {
    let mut states = Batch::new(segment, HEAD_BYTES as u64);
    for (group, log) in groups {
        let state = log.state();
        states.bounds(*group, state.purged, state.last);
        if let Some(vote) = state.vote {
            states.vote(*group, vote);
        }
    }
    let mut head = Batch::new(segment, 0);
    let head_bytes = HEAD_BYTES as u64 + states.len();
    head.head(Head { segment, previous_end, head_bytes });
    head.extend(states);
    head
}
