//! Chitchat's transport over UDP: seals what goes out, opens and checks what comes in before anything decodes it.
//!
//! Invariant: the socket, the count of sent datagrams and the replay windows outlive chitchat's task, so that a
//! restarted one continues where the last one ended. Errors of single datagrams are counted, never returned.

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chitchat::transport::{Socket, Transport};
use chitchat::{ChitchatMessage, Deserializable, Serializable};
use leasehold_model::NodeId;
use parking_lot::{Mutex, RwLock};
use rand::RngCore;
use tokio::net::UdpSocket;
use tokio::time::Instant;
use tracing::debug;

use crate::budget::Budget;
use crate::counters::{Counters, Reason};
use crate::message::{Checker, Fitted, Malformed};
use crate::seal::{Boot, KeyRing, NONCE_LEN, OVERHEAD, Opener, PLAIN_MAX, Sealer};

/// The longest datagram that is opened.
const DATAGRAM_MAX: usize = PLAIN_MAX + OVERHEAD;

/// Pause after the operating system reported an error on receiving, so that a lasting one doesn't take the processor.
const ERROR_PAUSE: Duration = Duration::from_millis(10);

/// Datagrams dropped in a row before other tasks get a turn.
const DROPS_PER_TURN: u32 = 32;

/// The one socket of this node's gossip and what guards it.
#[derive(Debug)]
pub(crate) struct Wire {
    own: NodeId,
    socket: UdpSocket,
    keys: RwLock<Arc<KeyRing>>,
    sealer: Mutex<Sealer>,
    inbound: Mutex<Inbound>,
    counters: Arc<Counters>,
    opened_at: Instant,
}

#[derive(Debug)]
struct Inbound {
    budget: Budget,
    opener: Opener,
    checker: Checker,
}

impl Wire {
    /// Talks through an open socket.
    pub(crate) fn new(
        own: NodeId,
        boot: Boot,
        socket: UdpSocket,
        keys: KeyRing,
        counters: Arc<Counters>,
    ) -> Self {
        let inbound =
            Inbound { budget: Budget::new(), opener: Opener::default(), checker: Checker::default() };
        Self {
            own,
            socket,
            keys: RwLock::new(Arc::new(keys)),
            sealer: Mutex::new(Sealer::new(own, boot)),
            inbound: Mutex::new(inbound),
            counters,
            opened_at: Instant::now(),
        }
    }

    pub(crate) fn set_keys(&self, keys: KeyRing) {
        *self.keys.write() = Arc::new(keys);
    }

    /// Everything that must hold before a datagram's content is used.
    fn admit(&self, datagram: &[u8], from: SocketAddr) -> Result<ChitchatMessage, Reason> {
        let keys = self.keys.read().clone();
        let now = u64::try_from(self.opened_at.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut inbound = self.inbound.lock();
        if !inbound.budget.take(from.ip(), now) {
            return Err(Reason::Budget);
        }
        let opened = inbound.opener.open(&keys, datagram)?;
        if opened.sender == self.own {
            return Err(Reason::Echo);
        }
        let malformed = |error: &dyn std::fmt::Display| {
            debug!(sender = %opened.sender, %error, "malformed gossip message");
            Reason::Malformed
        };
        read(&mut inbound.checker, &opened.message).map_err(|error| malformed(&error))
    }

    fn seal(&self, checker: &mut Checker, message: &ChitchatMessage) -> Result<Vec<u8>, Reason> {
        let message = match checker.fit(message.serialize_to_vec()) {
            Ok(Fitted::Whole(message)) => message,
            Ok(Fitted::Cut(message)) => {
                self.counters.trimmed();
                message
            }
            Err(error) => {
                debug!(%error, "own gossip message is beyond what others accept");
                return Err(Reason::SendLong);
            }
        };
        let mut nonce = [0; NONCE_LEN];
        rand::rng().fill_bytes(&mut nonce);
        let keys = self.keys.read().clone();
        self.sealer.lock().seal(&keys, nonce, &message).map_err(|error| {
            debug!(%error, "gossip message not sealed");
            Reason::SendLong
        })
    }
}

/// A message as chitchat has it, once it is known to be one that chitchat can bear.
fn read(checker: &mut Checker, message: &[u8]) -> Result<ChitchatMessage, Malformed> {
    checker.check(message)?;
    ChitchatMessage::deserialize(&mut &*message).map_err(|_| Malformed("chitchat can't read it"))
}

/// Reads a message as a node does that has opened its datagram, and forgets it: whether it is one. For trying bytes out.
#[must_use]
pub fn inspect(message: &[u8]) -> bool {
    read(&mut Checker::default(), message).is_ok()
}

/// Hands chitchat the one wire, again after each restart.
pub(crate) struct SealedTransport(pub(crate) Arc<Wire>);

#[async_trait]
impl Transport for SealedTransport {
    async fn open(&self, _listen_addr: SocketAddr) -> anyhow::Result<Box<dyn Socket>> {
        let buffer = vec![0; DATAGRAM_MAX + 1].into_boxed_slice();
        Ok(Box::new(SealedSocket { wire: Arc::clone(&self.0), buffer, checker: Checker::default() }))
    }
}

struct SealedSocket {
    wire: Arc<Wire>,
    /// One byte longer than the longest datagram, so that a longer one is seen to be too long.
    buffer: Box<[u8]>,
    checker: Checker,
}

#[async_trait]
impl Socket for SealedSocket {
    async fn send(&mut self, to: SocketAddr, message: ChitchatMessage) -> anyhow::Result<()> {
        let wire = &self.wire;
        match wire.seal(&mut self.checker, &message) {
            Err(reason) => wire.counters.dropped(reason),
            Ok(datagram) => match wire.socket.send_to(&datagram, to).await {
                Ok(_) => wire.counters.sent(),
                Err(error) => {
                    debug!(%to, %error, "gossip not sent");
                    wire.counters.dropped(Reason::Send);
                }
            },
        }
        Ok(())
    }

    /// May be cancelled at any await: a datagram is received and used up without one in between.
    async fn recv(&mut self) -> anyhow::Result<(SocketAddr, ChitchatMessage)> {
        let mut drops = 0_u32;
        loop {
            let reason = match self.wire.socket.recv_from(&mut self.buffer).await {
                Ok((len, from)) => match self.wire.admit(&self.buffer[..len], from) {
                    Ok(message) => {
                        self.wire.counters.heard();
                        return Ok((from, message));
                    }
                    Err(reason) => {
                        debug!(%from, len, reason = reason.name(), "gossip dropped");
                        reason
                    }
                },
                Err(error) => {
                    debug!(%error, "gossip not received");
                    tokio::time::sleep(ERROR_PAUSE).await;
                    Reason::Receive
                }
            };
            self.wire.counters.dropped(reason);
            drops += 1;
            if drops.is_multiple_of(DROPS_PER_TURN) {
                tokio::task::yield_now().await;
            }
        }
    }
}
