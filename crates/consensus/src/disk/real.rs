//! The file system of the machine.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::{Disk, DiskFile};

/// Zeros are written in pieces of this size where the file system can't reserve room.
const ZEROS_BYTES: u64 = 1 << 20;

/// A directory of the machine's file system.
#[derive(Debug)]
pub struct RealDisk {
    root: PathBuf,
    /// Kept open: what makes names durable is a sync of the directory itself.
    dir: File,
}

impl RealDisk {
    /// Opens the directory, making it (and its parents) if it isn't there.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(root: &Path) -> io::Result<Self> {
        fs::create_dir_all(root)?;
        let dir = File::open(root)?;
        if let Some(parent) = root.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            File::open(parent)?.sync_all()?;
        }
        Ok(Self { root: root.to_owned(), dir })
    }
}

impl Disk for RealDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(self.root.join(name))?;
        Ok(Arc::new(RealFile(file)))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(true).open(self.root.join(name))?;
        Ok(Arc::new(RealFile(file)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.root.join(from), self.root.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.root.join(name))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.root)? {
            names.extend(entry?.file_name().into_string());
        }
        names.sort();
        Ok(names)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.dir.sync_all()
    }
}

#[derive(Debug)]
struct RealFile(File);

impl DiskFile for RealFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.0, FallocateFlags::empty(), 0, len) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(&self.0, len),
            other => Ok(other?),
        }
    }
}

fn write_zeros(file: &File, len: u64) -> io::Result<()> {
    let zeros = [0_u8; 4096].repeat(256);
    let mut at = 0;
    while at < len {
        let piece = usize::try_from((len - at).min(ZEROS_BYTES)).unwrap_or(zeros.len());
        file.write_all_at(&zeros[..piece.min(zeros.len())], at)?;
        at = at.saturating_add(ZEROS_BYTES);
    }
    Ok(())
}
