//! What a node knows about itself, written rarely: its identity, its snapshots, the last rules it saw.
//!
//! Invariant: a write returns when it is on the disk. A node has one identity for ever: another one is refused.
//! Nothing of the Raft log is here.
//!
//! Why sled isn't trusted with durability: on Linux its `flush` writes and starts write-back, but never waits for the
//! disk to have the bytes, and its background flusher only logs what fails. So the background flusher is off, and
//! every write here is flushed and then synced by us, file by file and directory by directory. That is slow, and fine
//! for what is written a few times an hour.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use crate::types::GroupId;

/// sled's page cache. It grows with what is written, and little is.
const CACHE_BYTES: u64 = 4 << 20;
/// The longest value: bounds what one careless caller costs every restart.
pub const VALUE_BYTES_MAX: usize = 64 << 10;

const CLUSTER: &[u8] = b"identity/cluster";
const NODE: &[u8] = b"identity/node";
const RULES: &[u8] = b"rules/version";

/// The metadata of one data directory. Calls block on the disk.
#[derive(Debug)]
pub struct Meta {
    db: sled::Db,
    dir: PathBuf,
    /// One write and its syncs at a time.
    writing: Mutex<()>,
}

/// Who a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The cluster's id.
    pub cluster: u128,
    /// The node's id in it.
    pub node: u64,
}

