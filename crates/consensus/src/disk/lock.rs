//! One process at a time in a data directory.
//!
//! Invariant: while a [`DirLock`] lives, no other process (and no other lock of this one) holds the same directory.
//! The kernel lets go when the process ends, however it ends: there is no stale lock to clean up.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The file whose lock stands for the directory. It stays when the lock is gone.
const NAME: &str = "LOCK";

/// The right to use a data directory.
#[derive(Debug)]
pub struct DirLock {
    _file: File,
}

/// Why a directory can't be used: say it and end, another process owns the data.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has it.
    #[error(
        "{path}: in use by another process{holder}; stop it, or give this node a data directory of its own"
    )]
    Held {
        /// The directory.
        path: PathBuf,
        /// ` (pid N)` when the holder wrote its id.
        holder: String,
    },
    /// The directory or the file in it can't be made or opened.
    #[error("{path}: can't be locked: {source}")]
    Io {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl DirLock {
    /// Takes the directory, making it if it isn't there.
    ///
    /// # Errors
    /// When another process holds it, or the file system refuses.
    pub fn acquire(dir: &Path) -> Result<Self, LockError> {
        let failed = |source| LockError::Io { path: dir.to_owned(), source };
        fs::create_dir_all(dir).map_err(failed)?;
        let path = dir.join(NAME);
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = open.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(LockError::Held { path: dir.to_owned(), holder: holder(&path) });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        // Only for the message above: a number that can't be written locks no worse.
        let _ = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
        Ok(Self { _file: file })
    }
}

fn holder(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.trim().parse::<u32>().map(|pid| format!(" (pid {pid})")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_holder_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let held = DirLock::acquire(dir.path()).unwrap();
        let refused = DirLock::acquire(dir.path()).unwrap_err().to_string();
        assert!(
            refused.contains(&format!("in use by another process (pid {})", std::process::id())),
            "{refused}"
        );
        drop(held);
        DirLock::acquire(dir.path()).unwrap();
    }
}
