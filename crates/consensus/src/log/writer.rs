//! The log as the rest of the node sees it: a thread that writes, and handles to it.
//!
//! Invariant: one thread writes; a change that was accepted by [`Log::write`] is made in the order of the calls, even
//! when its caller stops waiting. What waits is bounded in bytes.

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};

use super::engine::{Engine, Request};
use super::read::Reader;
use super::record::entries_bytes;
use super::{Change, GroupId, LogConfig, OnFatal, OpenError, WriteError};
use crate::disk::{Disk, RealDisk};

/// Bytes of changes that may wait for the writer, in KiB; callers wait for room at the bound.
const QUEUE_KIB_MAX: u32 = 64 << 10;
/// How many waiting changes are taken at once.
const TAKEN_MAX: usize = 4096;
/// How often a full disk is asked for room.
const PROBE_EVERY: Duration = Duration::from_millis(250);

/// A log with its writer. Clones are handles to the same one; what reads is in [`Reader`].
#[derive(Clone, Debug)]
pub struct Log(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    reader: Reader,
    sender: Mutex<Option<Sender<Request>>>,
    room: Arc<Semaphore>,
    full: watch::Receiver<bool>,
    thread: Mutex<Option<JoinHandle<()>>>,
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
        let (sender, receiver) = channel();
        let (full_sender, full) = watch::channel(engine.is_full());
        let thread = Builder::new().name("raft-log".to_owned()).spawn(move || {
            let _guard = FatalOnPanic(on_fatal);
            run(engine, &receiver, &full_sender);
        })?;
        Ok(Self(Arc::new(Shared {
            reader,
            sender: Mutex::new(Some(sender)),
            room: Arc::new(Semaphore::new(QUEUE_KIB_MAX as usize)),
            full,
            thread: Mutex::new(Some(thread)),
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
        let sender = self.0.sender.lock();
        let sender = sender.as_ref().ok_or(WriteError::Stopped)?;
        sender.send(request).map_err(|_| WriteError::Stopped)
    }
}

impl Shared {
    fn close(&self) {
        self.room.close();
        self.sender.lock().take();
        if let Some(thread) = self.thread.lock().take() {
            // A panic there was told by its guard.
            let _ = thread.join();
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.close();
    }
}

/// The writer's thread: takes all that waits, and writes it together.
fn run(mut engine: Engine, requests: &Receiver<Request>, full: &watch::Sender<bool>) {
    loop {
        match next(&engine, requests) {
            Ok(first) => engine.process(std::iter::once(first).chain(requests.try_iter().take(TAKEN_MAX))),
            Err(RecvTimeoutError::Timeout) => engine.probe(),
            Err(RecvTimeoutError::Disconnected) => return engine.close(),
        }
        full.send_if_modified(|told| std::mem::replace(told, engine.is_full()) != engine.is_full());
    }
}

fn next(engine: &Engine, requests: &Receiver<Request>) -> Result<Request, RecvTimeoutError> {
    if engine.is_full() {
        requests.recv_timeout(PROBE_EVERY)
    } else {
        requests.recv().map_err(|_| RecvTimeoutError::Disconnected)
    }
}

/// A writer that panicked has stopped as one whose disk failed has.
struct FatalOnPanic(OnFatal);

impl Drop for FatalOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.0)(&std::io::Error::other("the log's writer panicked"));
        }
    }
}
