//! Inputs that are kept: a folder a target, a file an input. They are few and small, since every test run tries all.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where inputs of a target are kept.
#[must_use]
pub fn kept_in(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

/// The inputs that are kept of a target, with their names; none if there is no folder.
///
/// # Errors
/// When one can't be read.
pub fn kept(target: &str) -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
    let entries = match fs::read_dir(kept_in(target)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>()?;
    files.sort();
    files.into_iter().map(|file| fs::read(&file).map(|bytes| (file, bytes))).collect()
}
