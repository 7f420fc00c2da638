//! The log's writer as a thread of its own.
//!
//! Invariant: what waits is taken together and written with one sync; the writer ends when nobody can ask any more.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use tokio::sync::watch;

use super::engine::{Engine, Request};
use super::{OnFatal, WriteError};

/// How many waiting changes are taken at once.
const TAKEN_MAX: usize = 4096;
/// How often a full disk is asked for room.
const PROBE_EVERY: Duration = Duration::from_millis(250);

/// A writer at work.
#[derive(Debug)]
pub(super) struct Running {
    requests: Sender<Request>,
    thread: JoinHandle<()>,
}

/// Starts the writer. `full` is told whether the disk is.
pub(super) fn start(engine: Engine, full: watch::Sender<bool>, on_fatal: OnFatal) -> io::Result<Running> {
    let (requests, receiver) = channel();
    let thread = Builder::new().name("raft-log".to_owned()).spawn(move || {
        let _guard = FatalOnPanic(on_fatal);
        run(engine, &receiver, &full);
    })?;
    Ok(Running { requests, thread })
}

impl Running {
    pub(super) fn send(&self, request: Request) -> Result<(), WriteError> {
        self.requests.send(request).map_err(|_| WriteError::Stopped)
    }

    /// Waits for what was accepted. Blocks.
    pub(super) fn finish(self) {
        drop(self.requests);
        // A panic there was told by its guard.
        let _ = self.thread.join();
    }
}

/// Takes all that waits, and writes it together.
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
            (self.0)(&io::Error::other("the log's writer panicked"));
        }
    }
}
