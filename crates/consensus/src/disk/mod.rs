//! The few file operations that the log needs, so that tests can put a disk under it that loses, tears and flips.
//!
//! Invariant: a [`Disk`] is one flat directory; bytes are durable after [`DiskFile::sync_data`], names after
//! [`Disk::sync_dir`], and nothing else is. Calls block: they belong on the log's own thread.

mod lock;
mod real;
pub mod sim;

use std::fmt;
use std::io;
use std::sync::Arc;

pub use lock::{DirLock, LockError};
pub use real::RealDisk;

/// One directory without folders in it.
pub trait Disk: fmt::Debug + Send + Sync + 'static {
    /// Makes an empty file, or empties the one that has this name.
    ///
    /// # Errors
    /// What the system says.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens a file that exists, to read and write.
    ///
    /// # Errors
    /// What the system says.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Gives a file a new name, at once or not at all.
    ///
    /// # Errors
    /// What the system says.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Takes a name away. Who has the file open can still read it.
    ///
    /// # Errors
    /// What the system says.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// All names, in order.
    ///
    /// # Errors
    /// What the system says.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Makes creations, renames and removals durable.
    ///
    /// # Errors
    /// What the system says; what is durable is then unknown.
    fn sync_dir(&self) -> io::Result<()>;
}

/// One open file.
pub trait DiskFile: fmt::Debug + Send + Sync + 'static {
    /// Length in bytes.
    ///
    /// # Errors
    /// What the system says.
    fn len(&self) -> io::Result<u64>;

    /// True when the file has no bytes.
    ///
    /// # Errors
    /// What the system says.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Fills the whole buffer from `offset` on.
    ///
    /// # Errors
    /// `UnexpectedEof` past the end; what the system says.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all bytes at `offset`.
    ///
    /// # Errors
    /// What the system says; any part may then be written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes the bytes and the length durable.
    ///
    /// # Errors
    /// What the system says; what is durable is then unknown, and asking again proves nothing.
    fn sync_data(&self) -> io::Result<()>;

    /// Reserves room for `len` bytes, which read as zeros: later writes below `len` don't run out of space.
    ///
    /// # Errors
    /// `StorageFull` when there isn't room; what the system says.
    fn preallocate(&self, len: u64) -> io::Result<()>;
}
