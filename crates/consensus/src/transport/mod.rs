//! Calls between nodes: one connection for each pair of nodes and direction, shared by all groups and all kinds of calls.
//!
//! Invariant: a call reaches the node it names or fails; it ends by its deadline; what waits is bounded. A call that failed
//! after it was sent may have been carried out: see [`CallError::unsent`]. Payloads are opaque here, and nothing that
//! arrives can panic or reserve memory ahead of its bytes.
//!
//! A connection opens with a `hello`, then carries `frame`s both ways through the two loops of `pump`. `link` is the
//! calling side of one peer, `server` the answering side of all.

mod delay;
mod frame;
mod hello;
mod link;
mod net;
mod pump;
mod round_trip;
mod server;
mod stream;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use leasehold_model::NodeId;
use parking_lot::{Mutex, RwLock};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::types::GroupId;
use delay::Way;
use link::Link;
use net::TcpListener;
use pump::Written;

pub use delay::Delays;
pub use frame::{FRAME_BYTES_MAX, NoFrame, skip_frames};
pub use stream::{Plain, ReadHalf, Secure, SecureStream, Wrapped, WriteHalf};

/// What the frames and messages of this build are. Nodes of different levels don't talk.
pub const PROTOCOL_LEVEL: u32 = 1;

/// The longest payload of a call or an answer, in bytes. A longer one is refused before anything is sent.
pub const PAYLOAD_BYTES_MAX: usize = FRAME_BYTES_MAX - frame::HEADER_BYTES_MAX;

/// Peer events that a slow listener may be behind; it then misses the oldest.
const EVENTS_MAX: usize = 1024;

/// Names a cluster from its creation on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClusterId(pub u128);

/// Who a node is. Node ids start at 1 and are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its cluster.
    pub cluster: ClusterId,
    /// Its id in it.
    pub node: NodeId,
}

/// What a call is about; says which handler answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind(pub u16);

impl Kind {
    /// Raft: entries, or a heartbeat.
    pub const APPEND: Self = Self(1);
    /// Raft: a request for a vote.
    pub const VOTE: Self = Self(2);
    /// Raft: a piece of a snapshot.
    pub const SNAPSHOT: Self = Self(3);
    /// Raft: whether a live leader is heard.
    pub const PRE_VOTE: Self = Self(4);
    /// Raft: the leader asks the receiver to take over.
    pub const ELECT: Self = Self(5);

    /// The node's own calls: above all of the runner's.
    #[must_use]
    pub const fn app(number: u16) -> Self {
        Self(0x8000 | number)
    }
}

/// Who may make calls of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nodes of this cluster.
    Members,
    /// Whoever connects: a node that has no id yet.
    Anyone,
}

/// A call that arrived.
#[derive(Debug)]
pub struct Incoming {
    /// The node that calls; none for a stranger.
    pub from: Option<NodeId>,
    /// The group that it is about.
    pub group: GroupId,
    /// When the caller stops waiting. The handler is dropped then.
    pub deadline: Instant,
    /// What it says.
    pub payload: Bytes,
}

/// What a handler returns.
pub type Answer = Pin<Box<dyn Future<Output = Result<Bytes, Refusal>> + Send>>;

/// Answers the calls of one kind, many at a time.
pub trait Handler: Send + Sync + 'static {
    /// Answers one call.
    fn handle(&self, call: Incoming) -> Answer;
}

impl<F, A> Handler for F
where
    F: Fn(Incoming) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Bytes, Refusal>> + Send + 'static,
{
    fn handle(&self, call: Incoming) -> Answer {
        Box::pin(self(call))
    }
}

/// Why the other node gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Nothing there answers this kind of call, or the group isn't there. Nothing was done.
    #[error("it doesn't serve this")]
    NotServed,
    /// It has as many calls as it can bear. Nothing was done.
    #[error("it is overloaded")]
    Busy,
    /// The caller isn't a member. Nothing was done.
    #[error("only members may ask this")]
    NotAllowed,
    /// It didn't understand the payload. Nothing was done.
    #[error("it didn't understand the call")]
    Malformed,
    /// It failed on the way: whether the call was carried out is unknown.
    #[error("it failed while it answered")]
    Failed,
}

impl Refusal {
    const fn code(self) -> u8 {
        match self {
            Self::NotServed => 1,
            Self::Busy => 2,
            Self::NotAllowed => 3,
            Self::Malformed => 4,
            Self::Failed => 5,
        }
    }

