//! What the control group is told, answers and remembers, as bytes.
//!
//! Invariant: decoding never panics, whatever the bytes, and allocates in proportion to them. Whether a command may be
//! carried out is decided by `Control::apply`, and whether a snapshot contradicts itself by `Control::restore`.

mod command;
mod record;
mod reply;
mod snapshot;

use bytes::{Buf, Bytes};
use leasehold_control::{Command, Reply};
use leasehold_model::Stamp;
use prost::{DecodeError, Message as _};

use crate::part::{PartError, required};
use crate::proto::leasehold::storage::v1 as storage;

pub use snapshot::{SnapshotError, decode_snapshot, encode_snapshot};

pub(crate) use command::{from_proto as command_from_proto, to_proto as command_to_proto};
pub(crate) use record::{cluster_from_proto, cluster_to_proto, node_from_proto, node_to_proto};

/// Bytes that are no command of the control group, or no reply. Nobody of this version wrote them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// Not even a message.
    #[error("not a message of the control group: {0}")]
    Malformed(#[from] DecodeError),
    /// A part that can't be used.
    #[error("{0}")]
    Part(#[from] PartError),
}

/// The bytes of an entry: a command under its leader's stamp.
#[must_use]
pub fn encode_command(at: Stamp, command: &Command) -> Bytes {
    storage::ControlEntry { at: Some(at.0), command: Some(command_to_proto(command)) }.encode_to_vec().into()
}

/// The entry that `from` holds.
///
/// # Errors
/// [`ControlError`] names what is wrong about it.
pub fn decode_command(from: impl Buf) -> Result<(Stamp, Command), ControlError> {
    let proto = storage::ControlEntry::decode(from)?;
    let at = required(proto.at, "at")?;
    Ok((Stamp(at), command_from_proto(required(proto.command, "command")?)?))
}

/// The bytes of a reply.
#[must_use]
pub fn encode_reply(reply: Reply) -> Bytes {
    reply::to_proto(reply).encode_to_vec().into()
}

/// The reply that `from` holds.
///
/// # Errors
/// [`ControlError`] names what is wrong about it.
pub fn decode_reply(from: impl Buf) -> Result<Reply, ControlError> {
    Ok(reply::from_proto(&storage::ControlReply::decode(from)?)?)
}

#[cfg(test)]
mod tests;
