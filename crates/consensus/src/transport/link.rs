//! The calling side of one peer: its connection, and the calls that wait for answers.
//!
//! Invariant: a call is answered once, by its reply, by the end of its connection, or by its deadline. While there is no
//! connection calls fail at once; a connection is tried again and again, with pauses that grow and vary.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use leasehold_model::NodeId;
use parking_lot::Mutex;
use rand::Rng;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::delay::Way;
use super::frame::Frame;
use super::hello::{self, HelloError};
use super::net::TcpStream;
use super::pump::{FrameReader, PumpError, Queue, Showing, write_frames};
use super::round_trip::Pings;
use super::stream::{ReadHalf, SecureStream};
use super::{CallError, Identity, Inner, Kind, PeerEvent};
use crate::types::GroupId;

/// Calls to one peer that wait for an answer; at the bound further ones fail as overloaded.
const CALLS_MAX: usize = 16 << 10;
/// A connection is made, confirmed and wrapped in this time, or given up.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// The first pause before a connection is tried again; doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// A peer that comes back is reached after this at the latest.
const PAUSE_MAX: Duration = Duration::from_millis(800);

type Waiting = BTreeMap<u64, oneshot::Sender<Result<Bytes, CallError>>>;

/// See the module.
pub(super) struct Link {
    address: watch::Sender<String>,
    session: Mutex<Option<Arc<Session>>>,
    stop: CancellationToken,
}

/// One connection's calls.
struct Session {
    queue: Queue,
    next_id: AtomicU64,
    pings: Pings,
    /// None when the connection has ended.
    waiting: Mutex<Option<Waiting>>,
}

impl Link {
    pub(super) fn start(inner: Arc<Inner>, node: NodeId, address: &str) -> Arc<Self> {
        let stop = inner.stop.child_token();
        let address = watch::Sender::new(address.to_owned());
        let link = Arc::new(Self { address, session: Mutex::default(), stop: stop.clone() });
        let running = Arc::clone(&link);
        tokio::spawn(async move { stop.run_until_cancelled(running.run(&inner, node)).await });
        link
    }

    pub(super) fn set_address(&self, address: &str) {
        self.address.send_if_modified(|known| {
            let changed = known != address;
            address.clone_into(known);
            changed
        });
    }

    pub(super) fn stop(&self) {
        self.stop.cancel();
        if let Some(session) = self.session.lock().take() {
            session.end();
        }
    }

    pub(super) fn is_up(&self) -> bool {
        self.session.lock().is_some()
    }

    /// How long a message there and back takes; none while there is no connection, or no answer on it yet.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        self.session.lock().as_ref()?.pings.round_trip()
    }

    pub(super) async fn call(
        &self,
        kind: Kind,
        group: GroupId,
        payload: Bytes,
        within: Duration,
    ) -> Result<Bytes, CallError> {
        let session = self.session.lock().as_ref().map(Arc::clone).ok_or(CallError::Unreachable)?;
        session.call(kind, group, payload, within).await
    }

    async fn run(&self, inner: &Inner, node: NodeId) {
        let mut address = self.address.subscribe();
        let mut identity = inner.identity.subscribe();
        let mut pause = PAUSE_MIN;
        loop {
            // The sender lives as long as `inner`.
            let Ok(Some(me)) = identity.wait_for(Option::is_some).await.map(|me| *me) else { return };
            let target = address.borrow_and_update().clone();
            // Before the connection is made: an order to break all must not be missed by one that is being made.
            let severed = inner.severed.subscribe();
            match connect(inner, me, node, &target).await {
                Ok(stream) => {
                    pause = PAUSE_MIN;
                    tracing::debug!(peer = node.0, address = target, "connected");
                    let error = self.converse(inner, node, stream, severed).await;
                    tracing::debug!(peer = node.0, %error, "connection ended");
                }
                Err(error) => tracing::debug!(peer = node.0, address = target, %error, "can't connect"),
            }
            let sleep = inner.rng.lock().random_range(pause / 2..=pause);
            pause = (pause * 2).min(PAUSE_MAX);
            tokio::select! {
                () = tokio::time::sleep(sleep) => {}
                _ = address.changed() => pause = PAUSE_MIN,
            }
        }
    }

    /// Carries calls until the connection ends.
    async fn converse(
        &self,
        inner: &Inner,
        node: NodeId,
        stream: SecureStream,
        severed: watch::Receiver<u64>,
    ) -> PumpError {
        let SecureStream { reader, writer, .. } = stream;
        let way = inner.way(Some(node));
        let (queue, frames) = Queue::new(way.clone());
        let session = Arc::new(Session::new(queue));
        let showing = Some(Showing { pings: &session.pings, way });
        let _guard = SessionGuard { link: self, session: &session };
        *self.session.lock() = Some(Arc::clone(&session));
        inner.tell(PeerEvent::Up(node));
        let error = tokio::select! {
            error = session.receive(reader) => error,
            written = write_frames(frames, writer, showing, &inner.written) => written.err().unwrap_or(PumpError::Closed),
            () = inner.closing(severed) => PumpError::Closed,
        };
        inner.tell(PeerEvent::Down(node));
        error
    }
}

