//! Sealing and opening datagrams: what is not from a holder of the cluster's key is never decoded.
//!
//! A datagram is `version 1 | sender 8 | boot 8 | counter 8 | nonce 24 | ciphertext | tag 16`, integers big-endian,
//! XChaCha20-Poly1305 with everything before the ciphertext and the cluster's name as associated data.
//!
//! Invariant: a datagram opens at most once for one [`Opener`] while it remembers the sender. Keys and nonces are
//! arguments; nothing here draws chance or reads a clock, so there is no freshness: a recording can be heard once by a
//! node that didn't hear the original, or that has started since. Gossip is a hint, and that is one reason.

mod window;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use leasehold_model::NodeId;

use crate::counters::Reason;
use window::Window;

/// Bytes of a key.
pub const KEY_LEN: usize = 32;

/// Bytes of a nonce: long enough to be drawn at random for every datagram without ever meeting itself.
pub const NONCE_LEN: usize = 24;

/// What sealing adds to a message, in bytes.
pub const OVERHEAD: usize = HEADER_LEN + TAG_LEN;

/// The longest message that is sealed or opened, in bytes: room for the digest of [`crate::IDS_MAX`] nodes and some
/// news. Messages of up to about 20 nodes stay within one Ethernet frame; longer ones travel as IP fragments. Beyond
/// the bound nothing is sent or opened.
pub const PLAIN_MAX: usize = 20 * 1024;

/// Senders whose replay windows are kept. Beyond it the one not heard for longest is forgotten: what was recorded of
/// it could then be heard once more. Only holders of a key can become senders.
pub const SENDERS_MAX: usize = 1_024;

const VERSION: u8 = 1;
const HEADER_LEN: usize = 1 + 8 + 8 + 8 + NONCE_LEN;
const TAG_LEN: usize = 16;

/// One start of one node. Must grow from each start to the next, also when the wall clock doesn't: keep the last one
/// and take the larger of its successor and the wall clock's milliseconds. A node that comes back with a smaller one
/// is not heard by those who heard the larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Boot(pub u64);

/// A secret that all nodes of one cluster share. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; KEY_LEN]);

impl Key {
    /// The key with these bytes, which must come from a source of cryptographic randomness.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; KEY_LEN]) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// One or two keys of one cluster: seals with the first, opens with either.
///
/// A key is rotated in three rounds over all nodes: (old, new), then (new, old), then (new). In each round nodes that
/// have and have not been reached hear each other.
#[derive(Clone)]
pub struct KeyRing {
    cluster: Arc<str>,
    sealing: XChaCha20Poly1305,
    other: Option<XChaCha20Poly1305>,
}

impl KeyRing {
    /// A ring for the cluster of that name: two clusters with the same key still don't hear each other.
    #[must_use]
    pub fn new(cluster: &str, sealing: &Key, other: Option<&Key>) -> Self {
        let cipher = |key: &Key| XChaCha20Poly1305::new((&key.0).into());
        Self { cluster: cluster.into(), sealing: cipher(sealing), other: other.map(cipher) }
    }

    /// The cluster's name.
    #[must_use]
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    fn associated(&self, header: &[u8]) -> Vec<u8> {
        [header, self.cluster.as_bytes()].concat()
    }

    fn open(&self, header: &[u8], body: &[u8]) -> Option<Vec<u8>> {
        let nonce = XNonce::from_slice(&header[HEADER_LEN - NONCE_LEN..]);
        let aad = self.associated(header);
        [Some(&self.sealing), self.other.as_ref()]
            .into_iter()
            .flatten()
            .find_map(|cipher| cipher.decrypt(nonce, Payload { msg: body, aad: &aad }).ok())
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRing")
            .field("cluster", &self.cluster)
            .field("keys", &(1 + usize::from(self.other.is_some())))
            .finish_non_exhaustive()
    }
}

/// Why a message was not sealed. The caller drops it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// It is longer than [`PLAIN_MAX`].
    #[error("a message of {len} bytes is longer than the {PLAIN_MAX} that are sealed")]
    TooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// This boot has sealed 2⁶⁴ − 1 messages.
    #[error("every counter of this boot has been used")]
    Spent,
}

/// Seals what one boot of one node sends.
#[derive(Debug)]
pub struct Sealer {
    sender: NodeId,
    boot: Boot,
    sent: u64,
}

