//! The control group's state as bytes, in the envelope that shards' snapshots have too.

use leasehold_control::{AuditEntry, RulesText, Snapshot};
use leasehold_model::{RulesVersion, Stamp};
use prost::{DecodeError, Message as _};

use super::record::{
    cluster_from_proto, cluster_to_proto, map_from_proto, map_to_proto, move_from_proto, move_to_proto,
    node_from_proto, node_to_proto,
};
use crate::envelope::{self, EnvelopeError};
use crate::part::{PartError, each, required};
use crate::proto::leasehold::storage::v1 as storage;

/// Bytes that are no state of a control group this version can read. Fetch another copy; for
/// [`EnvelopeError::Format`] upgrade first.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// Not even an envelope that this version can open.
    #[error("{0}")]
    Envelope(#[from] EnvelopeError),
    /// The body is no message of its format.
    #[error("the snapshot's body can't be decoded: {0}")]
    Body(#[from] DecodeError),
    /// A part that can't be used.
    #[error("{0}")]
    Part(#[from] PartError),
}

/// The bytes of a snapshot.
#[must_use]
pub fn encode_snapshot(snapshot: &Snapshot) -> Vec<u8> {
    let rules = snapshot.rules.iter().map(|(domain, rules)| storage::DomainRules {
        domain: domain.to_string(),
        text: rules.text.to_string(),
        version: rules.version.0,
    });
    let audit = snapshot.audit.iter().map(|entry| storage::AuditEntry {
        at: entry.at.0,
        by: entry.by.to_string(),
        what: entry.what.to_string(),
    });
    let body = storage::ControlSnapshot {
        last: snapshot.last.0,
        cluster: snapshot.cluster.as_ref().map(cluster_to_proto),
        nodes: snapshot.nodes.iter().map(node_to_proto).collect(),
        rules: rules.collect(),
        rules_version: snapshot.rules_version.0,
        rules_since: snapshot.rules_since.0,
        map: Some(map_to_proto(&snapshot.map)),
        moves: snapshot.moves.iter().map(|(shard, moving)| move_to_proto(*shard, moving)).collect(),
        audit: audit.collect(),
    };
    envelope::seal(body.encode_to_vec())
}

/// The snapshot that `bytes` hold.
///
/// # Errors
/// [`SnapshotError`] says what about them is wrong.
pub fn decode_snapshot(bytes: &[u8]) -> Result<Snapshot, SnapshotError> {
    let body = storage::ControlSnapshot::decode(envelope::open(bytes)?)?;
    let cluster = body.cluster.as_ref().map(cluster_from_proto).transpose();
    let rules = body.rules.into_iter().map(|rules| {
        let version = RulesVersion(rules.version);
        (rules.domain.into(), RulesText { text: rules.text.into(), version })
    });
    let audit = body.audit.into_iter().map(|entry| AuditEntry {
        at: Stamp(entry.at),
        by: entry.by.into(),
        what: entry.what.into(),
    });
    Ok(Snapshot {
        last: Stamp(body.last),
        cluster: cluster.map_err(|error| error.within("cluster"))?,
        nodes: each(body.nodes, "nodes", node_from_proto)?,
        rules: rules.collect(),
        rules_version: RulesVersion(body.rules_version),
        rules_since: Stamp(body.rules_since),
        map: map_from_proto(required(body.map, "map")?),
        moves: each(&body.moves, "moves", move_from_proto)?,
        audit: audit.collect(),
    })
}
