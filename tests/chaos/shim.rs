//! Disks that fail, are slow or lose what wasn't synced: a small library that is preloaded into nodes, and what the harness
//! tells it through files.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

const SOURCE: &str = include_str!("shim/disk.c");

/// Between two reads of what a killed node left, nobody writes any more.
const ZEROS: usize = 64 << 10;

/// See the module.
#[derive(Debug)]
pub(crate) struct Shim {
    folder: TempDir,
    library: PathBuf,
}

impl Shim {
    /// Compiles it, into a folder of its own beside the cluster's.
    ///
    /// # Errors
    /// When it doesn't compile: with what the compiler said.
    pub(crate) fn build(beside: &Path) -> io::Result<Self> {
        let folder = tempfile::tempdir_in(beside)?;
        let (source, library) = (folder.path().join("disk.c"), folder.path().join("disk.so"));
        fs::write(&source, SOURCE)?;
        let mut compile = Command::new("cc");
        compile.args(["-shared", "-fPIC", "-O2", "-o"]).arg(&library).arg(&source).arg("-lpthread");
        let output = compile.output()?;
        if output.status.success() {
            return Ok(Self { folder, library });
        }
        Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()))
    }

    /// What is preloaded.
    pub(crate) fn library(&self) -> &Path {
        &self.library
    }

    /// What a node is started with beside it.
    pub(crate) fn variables(&self, node: usize) -> Vec<(String, String)> {
        vec![
            ("LEASEHOLD_CHAOS_DISK".to_owned(), self.order(node).display().to_string()),
            ("LEASEHOLD_CHAOS_UNSYNCED".to_owned(), self.unsynced(node).display().to_string()),
        ]
    }

    /// From now on every sync of a node fails.
    ///
    /// # Errors
    /// When the file can't be written; the same for those below.
    pub(crate) fn fail(&self, node: usize) -> io::Result<()> {
        self.tell(node, "fail")
    }

    /// From now on every sync of a node takes so many ms longer.
    pub(crate) fn slow(&self, node: usize, ms: u64) -> io::Result<()> {
        self.tell(node, &format!("slow {ms}"))
    }

    /// From now on syncs are what they are.
    pub(crate) fn leave(&self, node: usize) -> io::Result<()> {
        self.tell(node, "")
    }

    /// Takes away what a node that was just killed had written to its log and not synced. Returns how many bytes.
    pub(crate) fn lose_unsynced(&self, node: usize) -> io::Result<u64> {
        let listed = fs::read_to_string(self.unsynced(node)).unwrap_or_default();
        let mut lost = 0;
        for line in listed.lines() {
            let Some((offset, length, path)) = read_range(line) else { continue };
            // It may be purged by now.
            let Ok(file) = OpenOptions::new().write(true).open(path) else { continue };
            let zeros = vec![0; ZEROS];
            let mut at = offset;
            while at < offset + length {
                let piece = usize::try_from(offset + length - at).unwrap_or(ZEROS).min(ZEROS);
                file.write_all_at(&zeros[..piece], at)?;
                at += u64::try_from(piece).unwrap_or(u64::MAX);
            }
            lost += length;
        }
        Ok(lost)
    }

    fn tell(&self, node: usize, order: &str) -> io::Result<()> {
        let (file, new) = (self.order(node), self.folder.path().join("new"));
        fs::write(&new, order)?;
        fs::rename(&new, &file)
    }

    fn order(&self, node: usize) -> PathBuf {
        self.folder.path().join(format!("disk-{node}"))
    }

    fn unsynced(&self, node: usize) -> PathBuf {
        self.folder.path().join(format!("unsynced-{node}"))
    }
}

/// Offset, length and path.
fn read_range(line: &str) -> Option<(u64, u64, &str)> {
    let (offset, rest) = line.split_once(' ')?;
    let (length, path) = rest.split_once(' ')?;
    Some((offset.parse().ok()?, length.parse().ok()?, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that writes twice, syncs once between, and is killed.
    const WRITER: &str = r#"
import os, signal, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.pwrite(fd, b"kept", 0)
os.fdatasync(fd)
os.pwrite(fd, b"lost", 4)
os.kill(os.getpid(), signal.SIGKILL)
"#;

    #[test]
    fn what_was_not_synced_is_lost_and_what_was_is_kept() {
        let (Some(_), Some(python)) = (leasehold_tests::require("cc"), leasehold_tests::require("python3"))
        else {
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let shim = Shim::build(folder.path()).unwrap();
        let segment = folder.path().join("a.seg");
        let run = |script: &str| {
            let mut command = Command::new(&python);
            command
                .args(["-c", script])
                .arg(&segment)
                .env("LD_PRELOAD", shim.library())
                .envs(shim.variables(0));
            command.output().unwrap()
        };
        run(WRITER);
        assert_eq!(fs::read(&segment).unwrap(), b"keptlost");
        assert_eq!(shim.lose_unsynced(0).unwrap(), 4);
        assert_eq!(fs::read(&segment).unwrap(), b"kept\0\0\0\0");

        shim.fail(0).unwrap();
        let failed = run("import os, sys\nos.fsync(os.open(sys.argv[1], os.O_RDWR))");
        let said = String::from_utf8_lossy(&failed.stderr).into_owned();
        assert!(!failed.status.success() && said.contains("Input/output error"), "{said}");
    }
}
