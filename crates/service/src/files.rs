//! Reading small files that somebody names: rules, secrets, configurations.
//!
//! Invariant: a read ends. What is no file (a pipe, a device, a socket) could keep its reader waiting for ever, so it is
//! refused before it is opened; what is larger than its reader takes is refused before it is in memory.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

/// Bytes of a configuration. Every field with its comment takes some thousand.
pub const CONFIG_BYTES_MAX: usize = 1 << 20;

/// The text of a regular file of at most `bytes_max` bytes. Links are followed.
///
/// # Errors
/// It can't be read, is no regular file, is larger, or is not UTF-8.
pub fn read_text(path: &Path, bytes_max: usize) -> io::Result<String> {
    let metadata = fs::metadata(path)?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file (a pipe or a device, for example)"));
    }
    let mut text = String::new();
    let read_max = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    File::open(path)?.take(read_max).read_to_string(&mut text)?;
    if text.len() > bytes_max {
        return Err(io::Error::other(format!("larger than {bytes_max} bytes")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
