//! Records: how one change stands in a segment.
//!
//! Invariant: a record is valid only where it was written. Its CRC32C covers the segment's sequence and the offset
//! besides all its bytes, so that nothing left over from another write can be taken for it.
//!
//! Layout, little-endian: `length u32, crc u32, group u32, kind u32, payload`, padded with zeros to 8 bytes.

use bytes::{Buf, BufMut, Bytes};

use super::{Entry, EntryId, GroupId, Vote};

/// Bytes before a payload.
pub(super) const HEADER_BYTES: usize = 16;
/// Bytes of a marker, header included.
pub(super) const MARKER_BYTES: usize = HEADER_BYTES + 8;
/// Bytes of a head record, header included.
pub(super) const HEAD_BYTES: usize = HEADER_BYTES + 40;
/// Bytes of an entries payload before its first entry.
const ENTRIES_HEAD_BYTES: usize = 28;

const MAGIC: u64 = u64::from_le_bytes(*b"LHLDLOG\0");
const VERSION: u64 = 1;

/// What a record is. The numbers are on disk: never reuse one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// First record of a segment.
    Head = 1,
    /// In the head: purged and last of a group.
    Bounds = 2,
    Vote = 3,
    Entries = 4,
    /// Entries copied out of an old segment: a new place, not an append.
    Moved = 5,
    Truncate = 6,
    Purge = 7,
    Clear = 8,
    /// All that stands before it was synced before it was written.
    Marker = 9,
}

impl Kind {
    fn of(number: u32) -> Option<Self> {
        let kinds = [
            Self::Head,
            Self::Bounds,
            Self::Vote,
            Self::Entries,
            Self::Moved,
            Self::Truncate,
            Self::Purge,
            Self::Clear,
            Self::Marker,
        ];
        kinds.into_iter().find(|kind| *kind as u32 == number)
    }
}

/// Where a record stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Sequence of the segment.
    pub(super) segment: u64,
    /// Of the record's header in it.
    pub(super) offset: u64,
    /// Length with header and padding.
    pub(super) len: u32,
}

/// First record of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) segment: u64,
    /// Where the segment before it ends: what stands behind in it was never acknowledged.
    pub(super) previous_end: u64,
    /// Length of the whole head, synced before the segment got its name.
    pub(super) head_bytes: u64,
}

/// The entries of one record: consecutive, of one leader.
#[derive(Clone, Debug)]
pub(super) struct Entries {
    pub(super) first: EntryId,
    pub(super) count: u32,
    /// `length u32, bytes` for each.
    body: Bytes,
}

/// A record that was read.
#[derive(Clone, Debug)]
pub(super) enum Record {
    Head(Head),
    Bounds { purged: Option<EntryId>, last: Option<EntryId> },
    Vote(Vote),
    Entries(Entries),
    Moved(Entries),
    Truncate { from: u64, last: Option<EntryId> },
    Purge(EntryId),
    Clear,
    Marker { synced: u64 },
}

impl Entries {
    /// The id of the last one.
    pub(super) fn last_index(&self) -> u64 {
        self.first.index + u64::from(self.count) - 1
    }

    /// Those with an index in `low..=high`.
    pub(super) fn slice(&self, low: u64, high: u64) -> Option<Vec<Entry>> {
        let mut body = self.body.clone();
        let mut found = Vec::new();
        for index in self.first.index..=self.last_index().min(high) {
            let length = usize::try_from(body.try_get_u32_le().ok()?).ok()?;
            if length > body.len() {
                return None;
            }
            let data = body.split_to(length);
            if index >= low {
                found.push(Entry { id: EntryId { index, ..self.first }, data });
            }
        }
        Some(found)
    }
}

