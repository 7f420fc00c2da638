//! Writing and removing a rule file so that a reader, and a crash, see the old text or the new, never a part.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use leasehold_front::AdminError;

/// Replaces the file at `path` by `text`: beside it, synced, renamed over it, and the folder synced.
pub(super) fn write(path: &Path, text: &str) -> Result<(), AdminError> {
    let beside = beside(path);
    replace(path, &beside, text).map_err(|error| {
        // Best effort: a hidden file that stays behind is never read.
        drop(fs::remove_file(&beside));
        refused("writing", path, &error)
    })
}

/// Removes the file at `path`, and syncs the folder.
pub(super) fn remove(path: &Path) -> Result<(), AdminError> {
    let removed = check_writable(path)
        .and_then(|()| fs::remove_file(path))
        .and_then(|()| File::open(folder(path))?.sync_all());
    removed.map_err(|error| refused("removing", path, &error))
}

fn refused(doing: &str, path: &Path, error: &io::Error) -> AdminError {
    let message = format!("{doing} {}: {error}", path.display());
    let forbidden = [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem];
    if forbidden.contains(&error.kind()) {
        AdminError::ReadOnly(message)
    } else {
        AdminError::Failed(message)
    }
}

/// A file that nobody may write is not to be replaced or removed either, though its folder would allow it.
fn check_writable(path: &Path) -> io::Result<()> {
    if fs::metadata(path)?.permissions().readonly() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the file is read-only"));
    }
    Ok(())
}

fn replace(path: &Path, beside: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(beside)?;
    if let Ok(old) = fs::metadata(path) {
        check_writable(path)?;
        file.set_permissions(old.permissions())?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(beside, path)?;
    File::open(folder(path))?.sync_all()
}

/// Hidden, so that the watcher's listing passes it by. One writer at a time: one name is enough.
fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    folder(path).join(format!(".{name}.leasehold-tmp"))
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
