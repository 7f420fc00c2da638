//! Chitchat's messages as bytes: what must hold before chitchat may decode one, and how one is cut to fit a datagram.
//!
//! A message is `magic 2 | version 1 | type 1`, then for a SYN a digest and a cluster's name, for a SYN-ACK a digest
//! and a delta, for an ACK a delta. A delta is a run of zstd blocks that hold operations: a node, then its values in
//! the order of their versions. Integers are little-endian. Pinned to the chitchat version in `Cargo.toml`.
//!
//! Invariant: a message that passes [`Checker::check`] neither inflates beyond a bound nor meets an assertion in
//! chitchat; a prefix of a delta that ends after a value is itself a delta, so cutting loses no meaning.

mod bytes;

#[cfg(test)]
mod tests;

use crate::seal::OVERHEAD;
use bytes::Bytes;

/// Ids (one for every boot of a node) that a message may name, and that are kept. Messages that name more are dropped;
/// a node that came to know more starts its gossip afresh.
pub const IDS_MAX: usize = 256;

/// What a delta may inflate to, in bytes. Senders cut theirs to it, receivers drop what is longer.
pub const DELTA_INFLATED_MAX: usize = 64 * 1024;

/// The longest value of one key, in bytes; what is longer is refused on both sides.
pub(crate) const VALUE_MAX: usize = 512;

/// The longest key, in bytes.
pub(crate) const KEY_MAX: usize = 32;

/// The longest id or cluster's name, in bytes.
const NAME_MAX: usize = 64;

/// Versions and heartbeats stay below this, so that no one's next step overflows.
const VERSION_MAX: u64 = 1 << 60;

/// Datagrams are cut to this, to travel in one Ethernet frame, as long as the digest leaves room for news.
const DATAGRAM_TARGET: usize = 1_400;

/// News that a message always has room for, so that a large cluster's digest cannot starve it. Holds a node's id and
/// its longest value even if neither compresses.
const NEWS_MIN: usize = 1_024;

/// Bytes of operations that go into one compressed block, as chitchat writes them.
const BLOCK_LEN: usize = 16_384;

const MAGIC: u16 = 45_139;
const VERSION: u8 = 0;

const BLOCK_END: u8 = 0;
const BLOCK_COMPRESSED: u8 = 1;
const BLOCK_PLAIN: u8 = 2;

/// What is wrong with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Malformed(pub(crate) &'static str);

/// Checks and cuts messages; holds the buffer that deltas are inflated into.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    /// The operations of the delta last looked at.
    operations: Vec<u8>,
    /// Where in `operations` a prefix may end.
    ends: Vec<usize>,
}

/// A message on its way out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fitted {
    /// As it was.
    Whole(Vec<u8>),
    /// With less news.
    Cut(Vec<u8>),
}

impl Checker {
    /// Checks everything that chitchat takes on trust.
    ///
    /// # Errors
    /// [`Malformed`] with what is wrong: the message must be dropped.
    pub(crate) fn check(&mut self, message: &[u8]) -> Result<(), Malformed> {
        self.delta_at(message).map(|_| ())
    }

    /// Cuts the news of `message` until it fits a datagram. What is left out follows in the next exchange.
    ///
    /// # Errors
    /// [`Malformed`]: receivers would drop it.
    pub(crate) fn fit(&mut self, message: Vec<u8>) -> Result<Fitted, Malformed> {
        let Some(delta_at) = self.delta_at(&message)? else { return Ok(Fitted::Whole(message)) };
        let target = (DATAGRAM_TARGET - OVERHEAD).max(delta_at + NEWS_MIN);
        if message.len() <= target {
            return Ok(Fitted::Whole(message));
        }
        let room = target - delta_at;
        let fitting = self.ends.partition_point(|end| blocks(&self.operations[..*end]).len() <= room);
        let end = fitting.checked_sub(1).map_or(0, |last| self.ends[last]);
        let mut cut = message;
        cut.truncate(delta_at);
        cut.extend(blocks(&self.operations[..end]));
        Ok(Fitted::Cut(cut))
    }

    /// Checks the message; where its delta begins, if it has one.
    fn delta_at(&mut self, message: &[u8]) -> Result<Option<usize>, Malformed> {
        let mut rest = Bytes::new(message);
        if rest.u16()? != MAGIC || rest.u8()? != VERSION {
            return Err(Malformed("not a message of this version"));
        }
        let kind = rest.u8()?;
        match kind {
            0 => {
                check_digest(&mut rest)?;
                rest.text(NAME_MAX)?;
            }
            1 => check_digest(&mut rest)?,
            2 | 3 => {}
            _ => return Err(Malformed("unknown type of message")),
        }
        if kind == 0 || kind == 3 {
            return rest.end().map(|()| None);
        }
        let delta_at = message.len() - rest.len();
        self.inflate(&mut rest)?;
        rest.end()?;
        self.check_operations()?;
        Ok(Some(delta_at))
    }

