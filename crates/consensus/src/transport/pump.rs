//! The two loops of a connection: frames in, frames out.
//!
//! Invariant: frames that wait together leave in one write; a peer that doesn't read or says nothing for too long
//! loses its connection. Neither loop knows what frames mean.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::CallError;
use super::delay::Way;
use super::frame::{Frame, FrameError};
use super::round_trip::Pings;
use super::stream::{ReadHalf, WriteHalf};

/// About how many bytes one write carries: more frames wait for the next.
const WRITE_BYTES: usize = 256 << 10;
/// How many frames are taken from the queue at once.
const TAKEN_MAX: usize = 512;
/// A write that doesn't end in this time ends the connection: the peer is stopped or gone.
const WRITE_STALL_MAX: Duration = Duration::from_secs(5);
/// A calling side without anything to say shows that it is there this often.
const PING_EVERY: Duration = Duration::from_secs(1);
/// A connection on which nothing arrives for this long is broken, even if nobody said so: several pings were missed.
const SILENCE_MAX: Duration = Duration::from_secs(4);
/// Memory is taken for what arrives in steps of this.
const READ_BYTES: usize = 64 << 10;

/// Frames that may wait to be written. At the bound calls fail as overloaded, and answers wait.
const QUEUE_FRAMES_MAX: usize = 16 << 10;
/// As [`QUEUE_FRAMES_MAX`], in KiB.
const QUEUE_KIB_MAX: u32 = 64 << 10;

/// Frames that wait to be written, bounded in number and bytes. Clones feed the same connection.
#[derive(Clone)]
pub(super) struct Queue {
    sender: mpsc::Sender<Queued>,
    room: Arc<Semaphore>,
    way: Way,
}

/// A frame and the room it takes until it is written.
pub(super) struct Queued {
    frame: Frame,
    /// When it may be written; none: at once.
    due: Option<Instant>,
    _room: Option<OwnedSemaphorePermit>,
}

impl Queue {
    pub(super) fn new(way: Way) -> (Self, mpsc::Receiver<Queued>) {
        let (sender, receiver) = mpsc::channel(QUEUE_FRAMES_MAX);
        (Self { sender, room: Arc::new(Semaphore::new(QUEUE_KIB_MAX as usize)), way }, receiver)
    }

    /// Queues a frame if there is room now.
    pub(super) fn try_send(&self, frame: Frame) -> Result<(), CallError> {
        let room = Arc::clone(&self.room).try_acquire_many_owned(kib(&frame));
        let room = Some(room.map_err(|_| CallError::Overloaded)?);
        self.sender.try_send(Queued { frame, due: self.way.due(), _room: room }).map_err(
            |error| match error {
                mpsc::error::TrySendError::Full(_) => CallError::Overloaded,
                mpsc::error::TrySendError::Closed(_) => CallError::Unreachable,
            },
        )
    }

    /// Queues a frame when there is room.
    pub(super) async fn send(&self, frame: Frame) -> Result<(), PumpError> {
        let room = Arc::clone(&self.room).acquire_many_owned(kib(&frame)).await;
        let room = Some(room.map_err(|_| PumpError::Closed)?);
        let queued = Queued { frame, due: self.way.due(), _room: room };
        self.sender.send(queued).await.map_err(|_| PumpError::Closed)
    }
}

fn kib(frame: &Frame) -> u32 {
    u32::try_from(frame.len().div_ceil(1024)).unwrap_or(u32::MAX)
}

/// Counts what was written on all connections.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) frames: AtomicU64,
    pub(super) writes: AtomicU64,
    pub(super) bytes: AtomicU64,
}

