//! The listener: one port or socket for HTTP/1.1, HTTP/2 and gRPC, with a bound on everything that a peer can make it hold.
//!
//! An accept loop of our own, because a connection cap, a deadline for the first bytes and a pause when descriptors run
//! out belong to none of the libraries below. What a connection may do is in [`ServerLimits`].

mod activity;
mod connection;
mod door;
mod guard;
mod inline;
mod limits;
mod listener;
mod place;
mod socket;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use door::{ClientDoor, Door, DoorBody, admin_router, client_router};
pub use limits::ServerLimits;
pub use listener::{Connection, Listener};
pub use place::{BodyError, RequestBody};
pub use socket::{SocketError, SocketListener};

use guard::Guard;

/// How long accepting pauses when the process or the machine is out of descriptors or buffers: the connection that could
/// not be accepted stays in the queue, so trying again at once would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How often at most the log says that connections are refused.
const REFUSAL_LOG_PERIOD: Duration = Duration::from_secs(10);

/// Serves until `shutdown`, then stops accepting, lets what is in flight finish within `drain_timeout`, and returns how many
/// connections had to be cut off: none when all of it did.
///
/// A request's extensions carry its peer as [`ConnectInfo<SocketAddr>`](axum::extract::ConnectInfo), gRPC's excepted. Who comes
/// over a socket of this machine counts as a peer on loopback.
pub async fn serve<D: Door>(
    listener: impl Listener,
    door: D,
    limits: ServerLimits,
    shutdown: CancellationToken,
) -> usize {
    let slots = Arc::new(Semaphore::new(limits.connections_max));
    let guard = Arc::new(Guard::new(door, &limits));
    let limits = Arc::new(limits);
    let tracker = TaskTracker::new();
    let cut_off = Arc::new(AtomicUsize::new(0));
    let mut refusals = Refusals { connections_max: limits.connections_max, unsaid: 0, said_at: None };
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            () = refusals.due() => {
                refusals.say();
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                pause_if_exhausted(&error).await;
                continue;
            }
        };
        let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
            // Closed at once rather than left waiting: its caller can turn to another server.
            refusals.note();
            continue;
        };
        let (guard, limits, draining) = (Arc::clone(&guard), Arc::clone(&limits), shutdown.child_token());
        let cut_off = Arc::clone(&cut_off);
        tracker.spawn(async move {
            if !connection::run(stream, peer, guard, &limits, draining).await {
                cut_off.fetch_add(1, Ordering::Relaxed);
            }
            drop(slot);
        });
    }
    drop(listener);
    refusals.say();
    tracker.close();
    tracker.wait().await;
    cut_off.load(Ordering::Relaxed)
}

/// Connections refused at the cap that the log hasn't told of, and when it last did.
struct Refusals {
    connections_max: usize,
    unsaid: u64,
    said_at: Option<Instant>,
}

impl Refusals {
    fn note(&mut self) {
        self.unsaid += 1;
        if self.said_at.is_none_or(|said_at| said_at.elapsed() >= REFUSAL_LOG_PERIOD) {
            self.say();
        }
    }

    fn say(&mut self) {
        if self.unsaid > 0 {
            let (connections_max, refused) = (self.connections_max, std::mem::take(&mut self.unsaid));
            tracing::warn!(connections_max, refused, "refused connections since the last such line");
            self.said_at = Some(Instant::now());
        }
    }

    /// Ends when those not yet told of are to be told.
    async fn due(&self) {
        match self.said_at.filter(|_| self.unsaid > 0) {
            Some(said_at) => tokio::time::sleep_until(said_at + REFUSAL_LOG_PERIOD).await,
            None => std::future::pending().await,
        }
    }
}

/// A failed accept concerns one peer (it hung up) or all of us (nothing left to accept with).
async fn pause_if_exhausted(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    if matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted) {
        tracing::debug!(%error, "a peer hung up before it was accepted");
        return;
    }
    tracing::warn!(%error, "cannot accept connections, pausing");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

#[cfg(test)]
mod tests;
