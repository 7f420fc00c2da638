//! The listener: one port for HTTP/1.1, HTTP/2 and gRPC, with a bound on everything that a peer can make it hold.
//!
//! An accept loop of our own, because a connection cap, a deadline for the first bytes and a pause when descriptors run
//! out belong to none of the libraries below. What a connection may do is in [`ServerLimits`].

mod connection;
mod door;
mod guard;
mod inline;
mod limits;
mod place;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use door::{ClientDoor, Door, DoorBody, admin_router, client_router};
pub use limits::ServerLimits;
pub use place::{BodyError, RequestBody};

use guard::Guard;

/// How long accepting pauses when the process or the machine is out of descriptors or buffers: the connection that could
/// not be accepted stays in the queue, so trying again at once would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How often at most the log says that connections are refused.
const REFUSAL_LOG_PERIOD: Duration = Duration::from_secs(10);

/// Serves until `shutdown`, then stops accepting, lets what is in flight finish within `drain_timeout`, and returns.
///
/// A request's extensions carry its peer as [`ConnectInfo<SocketAddr>`](axum::extract::ConnectInfo), gRPC's excepted.
pub async fn serve<D: Door>(
    listener: TcpListener,
    door: D,
    limits: ServerLimits,
    shutdown: CancellationToken,
) {
    let slots = Arc::new(Semaphore::new(limits.connections_max));
    let guard = Arc::new(Guard::new(door, &limits));
    let limits = Arc::new(limits);
    let tracker = TaskTracker::new();
    let mut refusals = Refusals::default();
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
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
            refusals.note(limits.connections_max);
            continue;
        };
        let (guard, limits, draining) = (Arc::clone(&guard), Arc::clone(&limits), shutdown.child_token());
        tracker.spawn(async move {
            connection::run(stream, peer, guard, &limits, draining).await;
            drop(slot);
        });
    }
    drop(listener);
    tracker.close();
    tracker.wait().await;
}

/// Connections refused at the cap, and when the log last said so.
#[derive(Default)]
struct Refusals {
    unsaid: u64,
    said_at: Option<Instant>,
}

impl Refusals {
    fn note(&mut self, connections_max: usize) {
        self.unsaid += 1;
        if self.said_at.is_none_or(|said_at| said_at.elapsed() >= REFUSAL_LOG_PERIOD) {
            tracing::warn!(connections_max, refused = self.unsaid, "refusing connections");
            *self = Self { unsaid: 0, said_at: Some(Instant::now()) };
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