impl Written {
    fn add(&self, frames: usize, bytes: usize) {
        let count = |number| u64::try_from(number).expect("counts fit into 64 bits");
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.frames.fetch_add(count(frames), Ordering::Relaxed);
        self.bytes.fetch_add(count(bytes), Ordering::Relaxed);
    }
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum PumpError {
    #[error("closed by the peer")]
    Closed,
    #[error("nothing arrived for {} s", SILENCE_MAX.as_secs())]
    Silent,
    #[error("the peer stopped reading")]
    Stalled,
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Reads frames off a connection.
pub(super) struct FrameReader {
    half: ReadHalf,
    buffer: BytesMut,
}

impl FrameReader {
    pub(super) fn new(half: ReadHalf) -> Self {
        Self { half, buffer: BytesMut::new() }
    }

    /// The next frame. Not to be called again after an error.
    pub(super) async fn next(&mut self) -> Result<Frame, PumpError> {
        loop {
            if let Some(frame) = Frame::decode(&mut self.buffer)? {
                return Ok(frame);
            }
            self.buffer.reserve(READ_BYTES);
            let read = timeout(SILENCE_MAX, self.half.read_buf(&mut self.buffer)).await;
            if read.map_err(|_| PumpError::Silent)?? == 0 {
                return Err(PumpError::Closed);
            }
        }
    }
}

/// What a calling side shows that it is there with, and over which way that goes.
pub(super) struct Showing<'a> {
    pub(super) pings: &'a Pings,
    pub(super) way: Way,
}

/// Writes what is queued until the queue is closed. The calling side pings at the beginning and every now and then.
pub(super) async fn write_frames(
    mut queue: mpsc::Receiver<Queued>,
    mut half: WriteHalf,
    showing: Option<Showing<'_>>,
    written: &Written,
) -> Result<(), PumpError> {
    let mut taken = Vec::new();
    let mut buffer = BytesMut::new();
    let mut next_ping = Instant::now();
    loop {
        let queued = queue.recv_many(&mut taken, TAKEN_MAX);
        let count = match &showing {
            None => Some(queued.await),
            Some(_) => timeout_at(next_ping, queued).await.ok(),
        };
        match (count, &showing) {
            (Some(0), _) => return Ok(()),
            (Some(_), _) | (None, None) => take_company(&mut queue, &mut taken).await,
            (None, Some(Showing { pings, way })) => {
                let now = Instant::now();
                next_ping = now + PING_EVERY;
                pings.sent(now);
                taken.push(Queued { frame: Frame::Ping, due: way.due(), _room: None });
            }
        }
        let mut frames = 0;
        for queued in taken.drain(..) {
            if let Some(due) = queued.due.filter(|due| *due > Instant::now()) {
                if frames > 0 {
                    written.add(std::mem::take(&mut frames), buffer.len());
                    write(&mut half, &mut buffer).await?;
                }
                sleep_until(due).await;
            }
            queued.frame.encode(&mut buffer);
            frames += 1;
            if buffer.len() >= WRITE_BYTES {
                written.add(std::mem::take(&mut frames), buffer.len());
                write(&mut half, &mut buffer).await?;
            }
        }
        if frames > 0 {
            written.add(frames, buffer.len());
            write(&mut half, &mut buffer).await?;
        }
    }
}

/// Others that are about to queue a frame do so now: heartbeats of many groups leave together.
async fn take_company(queue: &mut mpsc::Receiver<Queued>, taken: &mut Vec<Queued>) {
    tokio::task::yield_now().await;
    while taken.len() < TAKEN_MAX {
        let Ok(queued) = queue.try_recv() else { break };
        taken.push(queued);
    }
}

async fn write(half: &mut WriteHalf, buffer: &mut BytesMut) -> Result<(), PumpError> {
    let written = async {
        half.write_all(buffer).await?;
        half.flush().await
    };
    timeout(WRITE_STALL_MAX, written).await.map_err(|_| PumpError::Stalled)??;
    buffer.clear();
    // The buffer of a long frame isn't kept.
    if buffer.capacity() > 2 * WRITE_BYTES {
        *buffer = BytesMut::new();
    }
    Ok(())
}