/// Records being put together for one place in a segment.
#[derive(Debug)]
pub(super) struct Batch {
    segment: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl Batch {
    pub(super) fn new(segment: u64, start: u64) -> Self {
        Self { segment, start, bytes: Vec::new() }
    }

    pub(super) const fn segment(&self) -> u64 {
        self.segment
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn len(&self) -> u64 {
        u64::try_from(self.bytes.len()).expect("a batch fits in memory")
    }

    /// Takes records that were put together for the place where this batch ends.
    pub(super) fn extend(&mut self, next: Self) {
        debug_assert_eq!((self.segment, self.start + self.len()), (next.segment, next.start));
        self.bytes.extend(next.bytes);
    }

    pub(super) fn head(&mut self, head: Head) {
        self.put(GroupId::default(), Kind::Head, |out| {
            for field in [MAGIC, VERSION, head.segment, head.previous_end, head.head_bytes] {
                out.put_u64_le(field);
            }
        });
    }

    pub(super) fn marker(&mut self) {
        let synced = self.start + self.len();
        self.put(GroupId::default(), Kind::Marker, |out| out.put_u64_le(synced));
    }

    pub(super) fn bounds(&mut self, group: GroupId, purged: Option<EntryId>, last: Option<EntryId>) {
        self.put(group, Kind::Bounds, |out| {
            put_optional_id(out, purged);
            put_optional_id(out, last);
        });
    }

    pub(super) fn vote(&mut self, group: GroupId, vote: Vote) {
        self.put(group, Kind::Vote, |out| {
            out.put_u64_le(vote.term);
            out.put_u64_le(vote.node);
            out.put_u8(u8::from(vote.committed));
        });
    }

    pub(super) fn truncate(&mut self, group: GroupId, from: u64, last: Option<EntryId>) {
        self.put(group, Kind::Truncate, |out| {
            out.put_u64_le(from);
            put_optional_id(out, last);
        });
    }

    pub(super) fn purge(&mut self, group: GroupId, upto: EntryId) {
        self.put(group, Kind::Purge, |out| put_id(out, upto));
    }

    pub(super) fn clear(&mut self, group: GroupId) {
        self.put(group, Kind::Clear, |_| {});
    }

    /// `entries` are consecutive and of one leader.
    pub(super) fn entries(&mut self, group: GroupId, kind: Kind, entries: &[Entry]) -> Place {
        self.put(group, kind, |out| {
            put_id(out, entries[0].id);
            out.put_u32_le(length_u32(entries.len()));
            for entry in entries {
                out.put_u32_le(length_u32(entry.data.len()));
                out.put_slice(&entry.data);
            }
        })
    }

    fn put(&mut self, group: GroupId, kind: Kind, payload: impl FnOnce(&mut Vec<u8>)) -> Place {
        let at = self.bytes.len();
        let offset = self.start + self.len();
        self.bytes.put_bytes(0, 8);
        self.bytes.put_u32_le(group.0);
        self.bytes.put_u32_le(kind as u32);
        payload(&mut self.bytes);
        let length = length_u32(self.bytes.len() - at - HEADER_BYTES);
        let crc = checksum(self.segment, offset, length, &self.bytes[at + 8..]);
        self.bytes[at..at + 4].copy_from_slice(&length.to_le_bytes());
        self.bytes[at + 4..at + 8].copy_from_slice(&crc.to_le_bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        Place { segment: self.segment, offset, len: length_u32(self.bytes.len() - at) }
    }
}

/// Bytes that these entries take as one record at most, when each had a leader of its own.
pub(super) fn entries_bytes(entries: &[Entry]) -> u64 {
    let each = HEADER_BYTES + ENTRIES_HEAD_BYTES + 4 + 8;
    let bytes = entries.iter().map(|entry| entry.data.len() + each).sum::<usize>();
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// The record at the beginning of `bytes`, which stand at `offset` of a segment, and its length with padding; `None`
/// when no valid record stands there.
pub(super) fn decode(bytes: &Bytes, segment: u64, offset: u64) -> Option<(GroupId, Record, u64)> {
    let mut header = bytes.get(..HEADER_BYTES)?;
    let length = header.get_u32_le();
    let crc = header.get_u32_le();
    let group = GroupId(header.get_u32_le());
    let kind = Kind::of(header.get_u32_le())?;
    let end = HEADER_BYTES.checked_add(usize::try_from(length).ok()?)?;
    let covered = bytes.get(8..end)?;
    if checksum(segment, offset, length, covered) != crc {
        return None;
    }
    let record = payload(kind, bytes.slice(HEADER_BYTES..end))?;
    Some((group, record, u64::try_from(end.next_multiple_of(8)).ok()?))
}

/// Whether a marker of this segment stands at the beginning of `bytes`. Cheap: recovery asks at every eighth byte.
pub(super) fn is_marker(bytes: &[u8], segment: u64, offset: u64) -> bool {
    let Some(bytes) = bytes.get(..MARKER_BYTES) else { return false };
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    word(0) == 8 && word(12) == Kind::Marker as u32 && checksum(segment, offset, 8, &bytes[8..]) == word(4)
}

fn payload(kind: Kind, mut from: Bytes) -> Option<Record> {
    let record = match kind {
        Kind::Head => Record::Head(head(&mut from)?),
        Kind::Bounds => {
            Record::Bounds { purged: get_optional_id(&mut from)?, last: get_optional_id(&mut from)? }
        }
        Kind::Vote => Record::Vote(Vote {
            term: from.try_get_u64_le().ok()?,
            node: from.try_get_u64_le().ok()?,
            committed: from.try_get_u8().ok()? == 1,
        }),
        Kind::Entries => Record::Entries(entries(from)?),
        Kind::Moved => Record::Moved(entries(from)?),
        Kind::Truncate => {
            Record::Truncate { from: from.try_get_u64_le().ok()?, last: get_optional_id(&mut from)? }
        }
        Kind::Purge => Record::Purge(get_id(&mut from)?),
        Kind::Clear => Record::Clear,
        Kind::Marker => Record::Marker { synced: from.try_get_u64_le().ok()? },
    };
    Some(record)
}

fn head(from: &mut Bytes) -> Option<Head> {
    if from.try_get_u64_le().ok()? != MAGIC || from.try_get_u64_le().ok()? != VERSION {
        return None;
    }
    Some(Head {
        segment: from.try_get_u64_le().ok()?,
        previous_end: from.try_get_u64_le().ok()?,
        head_bytes: from.try_get_u64_le().ok()?,
    })
}

fn entries(mut from: Bytes) -> Option<Entries> {
    let first = get_id(&mut from)?;
    let count = from.try_get_u32_le().ok()?;
    first.index.checked_add(u64::from(count.checked_sub(1)?))?;
    Some(Entries { first, count, body: from })
}

/// The offset and the segment are in the checksum, not in the record: a record that stands elsewhere isn't valid.
fn checksum(segment: u64, offset: u64, length: u32, covered: &[u8]) -> u32 {
    let mut place = [0; 20];
    place[..8].copy_from_slice(&segment.to_le_bytes());
    place[8..16].copy_from_slice(&offset.to_le_bytes());
    place[16..].copy_from_slice(&length.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c(&place), covered)
}

fn put_id(out: &mut Vec<u8>, id: EntryId) {
    for field in [id.term, id.node, id.index] {
        out.put_u64_le(field);
    }
}

fn get_id(from: &mut Bytes) -> Option<EntryId> {
    Some(EntryId {
        term: from.try_get_u64_le().ok()?,
        node: from.try_get_u64_le().ok()?,
        index: from.try_get_u64_le().ok()?,
    })
}

fn put_optional_id(out: &mut Vec<u8>, id: Option<EntryId>) {
    out.put_u8(u8::from(id.is_some()));
    put_id(out, id.unwrap_or_default());
}

fn get_optional_id(from: &mut Bytes) -> Option<Option<EntryId>> {
    let some = from.try_get_u8().ok()? == 1;
    let id = get_id(from)?;
    Some(some.then_some(id))
}

fn length_u32(length: usize) -> u32 {
    u32::try_from(length).expect("changes above RECORD_BYTES_MAX are refused before they are encoded")
}
