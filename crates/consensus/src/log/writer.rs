//! The log as the rest of the node sees it: one writer, and handles to it.
//!
//! Invariant: one writer writes; a change that was accepted by [`Log::write`] is made in the order of the calls, even
//! when its caller stops waiting. What waits is bounded in bytes.

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};

use super::engine::{Engine, Request};
use super::read::Reader;
use super::record::entries_bytes;
#[cfg(feature = "simulated")]
use super::task::{Running, start};
#[cfg(not(feature = "simulated"))]
use super::thread::{Running, start};
use super::{Change, GroupId, LogConfig, OnFatal, OpenError, WriteError};
use crate::disk::{Disk, RealDisk};

/// Bytes of changes that may wait for the writer, in KiB; callers wait for room at the bound.
const QUEUE_KIB_MAX: u32 = 64 << 10;

/// A log with its writer. Clones are handles to the same one; what reads is in [`Reader`].
#[derive(Clone, Debug)]
pub struct Log(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    reader: Reader,
    writer: Mutex<Option<Running>>,
    room: Arc<Semaphore>,
    full: watch::Receiver<bool>,
}

impl Deref for Log {
    type Target = Reader;

    fn deref(&self) -> &Reader {
        &self.0.reader
    }
}

impl Log {
    /// Opens the log in a directory, making it if it isn't there. Who owns the data directory holds its
    /// [lock](crate::disk::DirLock). Blocks while the log is read.
    ///
    /// `on_fatal` has to end the process.
    ///
    /// # Errors
    /// When an acknowledged record can't be read back, or the disk fails.
    pub fn open(dir: &Path, config: LogConfig, on_fatal: OnFatal) -> Result<Self, OpenError> {
        Self::open_on(Arc::new(RealDisk::open(dir)?), config, on_fatal)
    }

    /// As [`Self::open`], on any disk.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_on(disk: Arc<dyn Disk>, config: LogConfig, on_fatal: OnFatal) -> Result<Self, OpenError> {
        let engine = Engine::open(disk, config, Arc::clone(&on_fatal))?;
        let reader = engine.reader();
        let (full_sender, full) = watch::channel(engine.is_full());
        let writer = start(engine, full_sender, on_fatal)?;
        Ok(Self(Arc::new(Shared {
            reader,
            writer: Mutex::new(Some(writer)),
            room: Arc::new(Semaphore::new(QUEUE_KIB_MAX as usize)),
            full,
        })))
    }

    /// Makes a change and returns when it is durable.
    ///
    /// # Errors
    /// See [`WriteError`]. After [`WriteError::Stopped`] the change may or may not have been made.
    pub async fn write(&self, group: GroupId, change: Change) -> Result<(), WriteError> {
        let room = self.room_for(&change).await?;
        let (told, answer) = oneshot::channel();
        let done = Box::new(move |result| {
            drop(room);
            // Who stopped waiting doesn't want to know.
            let _ = told.send(result);
        });
        self.send(Request { group, change, done })?;
        answer.await.unwrap_or(Err(WriteError::Stopped))
    }

    /// Whether the log refuses entries because the disk is full. The writer asks for room by itself.
    #[must_use]
    pub fn full(&self) -> watch::Receiver<bool> {
        self.0.full.clone()
    }

    /// Waits for the changes that were accepted, and ends the writer. Later ones get [`WriteError::Stopped`]. Blocks.
    pub fn close(&self) {
        self.0.close();
    }

    async fn room_for(&self, change: &Change) -> Result<OwnedSemaphorePermit, WriteError> {
        let bytes = match change {
            Change::Append(entries) => entries_bytes(entries),
            Change::Vote(_) | Change::Truncate(_) | Change::Purge(_) | Change::Clear => 0,
        };
        let kib = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX).clamp(1, QUEUE_KIB_MAX);
        let room = Arc::clone(&self.0.room).acquire_many_owned(kib).await;
        room.map_err(|_| WriteError::Stopped)
    }

    fn send(&self, request: Request) -> Result<(), WriteError> {
        self.0.writer.lock().as_ref().ok_or(WriteError::Stopped)?.send(request)
    }
}

impl Shared {
    fn close(&self) {
        self.room.close();
        let running = self.writer.lock().take();
        if let Some(running) = running {
            running.finish();
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.close();
    }
}
