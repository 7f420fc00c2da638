//! The log's writer in a simulation: a task, so that there is one thread and its order is the seed's.
//!
//! Invariant: as the thread's, and a sync takes time: what comes meanwhile is written with it or after it, and a machine that
//! dies in it keeps what its disk kept.

use std::io;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::engine::{Engine, Request};
use super::{OnFatal, WriteError};

/// How long a write and its sync take.
const SYNC: Duration = Duration::from_millis(1);
/// How often a full disk is asked for room.
const PROBE_EVERY: Duration = Duration::from_millis(250);

/// A writer at work.
#[derive(Debug)]
pub(super) struct Running(UnboundedSender<Request>);

/// Starts the writer. `full` is told whether the disk is.
#[expect(clippy::unnecessary_wraps, reason = "a thread may not start, and this stands in for one")]
pub(super) fn start(engine: Engine, full: watch::Sender<bool>, _on_fatal: OnFatal) -> io::Result<Running> {
    let (requests, receiver) = unbounded_channel();
    tokio::spawn(run(engine, receiver, full));
    Ok(Running(requests))
}

impl Running {
    pub(super) fn send(&self, request: Request) -> Result<(), WriteError> {
        self.0.send(request).map_err(|_| WriteError::Stopped)
    }

    /// Nothing is awaited: the task ends after what was accepted.
    pub(super) fn finish(self) {
        drop(self.0);
    }
}

async fn run(mut engine: Engine, mut requests: UnboundedReceiver<Request>, full: watch::Sender<bool>) {
    loop {
        let next = if engine.is_full() {
            timeout(PROBE_EVERY, requests.recv()).await
        } else {
            Ok(requests.recv().await)
        };
        match next {
            Ok(Some(first)) => {
                sleep(SYNC).await;
                let waiting = std::iter::from_fn(|| requests.try_recv().ok());
                engine.process(std::iter::once(first).chain(waiting));
            }
            Ok(None) => return engine.close(),
            Err(_) => engine.probe(),
        }
        full.send_if_modified(|told| std::mem::replace(told, engine.is_full()) != engine.is_full());
    }
}
