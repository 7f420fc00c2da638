//! A socket file of this machine, for callers beside the process.
//!
//! Invariants: a file is replaced only if it is a socket that nobody listens on; it has its permissions before anybody can
//! connect; at the end it is removed only if it is still this listener's.

use std::fs::{self, Permissions};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::net::{RecvFlags, recv};
use tokio::io::Interest;
use tokio::net::{UnixListener, UnixStream};

use super::listener::{Connection, Listener};

/// Whoever connects runs on this machine.
const PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Listens on a socket file.
#[derive(Debug)]
pub struct SocketListener {
    listener: UnixListener,
    path: PathBuf,
    file: FileId,
}

/// A socket that can't be listened on.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Choose another path, or stop the other process.
    #[error("another process listens on it")]
    InUse,
    /// Choose another path, or remove the file.
    #[error("there is a file of this name that is no socket")]
    NoSocket,
    /// The system refuses it.
    #[error(transparent)]
    System(#[from] io::Error),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

impl SocketListener {
    /// Listens on `path`, whose file gets the permissions `mode`, such as `0o660`.
    ///
    /// # Errors
    /// [`SocketError`].
    pub async fn bind(path: &Path, mode: u32) -> Result<Self, SocketError> {
        check_free(path).await?;
        // Named otherwise until its permissions are set; it then takes the place of a stale one at once.
        let mut first = path.as_os_str().to_owned();
        first.push(format!(".{}", std::process::id()));
        let first = PathBuf::from(first);
        remove(&first)?;
        let listener = UnixListener::bind(&first)?;
        let named = fs::set_permissions(&first, Permissions::from_mode(mode))
            .and_then(|()| FileId::of(&first))
            .and_then(|file| fs::rename(&first, path).map(|()| file));
        match named {
            Ok(file) => Ok(Self { listener, path: path.to_owned(), file }),
            Err(error) => {
                remove(&first)?;
                Err(error.into())
            }
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketListener {
    fn drop(&mut self) {
        if FileId::of(&self.path).ok() == Some(self.file)
            && let Err(error) = remove(&self.path)
        {
            tracing::debug!(%error, path = %self.path.display(), "the socket's file stays");
        }
    }
}

/// Whether nobody listens there, and no other file is in the way.
async fn check_free(path: &Path) -> Result<(), SocketError> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => return Err(SocketError::NoSocket),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    match UnixStream::connect(path).await {
        Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) => {
            Ok(())
        }
        // A queue that is full is somebody's as well.
        Ok(_) => Err(SocketError::InUse),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(SocketError::InUse),
        Err(error) => Err(error.into()),
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

impl FileId {
    fn of(path: &Path) -> io::Result<Self> {
        let found = fs::symlink_metadata(path)?;
        Ok(Self { device: found.dev(), inode: found.ino() })
    }
}

impl Listener for SocketListener {
    type Connection = UnixStream;

    async fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        let (stream, _) = self.listener.accept().await?;
        Ok((stream, PEER))
    }
}

impl Connection for UnixStream {
    fn set_options(&self) -> io::Result<()> {
        Ok(())
    }

    async fn peek(&self, first: &mut [u8]) -> io::Result<usize> {
        let looked = self.async_io(Interest::READABLE, || {
            recv(self, &mut *first, RecvFlags::PEEK).map_err(io::Error::from)
        });
        looked.await.map(|(bytes, _)| bytes)
    }
}

#[cfg(test)]
mod tests;