/// Why metadata can't be read or written: the process has to end.
#[derive(Debug, thiserror::Error)]
pub enum MetaError {
    /// The directory belongs to somebody else.
    #[error(
        "this data directory belongs to node {} of cluster {:x}, not to node {} of cluster {:x}: \
         give the node a data directory of its own",
        .here.node, .here.cluster, .asked.node, .asked.cluster
    )]
    OtherIdentity {
        /// Whose it is.
        here: Identity,
        /// Who asked for it.
        asked: Identity,
    },
    /// A value isn't what this version writes under its key.
    #[error("metadata {key}: not what this version writes there")]
    Malformed {
        /// The key.
        key: String,
    },
    /// A value is longer than [`VALUE_BYTES_MAX`].
    #[error("metadata {key}: {bytes} bytes, more than {VALUE_BYTES_MAX}")]
    TooLong {
        /// The key.
        key: String,
        /// Its length.
        bytes: usize,
    },
    /// The store failed.
    #[error("metadata: {0}")]
    Store(#[from] sled::Error),
    /// The disk failed.
    #[error("metadata can't be synced: {0}")]
    Io(#[from] io::Error),
}

impl Meta {
    /// Opens the metadata in a directory of its own, making it if it isn't there. Who owns the data directory holds its
    /// [lock](crate::disk::DirLock).
    ///
    /// # Errors
    /// When the store or the disk fails.
    pub fn open(dir: &Path) -> Result<Self, MetaError> {
        let config = sled::Config::new().path(dir).cache_capacity(CACHE_BYTES).flush_every_ms(None);
        let meta = Self { db: config.open()?, dir: dir.to_owned(), writing: Mutex::new(()) };
        meta.sync()?;
        if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            File::open(parent)?.sync_all()?;
        }
        Ok(meta)
    }

    /// Who this directory belongs to; nobody when it is new.
    ///
    /// # Errors
    /// When the store fails or holds something else.
    pub fn identity(&self) -> Result<Option<Identity>, MetaError> {
        let Some(cluster) = self.number::<16>(CLUSTER)? else { return Ok(None) };
        let node = self.number::<8>(NODE)?.ok_or_else(|| malformed(NODE))?;
        Ok(Some(Identity { cluster: u128::from_be_bytes(cluster), node: u64::from_be_bytes(node) }))
    }

    /// Makes this directory somebody's, for ever.
    ///
    /// # Errors
    /// When it is somebody else's already, or the store or the disk fails.
    pub fn set_identity(&self, asked: Identity) -> Result<(), MetaError> {
        match self.identity()? {
            Some(here) if here == asked => Ok(()),
            Some(here) => Err(MetaError::OtherIdentity { here, asked }),
            None => {
                let mut batch = sled::Batch::default();
                batch.insert(CLUSTER, &asked.cluster.to_be_bytes());
                batch.insert(NODE, &asked.node.to_be_bytes());
                self.write(batch)
            }
        }
    }

    /// The index of the last entry in a group's newest snapshot.
    ///
    /// # Errors
    /// When the store fails or holds something else.
    pub fn snapshot_index(&self, group: GroupId) -> Result<Option<u64>, MetaError> {
        Ok(self.number(&snapshot_key(group))?.map(u64::from_be_bytes))
    }

    /// Remembers a snapshot that is on the disk already, or that there is none any more.
    ///
    /// # Errors
    /// When the store or the disk fails.
    pub fn set_snapshot_index(&self, group: GroupId, index: Option<u64>) -> Result<(), MetaError> {
        self.set_number(&snapshot_key(group), index)
    }

    /// The newest rules version that this node followed.
    ///
    /// # Errors
    /// When the store fails or holds something else.
    pub fn rules_version(&self) -> Result<Option<u64>, MetaError> {
        Ok(self.number(RULES)?.map(u64::from_be_bytes))
    }

    /// Remembers a rules version.
    ///
    /// # Errors
    /// When the store or the disk fails.
    pub fn set_rules_version(&self, version: u64) -> Result<(), MetaError> {
        self.set_number(RULES, Some(version))
    }

    /// A value of another owner.
    ///
    /// # Errors
    /// When the store fails.
    pub fn get(&self, key: &str) -> Result<Option<Vec<u8>>, MetaError> {
        Ok(self.db.get(other_key(key))?.map(|value| value.to_vec()))
    }

    /// Keeps a value under a key of the caller's.
    ///
    /// # Errors
    /// When it is longer than [`VALUE_BYTES_MAX`], or the store or the disk fails.
    pub fn put(&self, key: &str, value: &[u8]) -> Result<(), MetaError> {
        if value.len() > VALUE_BYTES_MAX {
            return Err(MetaError::TooLong { key: key.to_owned(), bytes: value.len() });
        }
        let mut batch = sled::Batch::default();
        batch.insert(other_key(key), value);
        self.write(batch)
    }

    /// Forgets a value that [`Self::put`] kept.
    ///
    /// # Errors
    /// When the store or the disk fails.
    pub fn remove(&self, key: &str) -> Result<(), MetaError> {
        let mut batch = sled::Batch::default();
        batch.remove(other_key(key));
        self.write(batch)
    }

    fn number<const N: usize>(&self, key: &[u8]) -> Result<Option<[u8; N]>, MetaError> {
        let Some(value) = self.db.get(key)? else { return Ok(None) };
        let bytes = <[u8; N]>::try_from(value.as_ref()).map_err(|_| malformed(key))?;
        Ok(Some(bytes))
    }

    fn set_number(&self, key: &[u8], number: Option<u64>) -> Result<(), MetaError> {
        let mut batch = sled::Batch::default();
        match number {
            Some(number) => batch.insert(key, &number.to_be_bytes()),
            None => batch.remove(key),
        }
        self.write(batch)
    }

    fn write(&self, batch: sled::Batch) -> Result<(), MetaError> {
        let _writing = self.writing.lock();
        self.db.apply_batch(batch)?;
        self.db.flush()?;
        Ok(self.sync()?)
    }

    fn sync(&self) -> io::Result<()> {
        self.db.flush().map_err(io::Error::other)?;
        sync_tree(&self.dir)
    }
}

/// Syncs every file and directory below: sled spreads what it writes over a few.
fn sync_tree(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_tree(&entry.path())?;
            continue;
        }
        match File::open(entry.path()) {
            Ok(file) => file.sync_data()?,
            // sled replaces files of its own while it runs.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    File::open(dir)?.sync_all()
}

fn snapshot_key(group: GroupId) -> Vec<u8> {
    [b"snapshot/".as_slice(), &group.0.to_be_bytes()].concat()
}

fn other_key(key: &str) -> Vec<u8> {
    [b"other/".as_slice(), key.as_bytes()].concat()
}

fn malformed(key: &[u8]) -> MetaError {
    MetaError::Malformed { key: String::from_utf8_lossy(key).into_owned() }
}

#[cfg(test)]
mod tests;