    fn inflate(&mut self, rest: &mut Bytes<'_>) -> Result<(), Malformed> {
        self.operations.clear();
        loop {
            match rest.u8()? {
                BLOCK_END => return Ok(()),
                BLOCK_COMPRESSED => {
                    let len = usize::from(rest.u16()?);
                    self.inflate_block(rest.take(len)?)?;
                }
                BLOCK_PLAIN => {
                    let len = usize::from(rest.u16()?);
                    self.operations.extend(rest.take(len)?);
                }
                _ => return Err(Malformed("unknown type of block")),
            }
            if self.operations.len() > DELTA_INFLATED_MAX {
                return Err(Malformed("a delta inflates beyond the bound"));
            }
        }
    }

    fn inflate_block(&mut self, block: &[u8]) -> Result<(), Malformed> {
        let held = self.operations.len();
        self.operations.resize(DELTA_INFLATED_MAX + 1, 0);
        let inflated = zstd::bulk::decompress_to_buffer(block, &mut self.operations[held..])
            .map_err(|_| Malformed("a block does not inflate within the bound"))?;
        self.operations.truncate(held + inflated);
        Ok(())
    }

    fn check_operations(&mut self) -> Result<(), Malformed> {
        self.ends.clear();
        let mut rest = Bytes::new(&self.operations);
        let mut ids = 0;
        let mut values = Values::NoNode;
        while rest.len() > 0 {
            match rest.u8()? {
                0 => {
                    ids += 1;
                    check_id(&mut rest)?;
                    check_version(rest.u64()?)?;
                    check_version(rest.u64()?)?;
                    values = Values::UpTo(0);
                }
                1 => {
                    values = values.then(check_value(&mut rest)?)?;
                    self.ends.push(self.operations.len() - rest.len());
                }
                2 => {
                    values = values.none_up_to(rest.u64()?)?;
                    self.ends.push(self.operations.len() - rest.len());
                }
                _ => return Err(Malformed("unknown operation")),
            }
        }
        if ids > IDS_MAX {
            return Err(Malformed("more ids than the bound"));
        }
        Ok(())
    }
}

/// What a delta has said of the node it is at.
enum Values {
    NoNode,
    UpTo(u64),
    Closed,
}

impl Values {
    fn then(self, version: u64) -> Result<Self, Malformed> {
        match self {
            Self::UpTo(last) if version > last => Ok(Self::UpTo(version)),
            Self::NoNode | Self::UpTo(_) | Self::Closed => Err(Malformed("a value out of order")),
        }
    }

    fn none_up_to(self, version: u64) -> Result<Self, Malformed> {
        check_version(version)?;
        match self {
            Self::UpTo(0) => Ok(Self::Closed),
            Self::NoNode | Self::UpTo(_) | Self::Closed => Err(Malformed("a bare version beside values")),
        }
    }
}

fn check_digest(rest: &mut Bytes<'_>) -> Result<(), Malformed> {
    let ids = usize::from(rest.u16()?);
    if ids > IDS_MAX {
        return Err(Malformed("more ids than the bound"));
    }
    for _ in 0..ids {
        check_id(rest)?;
        for _ in ["heartbeat", "last collected version", "last version"] {
            check_version(rest.u64()?)?;
        }
    }
    Ok(())
}

fn check_id(rest: &mut Bytes<'_>) -> Result<(), Malformed> {
    rest.text(NAME_MAX)?;
    rest.u64()?;
    let address_len = match rest.u8()? {
        4 => 4,
        6 => 16,
        _ => return Err(Malformed("an address of an unknown kind")),
    };
    rest.take(address_len)?;
    rest.u16().map(|_port| ())
}

fn check_value(rest: &mut Bytes<'_>) -> Result<u64, Malformed> {
    rest.text(KEY_MAX)?;
    rest.text(VALUE_MAX)?;
    let version = rest.u64()?;
    check_version(version)?;
    if rest.u8()? > 2 {
        return Err(Malformed("unknown status of a value"));
    }
    Ok(version)
}

const fn check_version(version: u64) -> Result<(), Malformed> {
    if version >= VERSION_MAX { Err(Malformed("a version beyond the bound")) } else { Ok(()) }
}

/// Operations as a delta's bytes.
fn blocks(operations: &[u8]) -> Vec<u8> {
    let mut written = Vec::with_capacity(operations.len() / 2);
    for block in operations.chunks(BLOCK_LEN) {
        let mut buffer = vec![0; block.len()];
        let (kind, body) = match zstd::bulk::compress_to_buffer(block, &mut buffer, 0) {
            Ok(len) => (BLOCK_COMPRESSED, &buffer[..len]),
            Err(_) => (BLOCK_PLAIN, block),
        };
        let len = u16::try_from(body.len()).expect("a block is no longer than its operations, 16 KiB");
        written.push(kind);
        written.extend(len.to_le_bytes());
        written.extend(body);
    }
    written.push(BLOCK_END);
    written
}
