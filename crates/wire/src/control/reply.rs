//! Replies of the control group.

use leasehold_control::{Refusal, Reply};
use leasehold_model::{Epoch, NodeId, RulesVersion};

use crate::part::{PartError, required};
use crate::proto::leasehold::storage::v1 as storage;
use storage::ControlRefusal as Number;
use storage::control_reply::Reply as Proto;

pub(super) fn to_proto(reply: Reply) -> storage::ControlReply {
    let reply = match reply {
        Reply::Done => Proto::Done(true),
        Reply::Rules(version) => Proto::Rules(version.0),
        Reply::Map(epoch) => Proto::Map(epoch.0),
        Reply::Refused(refusal) => Proto::Refused(refusal_to_proto(refusal)),
    };
    storage::ControlReply { reply: Some(reply) }
}

pub(super) fn from_proto(proto: &storage::ControlReply) -> Result<Reply, PartError> {
    Ok(match required(proto.reply, "reply")? {
        Proto::Done(_) => Reply::Done,
        Proto::Rules(version) => Reply::Rules(RulesVersion(version)),
        Proto::Map(epoch) => Reply::Map(Epoch(epoch)),
        Proto::Refused(refused) => Reply::Refused(refusal_from_proto(refused)?),
    })
}

fn refusal_to_proto(refusal: Refusal) -> storage::ControlRefused {
    let (refusal, number) = match refusal {
        Refusal::Exists => (Number::Exists, 0),
        Refusal::NotCreated => (Number::NotCreated, 0),
        Refusal::NoSuchNode(node) => (Number::NoSuchNode, node.0),
        Refusal::Replaced(node) => (Number::Replaced, node.0),
        Refusal::NameTaken(node) => (Number::NameTaken, node.0),
        Refusal::StillHolds(node) => (Number::StillHolds, node.0),
        Refusal::RulesConflict(version) => (Number::RulesConflict, version.0),
        Refusal::MapConflict(epoch) => (Number::MapConflict, epoch.0),
        Refusal::TooMany(max) => (Number::TooMany, u64::try_from(max).unwrap_or(u64::MAX)),
    };
    storage::ControlRefused { refusal: refusal.into(), number }
}

fn refusal_from_proto(proto: storage::ControlRefused) -> Result<Refusal, PartError> {
    let number = proto.number;
    Ok(match proto.refusal() {
        Number::Unspecified => return Err(PartError::unknown("refused.refusal", proto.refusal)),
        Number::Exists => Refusal::Exists,
        Number::NotCreated => Refusal::NotCreated,
        Number::NoSuchNode => Refusal::NoSuchNode(NodeId(number)),
        Number::Replaced => Refusal::Replaced(NodeId(number)),
        Number::NameTaken => Refusal::NameTaken(NodeId(number)),
        Number::StillHolds => Refusal::StillHolds(NodeId(number)),
        Number::RulesConflict => Refusal::RulesConflict(RulesVersion(number)),
        Number::MapConflict => Refusal::MapConflict(Epoch(number)),
        Number::TooMany => Refusal::TooMany(usize::try_from(number).unwrap_or(usize::MAX)),
    })
}