    /// A code that isn't known is taken for the one that promises nothing.
    const fn from_code(code: u8) -> Self {
        match code {
            1 => Self::NotServed,
            2 => Self::Busy,
            3 => Self::NotAllowed,
            4 => Self::Malformed,
            _ => Self::Failed,
        }
    }
}

/// Why a call has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No address is known for the node. Not sent.
    #[error("no address is known for the node")]
    UnknownPeer,
    /// There is no connection now; one is being made. Not sent.
    #[error("the node can't be reached")]
    Unreachable,
    /// Too much waits for this node already. Not sent.
    #[error("too many calls wait for the node")]
    Overloaded,
    /// The payload is longer than [`PAYLOAD_BYTES_MAX`]. Not sent.
    #[error("the payload is longer than {PAYLOAD_BYTES_MAX} bytes")]
    TooLarge,
    /// The connection broke while the call was under way: it may have been carried out.
    #[error("the connection broke before the answer")]
    Lost,
    /// No answer in time: it may have been carried out, and may still be.
    #[error("no answer by the deadline")]
    Deadline,
    /// The node answered that it won't.
    #[error("the node refused: {0}")]
    Refused(#[from] Refusal),
}

impl CallError {
    /// Whether it is certain that the call was not carried out.
    #[must_use]
    pub const fn unsent(self) -> bool {
        match self {
            Self::UnknownPeer | Self::Unreachable | Self::Overloaded | Self::TooLarge => true,
            Self::Refused(refusal) => !matches!(refusal, Refusal::Failed),
            Self::Lost | Self::Deadline => false,
        }
    }
}

/// A change of the connections with a peer. A hint that it died or came back, nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerEvent {
    /// A connection to it was made and confirmed.
    Up(NodeId),
    /// A connection to it or from it broke.
    Down(NodeId),
}

/// What a node has written to its peers since it started, calls and answers alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages.
    pub frames: u64,
    /// Writes that carried them: fewer, since what waits together leaves together.
    pub writes: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What a transport starts with.
#[derive(Clone, Debug)]
pub struct TransportConfig {
    /// Who this node is; none until it has joined a cluster.
    pub identity: Option<Identity>,
    /// Where the chance in reconnecting comes from.
    pub seed: u64,
    /// Wraps the connections.
    pub secure: Arc<dyn Secure>,
}

/// The calls of one node. Clones are handles to the same one.
#[derive(Clone)]
pub struct Transport(Arc<Inner>);

/// Who may ask, and who answers.
type Registered = (Access, Arc<dyn Handler>);

struct Inner {
    identity: watch::Sender<Option<Identity>>,
    secure: Arc<dyn Secure>,
    links: Mutex<BTreeMap<NodeId, Arc<Link>>>,
    handlers: RwLock<BTreeMap<Kind, Registered>>,
    events: broadcast::Sender<PeerEvent>,
    rng: Mutex<SmallRng>,
    /// Counts the orders to break all connections.
    severed: watch::Sender<u64>,
    stop: CancellationToken,
    address: SocketAddr,
    written: Written,
    delays: OnceLock<Delays>,
    #[cfg(test)]
    isolated: std::sync::atomic::AtomicBool,
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").field("identity", &*self.0.identity.borrow()).finish_non_exhaustive()
    }
}

impl Transport {
    /// Serves calls on `listener`, and makes calls as the configured node. Runs on the current runtime until
    /// [`Self::shutdown`].
    ///
    /// # Errors
    /// When the listener has no address.
    pub fn start(listener: TcpListener, config: TransportConfig) -> io::Result<Self> {
        let inner = Arc::new(Inner {
            identity: watch::Sender::new(config.identity),
            secure: config.secure,
            links: Mutex::default(),
            handlers: RwLock::default(),
            events: broadcast::Sender::new(EVENTS_MAX),
            rng: Mutex::new(SmallRng::seed_from_u64(config.seed)),
            severed: watch::Sender::new(0),
            stop: CancellationToken::new(),
            address: listener.local_addr()?,
            written: Written::default(),
            delays: OnceLock::new(),
            #[cfg(test)]
            isolated: false.into(),
        });
        tokio::spawn(server::accept(Arc::clone(&inner), listener));
        Ok(Self(inner))
    }

    /// Where calls arrive.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// Who this node is, once it has joined a cluster.
    #[must_use]
    pub fn identity(&self) -> Option<Identity> {
        *self.0.identity.borrow()
    }

    /// From now on this node is a member. Once, when it joins.
    pub fn identify(&self, identity: Identity) {
        self.0.identity.send_replace(Some(identity));
        self.remove_peer(identity.node);
    }

