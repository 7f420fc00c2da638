//! The answering side: accepts connections, checks who calls, and has each call answered.
//!
//! Invariant: connections, calls under way and bytes that wait are bounded; a call over a bound is refused as busy or waits
//! unread, it never piles up. Calls of one connection are answered in any order.

use std::sync::Arc;
use std::time::Duration;

use leasehold_model::NodeId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use super::frame::{Frame, FrameError};
use super::hello;
use super::net::{TcpListener, TcpStream};
use super::pump::{FrameReader, PumpError, Queue, write_frames};
use super::stream::{ReadHalf, SecureStream};
use super::{Access, Incoming, Inner, Kind, PAYLOAD_BYTES_MAX, PeerEvent, Refusal};
use crate::types::GroupId;

/// Connections at a time: several for each node of a large cluster. Further ones wait to be accepted.
const CONNECTIONS_MAX: usize = 1024;
/// Of these, strangers' at most; a further one is closed.
const STRANGERS_MAX: usize = 64;
/// A connection says who calls in this time, or is closed.
const HELLO_MAX: Duration = Duration::from_secs(3);
/// Calls of one connection that are being answered; further ones are refused as busy.
const CALLS_MAX: usize = 8 << 10;
/// The longest that a call may take, whatever the caller says.
const CALL_MAX: Duration = Duration::from_secs(120);
/// Pause after a connection couldn't be accepted: there may be no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections until the transport is shut down.
pub(super) async fn accept(inner: Arc<Inner>, listener: TcpListener) {
    let stop = inner.stop.clone();
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let strangers = Arc::new(Semaphore::new(STRANGERS_MAX));
    let accepting = async {
        loop {
            let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let (inner, strangers) = (Arc::clone(&inner), Arc::clone(&strangers));
                    tokio::spawn(async move {
                        let _permit = permit;
                        serve(inner, stream, strangers).await;
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "can't accept a peer's connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    };
    stop.run_until_cancelled(accepting).await;
}

async fn serve(inner: Arc<Inner>, stream: TcpStream, strangers: Arc<Semaphore>) {
    let severed = inner.severed.subscribe();
    if inner.is_isolated() {
        return;
    }
    let me = *inner.identity.borrow();
    let greeted = timeout(HELLO_MAX, async {
        stream.set_nodelay(true)?;
        let mut stream = inner.secure.accept(stream).await?;
        let from = hello::answer(me, &mut stream).await?;
        Ok::<_, hello::HelloError>((from, stream))
    });
    let (from, SecureStream { reader, writer, .. }) = match greeted.await {
        Ok(Ok(greeted)) => greeted,
        Ok(Err(error)) => return tracing::debug!(%error, "a connection was refused"),
        Err(_) => return tracing::debug!("a connection didn't say who calls"),
    };
    let _stranger = match from {
        Some(_) => None,
        None => match strangers.try_acquire() {
            Ok(permit) => Some(permit),
            Err(_) => return tracing::warn!("too many strangers are connected"),
        },
    };
    let (queue, frames) = Queue::new(inner.way(from));
    let error = tokio::select! {
        error = receive(&inner, from, reader, queue) => error,
        written = write_frames(frames, writer, None, &inner.written) => written.err().unwrap_or(PumpError::Closed),
        () = inner.closing(severed) => PumpError::Closed,
    };
    if let Some(node) = from {
        tracing::debug!(peer = node.0, %error, "its connection ended");
        inner.tell(PeerEvent::Down(node));
    }
}

async fn receive(inner: &Arc<Inner>, from: Option<NodeId>, reader: ReadHalf, queue: Queue) -> PumpError {
    let mut reader = FrameReader::new(reader);
    let room = Arc::new(Semaphore::new(CALLS_MAX));
    loop {
        let answer = match reader.next().await {
            Ok(Frame::Call { id, kind, group, deadline_ms, payload }) => {
                let within = Duration::from_millis(deadline_ms.into()).min(CALL_MAX);
                let call = Incoming { from, group, deadline: Instant::now() + within, payload };
                match Arc::clone(&room).try_acquire_owned() {
                    Ok(permit) => {
                        tokio::spawn(answer(Arc::clone(inner), id, kind, call, queue.clone(), permit));
                        continue;
                    }
                    Err(_) => Frame::Reply { id, outcome: Err(Refusal::Busy) },
                }
            }
            Ok(Frame::Ping) => Frame::Pong,
            Ok(Frame::Reply { .. } | Frame::Pong) => return FrameError::Malformed.into(),
            Err(error) => return error,
        };
        if queue.send(answer).await.is_err() {
            return PumpError::Closed;
        }
    }
}

async fn answer(
    inner: Arc<Inner>,
    id: u64,
    kind: Kind,
    call: Incoming,
    queue: Queue,
    _permit: OwnedSemaphorePermit,
) {
    let handler = inner.handlers.read().get(&kind).map(|(access, handler)| (*access, Arc::clone(handler)));
    let (deadline, group) = (call.deadline, call.group);
    let outcome = match handler {
        None => Err(Refusal::NotServed),
        Some((Access::Members, _)) if call.from.is_none() => Err(Refusal::NotAllowed),
        Some((_, handler)) => match timeout_at(deadline, handler.handle(call)).await {
            Ok(outcome) => outcome,
            // The caller has stopped waiting.
            Err(_) => return,
        },
    };
    // The connection may have ended: then nobody waits for the answer.
    let _ = queue
        .send(Frame::Reply { id, outcome: outcome.and_then(|payload| fitting(kind, group, payload)) })
        .await;
}

fn fitting(kind: Kind, group: GroupId, payload: bytes::Bytes) -> Result<bytes::Bytes, Refusal> {
    if payload.len() <= PAYLOAD_BYTES_MAX {
        return Ok(payload);
    }
    tracing::error!(
        kind = kind.0,
        group = group.0,
        bytes = payload.len(),
        "an answer is too long to be sent"
    );
    Err(Refusal::Failed)
}
