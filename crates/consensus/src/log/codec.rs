//! Raft's entries as bytes: what stands in the log and what peers send each other.
//!
//! Invariant: every entry comes back as it was, memberships too. Bytes that aren't an entry are an error.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use openraft::{CommittedLeaderId, EmptyNode, EntryPayload, LogId, Membership};

use super::{Entry, EntryId};
use crate::types::{Proposal, RaftTypes};

/// The payloads' first byte. On disk: never reuse a number.
const BLANK: u8 = 0;
const NORMAL: u8 = 1;
const MEMBERSHIP: u8 = 2;

/// Nodes of a membership at most, in all its configurations together: far above any replica set, and it keeps
/// damaged bytes from asking for memory.
const MEMBERS_MAX: u32 = 4096;

/// These bytes aren't an entry of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an entry that this version knows")]
pub struct DecodeError;

/// The log's form of an entry.
#[must_use]
pub fn encode(entry: &openraft::Entry<RaftTypes>) -> Entry {
    Entry { id: entry_id(entry.log_id), data: encode_payload(&entry.payload) }
}

/// The entry that [`encode`] was given.
///
/// # Errors
/// When the bytes aren't one.
pub fn decode(entry: Entry) -> Result<openraft::Entry<RaftTypes>, DecodeError> {
    Ok(openraft::Entry { log_id: log_id(entry.id), payload: decode_payload(entry.data)? })
}

/// The log's name of an entry.
#[must_use]
pub fn entry_id(id: LogId<u64>) -> EntryId {
    EntryId { term: id.leader_id.term, node: id.leader_id.node_id, index: id.index }
}

/// openraft's name of an entry.
#[must_use]
pub fn log_id(id: EntryId) -> LogId<u64> {
    LogId::new(CommittedLeaderId::new(id.term, id.node), id.index)
}

/// What an entry carries, as bytes.
#[must_use]
pub fn encode_payload(payload: &EntryPayload<RaftTypes>) -> Bytes {
    match payload {
        EntryPayload::Blank => Bytes::from_static(&[BLANK]),
        EntryPayload::Normal(proposal) => {
            let mut out = BytesMut::with_capacity(proposal.0.len() + 1);
            out.put_u8(NORMAL);
            out.put_slice(&proposal.0);
            out.freeze()
        }
        EntryPayload::Membership(membership) => {
            let mut out = BytesMut::new();
            out.put_u8(MEMBERSHIP);
            encode_membership(membership, &mut out);
            out.freeze()
        }
    }
}

/// What [`encode_payload`] was given.
///
/// # Errors
/// When the bytes aren't one.
pub fn decode_payload(mut from: Bytes) -> Result<EntryPayload<RaftTypes>, DecodeError> {
    match from.try_get_u8().map_err(|_| DecodeError)? {
        BLANK if from.is_empty() => Ok(EntryPayload::Blank),
        NORMAL => Ok(EntryPayload::Normal(Proposal(from))),
        MEMBERSHIP => Ok(EntryPayload::Membership(decode_membership(&mut from)?)),
        _ => Err(DecodeError),
    }
}

/// A membership as bytes, for snapshots and messages too.
pub fn encode_membership(membership: &Membership<u64, EmptyNode>, out: &mut BytesMut) {
    let configs = membership.get_joint_config();
    out.put_u32_le(count(configs.len()));
    for voters in configs {
        put_ids(out, voters.iter().copied());
    }
    put_ids(out, membership.nodes().map(|(node, _)| *node));
}

/// What [`encode_membership`] was given; takes its bytes from the front.
///
/// # Errors
/// When the bytes aren't one.
pub fn decode_membership(from: &mut Bytes) -> Result<Membership<u64, EmptyNode>, DecodeError> {
    let configs = get_count(from)?;
    let configs: Vec<BTreeSet<u64>> = (0..configs).map(|_| get_ids(from)).collect::<Result<_, _>>()?;
    let nodes: BTreeMap<u64, EmptyNode> =
        get_ids(from)?.into_iter().map(|node| (node, EmptyNode::new())).collect();
    Ok(Membership::new(configs, nodes))
}

fn put_ids(out: &mut BytesMut, ids: impl Iterator<Item = u64>) {
    let ids: Vec<u64> = ids.collect();
    out.put_u32_le(count(ids.len()));
    ids.into_iter().for_each(|id| out.put_u64_le(id));
}

fn get_ids(from: &mut Bytes) -> Result<BTreeSet<u64>, DecodeError> {
    let ids = get_count(from)?;
    (0..ids).map(|_| from.try_get_u64_le().map_err(|_| DecodeError)).collect()
}

fn get_count(from: &mut Bytes) -> Result<u32, DecodeError> {
    let count = from.try_get_u32_le().map_err(|_| DecodeError)?;
    if count > MEMBERS_MAX { Err(DecodeError) } else { Ok(count) }
}

fn count(length: usize) -> u32 {
    u32::try_from(length).expect("memberships have few nodes")
}

#[cfg(test)]
mod tests;