/// Ends the session's calls however the conversation ends, by cancellation too.
struct SessionGuard<'a> {
    link: &'a Link,
    session: &'a Session,
}

impl Drop for SessionGuard<'_> {
    fn drop(&mut self) {
        self.link.session.lock().take();
        self.session.end();
    }
}

impl Session {
    fn new(queue: Queue) -> Self {
        let (next_id, pings) = (AtomicU64::new(1), Pings::default());
        Self { queue, next_id, pings, waiting: Mutex::new(Some(Waiting::new())) }
    }

    async fn call(
        &self,
        kind: Kind,
        group: GroupId,
        payload: Bytes,
        within: Duration,
    ) -> Result<Bytes, CallError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (told, answer) = oneshot::channel();
        self.expect(id, told)?;
        let _forget = ForgetCall { session: self, id };
        let deadline_ms = u32::try_from(within.as_millis()).unwrap_or(u32::MAX);
        self.queue.try_send(Frame::Call { id, kind, group, deadline_ms, payload })?;
        match timeout(within, answer).await {
            Ok(answer) => answer.unwrap_or(Err(CallError::Lost)),
            Err(_) => Err(CallError::Deadline),
        }
    }

    fn expect(&self, id: u64, told: oneshot::Sender<Result<Bytes, CallError>>) -> Result<(), CallError> {
        let mut waiting = self.waiting.lock();
        let waiting = waiting.as_mut().ok_or(CallError::Unreachable)?;
        if waiting.len() >= CALLS_MAX {
            return Err(CallError::Overloaded);
        }
        waiting.insert(id, told);
        Ok(())
    }

    async fn receive(&self, reader: ReadHalf) -> PumpError {
        let mut reader = FrameReader::new(reader);
        loop {
            match reader.next().await {
                Ok(Frame::Reply { id, outcome }) => self.finish(id, outcome.map_err(CallError::from)),
                Ok(Frame::Pong) => self.pings.answered(Instant::now()),
                Ok(Frame::Call { .. } | Frame::Ping) => {
                    return io::Error::other("the answering side doesn't call").into();
                }
                Err(error) => return error,
            }
        }
    }

    fn finish(&self, id: u64, outcome: Result<Bytes, CallError>) {
        let told = self.waiting.lock().as_mut().and_then(|waiting| waiting.remove(&id));
        if let Some(told) = told {
            // Its caller may have stopped waiting just now.
            let _ = told.send(outcome);
        }
    }

    fn end(&self) {
        for told in self.waiting.lock().take().into_iter().flat_map(BTreeMap::into_values) {
            let _ = told.send(Err(CallError::Lost));
        }
    }
}

/// A call that its caller dropped, or that ended otherwise, waits for nothing any more.
struct ForgetCall<'a> {
    session: &'a Session,
    id: u64,
}

impl Drop for ForgetCall<'_> {
    fn drop(&mut self) {
        if let Some(waiting) = self.session.waiting.lock().as_mut() {
            waiting.remove(&self.id);
        }
    }
}

/// One call on a connection of its own, to whoever answers.
pub(super) async fn call_address(
    inner: &Inner,
    address: &str,
    kind: Kind,
    payload: Bytes,
    within: Duration,
) -> Result<(Option<Identity>, Bytes), CallError> {
    let connected = timeout(within.min(CONNECT_MAX), async {
        let mut stream = open(inner, None, address).await?;
        let answered = hello::greet_anyone(&mut stream).await?;
        Ok::<_, HelloError>((answered, stream))
    });
    let (answered, SecureStream { reader, writer, .. }) =
        connected.await.map_err(|_| CallError::Unreachable)?.map_err(|_| CallError::Unreachable)?;
    let (queue, frames) = Queue::new(Way::default());
    let session = Session::new(queue);
    let showing = Some(Showing { pings: &session.pings, way: Way::default() });
    let outcome = tokio::select! {
        outcome = session.call(kind, GroupId::CONTROL, payload, within) => outcome,
        _ = session.receive(reader) => Err(CallError::Lost),
        _ = write_frames(frames, writer, showing, &inner.written) => Err(CallError::Lost),
    };
    Ok((answered, outcome?))
}

async fn connect(
    inner: &Inner,
    me: Identity,
    node: NodeId,
    address: &str,
) -> Result<SecureStream, HelloError> {
    let connected = timeout(CONNECT_MAX, async {
        let mut stream = open(inner, Some(node), address).await?;
        hello::greet(me, node, &mut stream).await?;
        Ok(stream)
    });
    connected.await.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
}

async fn open(inner: &Inner, to: Option<NodeId>, address: &str) -> io::Result<SecureStream> {
    if inner.is_isolated() {
        return Err(io::ErrorKind::NetworkUnreachable.into());
    }
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    inner.secure.connect(stream, to).await
}