    /// Has the calls of a kind answered. A later handler of the same kind takes its place.
    pub fn register(&self, kind: Kind, access: Access, handler: impl Handler) {
        self.0.handlers.write().insert(kind, (access, Arc::new(handler)));
    }

    /// Says where a node is, `host:port`; connects to it, and again whenever the connection breaks. A connection that stands
    /// stays: it was confirmed to end at this node.
    pub fn set_peer(&self, node: NodeId, address: &str) {
        if self.identity().is_some_and(|me| me.node == node) {
            return;
        }
        let mut links = self.0.links.lock();
        if let Some(link) = links.get(&node) {
            link.set_address(address);
        } else {
            links.insert(node, Link::start(Arc::clone(&self.0), node, address));
        }
    }

    /// Forgets a node and closes the connection to it.
    pub fn remove_peer(&self, node: NodeId) {
        if let Some(link) = self.0.links.lock().remove(&node) {
            link.stop();
        }
    }

    /// The nodes that have an address, and whether a connection to each stands.
    #[must_use]
    pub fn peers(&self) -> Vec<(NodeId, bool)> {
        self.0.links.lock().iter().map(|(node, link)| (*node, link.is_up())).collect()
    }

    /// How long a message to a node and back takes, smoothed; none while it isn't known.
    #[must_use]
    pub fn round_trip(&self, node: NodeId) -> Option<Duration> {
        self.0.links.lock().get(&node)?.round_trip()
    }

    /// The same of every node of which it is known.
    #[must_use]
    pub fn round_trips(&self) -> Vec<(NodeId, Duration)> {
        let links = self.0.links.lock();
        links.iter().filter_map(|(node, link)| Some((*node, link.round_trip()?))).collect()
    }

    /// Has what is sent to nodes held back, on connections made from now on, as a long way to them would. Once; for trying
    /// things out.
    pub fn hold_back(&self, delays: Delays) {
        // Told twice, the first word holds.
        let _ = self.0.delays.set(delays);
    }

    /// Connections made and broken from now on.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<PeerEvent> {
        self.0.events.subscribe()
    }

    /// What was written to peers so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        let written = &self.0.written;
        Traffic {
            frames: written.frames.load(Ordering::Relaxed),
            writes: written.writes.load(Ordering::Relaxed),
            bytes: written.bytes.load(Ordering::Relaxed),
        }
    }

    /// Asks a node, and waits for its answer for `within` at most.
    ///
    /// # Errors
    /// See [`CallError`]; [`CallError::unsent`] tells what is certain.
    pub async fn call(
        &self,
        to: NodeId,
        kind: Kind,
        group: GroupId,
        payload: Bytes,
        within: Duration,
    ) -> Result<Bytes, CallError> {
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(CallError::TooLarge);
        }
        let link = self.0.links.lock().get(&to).map(Arc::clone).ok_or(CallError::UnknownPeer)?;
        link.call(kind, group, payload, within).await
    }

    /// Asks whoever answers at an address, as a stranger, on a connection of its own: how a node finds its cluster.
    /// Returns who answered, if that node has joined a cluster, and what it said.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn call_address(
        &self,
        address: &str,
        kind: Kind,
        payload: Bytes,
        within: Duration,
    ) -> Result<(Option<Identity>, Bytes), CallError> {
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(CallError::TooLarge);
        }
        link::call_address(&self.0, address, kind, payload, within).await
    }

    /// Closes all connections for good. Calls under way end as [`CallError::Lost`].
    pub fn shutdown(&self) {
        self.0.stop.cancel();
    }

    /// Cuts this node off from all others, or ends that.
    #[cfg(test)]
    pub(crate) fn isolate(&self, isolated: bool) {
        self.0.isolated.store(isolated, std::sync::atomic::Ordering::SeqCst);
        self.0.severed.send_modify(|count| *count += 1);
    }
}

impl Inner {
    fn way(&self, to: Option<NodeId>) -> Way {
        Way::to(to, self.delays.get().cloned())
    }

    /// Done when every connection has to close.
    async fn closing(&self, mut severed: watch::Receiver<u64>) {
        tokio::select! {
            () = self.stop.cancelled() => {}
            _ = severed.changed() => {}
        }
    }

    fn tell(&self, event: PeerEvent) {
        // Nobody has to listen.
        let _ = self.events.send(event);
    }

    #[cfg(test)]
    fn is_isolated(&self) -> bool {
        self.isolated.load(std::sync::atomic::Ordering::SeqCst)
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "tests isolate a node")]
    const fn is_isolated(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