impl Sealer {
    /// For this boot of this node. There must be only one per boot: receivers refuse a counter they have heard.
    #[must_use]
    pub const fn new(sender: NodeId, boot: Boot) -> Self {
        Self { sender, boot, sent: 0 }
    }

    /// The datagram that carries `message`. The nonce must be drawn at random each time.
    ///
    /// # Errors
    /// [`SealError`]: too long, or out of counters.
    pub fn seal(
        &mut self,
        ring: &KeyRing,
        nonce: [u8; NONCE_LEN],
        message: &[u8],
    ) -> Result<Vec<u8>, SealError> {
        if message.len() > PLAIN_MAX {
            return Err(SealError::TooLong { len: message.len() });
        }
        self.sent = self.sent.checked_add(1).ok_or(SealError::Spent)?;
        let mut datagram = Vec::with_capacity(message.len() + OVERHEAD);
        datagram.push(VERSION);
        datagram.extend(self.sender.0.to_be_bytes());
        datagram.extend(self.boot.0.to_be_bytes());
        datagram.extend(self.sent.to_be_bytes());
        datagram.extend(nonce);
        let aad = ring.associated(&datagram);
        let sealed = ring
            .sealing
            .encrypt(XNonce::from_slice(&nonce), Payload { msg: message, aad: &aad })
            .expect("the cipher takes far longer messages than the bound checked above");
        datagram.extend(sealed);
        Ok(datagram)
    }
}

/// A datagram that a holder of a key sealed and that wasn't heard before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Who sealed it.
    pub sender: NodeId,
    /// In which of its boots.
    pub boot: Boot,
    /// The sender's count of datagrams in that boot, from 1.
    pub counter: u64,
    /// The message.
    pub message: Vec<u8>,
}

/// Opens datagrams and remembers which were heard.
#[derive(Debug, Default)]
pub struct Opener {
    senders: BTreeMap<NodeId, Heard>,
    opened: u64,
}

#[derive(Debug)]
struct Heard {
    boot: Boot,
    window: Window,
    last: u64,
}

impl Opener {
    /// Opens a datagram.
    ///
    /// # Errors
    /// The [`Reason`] to drop it: wrong length or version, no key opens it, an older boot than one heard from this
    /// sender, heard before or too far behind what was. A refused datagram changes nothing here.
    pub fn open(&mut self, ring: &KeyRing, datagram: &[u8]) -> Result<Opened, Reason> {
        let (header, body) = datagram.split_at_checked(HEADER_LEN).ok_or(Reason::Short)?;
        if body.len() < TAG_LEN {
            return Err(Reason::Short);
        }
        if body.len() > PLAIN_MAX + TAG_LEN {
            return Err(Reason::Long);
        }
        if header[0] != VERSION {
            return Err(Reason::Version);
        }
        let message = ring.open(header, body).ok_or(Reason::Forged)?;
        let (sender, boot, counter) =
            (NodeId(u64_at(header, 1)), Boot(u64_at(header, 9)), u64_at(header, 17));
        self.admit(sender, boot, counter)?;
        Ok(Opened { sender, boot, counter, message })
    }

    /// How many senders are remembered.
    #[must_use]
    pub fn senders(&self) -> usize {
        self.senders.len()
    }

    fn admit(&mut self, sender: NodeId, boot: Boot, counter: u64) -> Result<(), Reason> {
        self.opened += 1;
        let last = self.opened;
        match self.senders.get_mut(&sender) {
            Some(heard) if boot < heard.boot => return Err(Reason::OldBoot),
            Some(heard) if boot == heard.boot => {
                if !heard.window.admit(counter) {
                    return Err(Reason::Replayed);
                }
                heard.last = last;
            }
            Some(_) | None => {
                self.make_room(sender);
                self.senders.insert(sender, Heard { boot, window: Window::starting_at(counter), last });
            }
        }
        Ok(())
    }

    fn make_room(&mut self, sender: NodeId) {
        if self.senders.len() < SENDERS_MAX || self.senders.contains_key(&sender) {
            return;
        }
        if let Some(silent) = self.senders.iter().min_by_key(|(_, heard)| heard.last).map(|(id, _)| *id) {
            self.senders.remove(&silent);
        }
    }
}

fn u64_at(header: &[u8], at: usize) -> u64 {
    header[at..at + 8].iter().fold(0, |number, byte| (number << 8) | u64::from(*byte))
}
