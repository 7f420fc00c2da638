//! The snapshot files of one group.
//!
//! Invariant: a file that has its final name is whole and durable, and holds the state up to the entry in its name; older
//! ones go only after that. A file that can't be read back is an error, never "no snapshot": the log before it is gone.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bytes::{Buf, Bytes};
use leasehold_wire::raft;
use openraft::{EmptyNode, SnapshotMeta};

use super::messages;

/// Opens every snapshot file; the digit is the version of the format.
const MAGIC: &[u8; 8] = b"LHSNAP1\n";
const SUFFIX: &str = ".snap";
/// The file that is being written.
const UNFINISHED: &str = "unfinished";

/// A snapshot as it is stored.
pub(super) struct Stored {
    pub(super) meta: SnapshotMeta<u64, EmptyNode>,
    pub(super) state: Vec<u8>,
}

/// The directory of one group's snapshots.
#[derive(Clone, Debug)]
pub(super) struct SnapshotDir(PathBuf);

impl SnapshotDir {
    pub(super) const fn new(dir: PathBuf) -> Self {
        Self(dir)
    }

    /// Makes a snapshot durable, then removes older ones. Blocks.
    pub(super) fn write(&self, meta: &SnapshotMeta<u64, EmptyNode>, state: &[u8]) -> io::Result<()> {
        let unfinished = self.0.join(UNFINISHED);
        if let Err(error) = write_file(&unfinished, meta, state) {
            // On a full disk it would take the room that the log needs more.
            let _ = fs::remove_file(&unfinished);
            return Err(error);
        }
        let index = meta.last_log_id.map_or(0, |last| last.index);
        fs::rename(&unfinished, self.0.join(format!("{index:020}{SUFFIX}")))?;
        sync_dir(&self.0)?;
        for older in self.indexes()?.into_iter().filter(|found| *found < index) {
            fs::remove_file(self.0.join(format!("{older:020}{SUFFIX}")))?;
        }
        Ok(())
    }

    /// The newest snapshot, if there is one. Blocks.
    pub(super) fn newest(&self) -> io::Result<Option<Stored>> {
        let Some(index) = self.indexes()?.into_iter().max() else { return Ok(None) };
        let path = self.0.join(format!("{index:020}{SUFFIX}"));
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, format!("{} is damaged", path.display()));
        parse(fs::read(&path)?.into()).ok_or_else(damaged).map(Some)
    }

    fn indexes(&self) -> io::Result<Vec<u64>> {
        let mut indexes = Vec::new();
        for entry in fs::read_dir(&self.0)? {
            let name = entry?.file_name();
            let index = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
            indexes.extend(index.and_then(|index| index.parse::<u64>().ok()));
        }
        Ok(indexes)
    }
}

fn write_file(path: &Path, meta: &SnapshotMeta<u64, EmptyNode>, state: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    let head = raft::encode(&messages::snapshot_meta(meta));
    let mut checksum = crc32c::crc32c(MAGIC);
    file.write_all(MAGIC)?;
    let head_len = u32::try_from(head.len()).expect("memberships have few nodes");
    let state_len = u64::try_from(state.len()).expect("lengths fit into 64 bits");
    for part in [&head_len.to_le_bytes()[..], &head, &state_len.to_le_bytes(), state] {
        checksum = crc32c::crc32c_append(checksum, part);
        file.write_all(part)?;
    }
    file.write_all(&checksum.to_le_bytes())?;
    file.sync_all()
}

/// Makes the names in a directory durable.
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

fn parse(mut file: Bytes) -> Option<Stored> {
    let body = file.len().checked_sub(4)?;
    let checksum = file.split_off(body).get_u32_le();
    if crc32c::crc32c(&file) != checksum || !file.starts_with(MAGIC) {
        return None;
    }
    file.advance(MAGIC.len());
    let head_len = usize::try_from(file.try_get_u32_le().ok()?).ok()?;
    if file.len() < head_len {
        return None;
    }
    let head = file.split_to(head_len);
    let state_len = usize::try_from(file.try_get_u64_le().ok()?).ok()?;
    if file.len() != state_len {
        return None;
    }
    let meta = messages::to_snapshot_meta(raft::decode(head).ok()?).ok()?;
    Some(Stored { meta, state: file.into() })
}

#[cfg(test)]
mod tests;
