//! Disks in trouble: a small file system of a test's own, to be filled and emptied again (which takes root), and files
//! that hold something else than was written.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::require::missing;

/// What fills it is written in such pieces.
const BLOCK_BYTES: usize = 64 << 10;

/// A file system in memory. Dropped, it goes, as soon as nobody has a file of it open.
#[derive(Debug)]
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts one of so many MiB at a folder, which is made; `None` after having said that the test is skipped.
    ///
    /// # Panics
    /// When the folder can't be made, or when `LEASEHOLD_REQUIRE` lists `mount` and that can't be used.
    #[must_use]
    pub fn mount(at: &Path, mebibytes: u32) -> Option<Self> {
        fs::create_dir_all(at).expect("the temporary folder can be written to");
        let size = format!("size={mebibytes}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(at).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(at.to_owned()));
        }
        missing("mount");
        None
    }

    /// Takes all the room that is left.
    ///
    /// # Panics
    /// When nothing can be written at all.
    pub fn fill(&self) {
        let mut ballast = File::create(self.ballast()).expect("the file system can be written to");
        let block = vec![1; BLOCK_BYTES];
        while ballast.write_all(&block).is_ok() {}
    }

    /// Gives the room back.
    ///
    /// # Panics
    /// When it wasn't filled.
    pub fn empty(&self) {
        fs::remove_file(self.ballast()).expect("it was filled before");
    }

    fn ballast(&self) -> PathBuf {
        self.0.join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A node of the test may still have files open: it is detached now and goes when they are closed.
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

/// The newest segment of the log in a node's data directory.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn newest_segment(data: &Path) -> PathBuf {
    let files = fs::read_dir(data.join("log")).expect("a node keeps its log there");
    let paths = files.map(|entry| entry.expect("the folder can be read").path());
    let segments = paths.filter(|path| path.extension().is_some_and(|extension| extension == "seg"));
    segments.max().expect("a log has a segment")
}

/// Flips a bit in the middle of what was written to a file that is preallocated with zeros.
///
/// # Panics
/// When nothing was written to it.
pub fn damage(path: &Path) {
    let mut bytes = fs::read(path).expect("the segment can be read");
    let written = bytes.iter().rposition(|byte| *byte != 0).expect("something was written");
    let at = (written / 2..written).find(|at| bytes[*at] != 0).expect("not all of it is zeros");
    bytes[at] ^= 1;
    fs::write(path, bytes).expect("the segment can be written");
}
