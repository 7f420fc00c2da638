//! Commands of the control group.

use leasehold_control::{Command, RulesChange};
use leasehold_model::{NodeId, RulesVersion, ShardId};

use super::record::{
    cluster_from_proto, cluster_to_proto, map_from_proto, map_to_proto, move_from_proto, move_to_proto,
    node_from_proto, node_to_proto, standing_from_proto, standing_to_proto,
};
use crate::part::{PartError, each, required};
use crate::proto::leasehold::storage::v1 as storage;
use storage::control_command::Command as Proto;

pub(crate) fn to_proto(command: &Command) -> storage::ControlCommand {
    let command = match command {
        Command::Create { cluster, nodes, map } => Proto::Create(storage::CreateCluster {
            cluster: Some(cluster_to_proto(cluster)),
            nodes: nodes.iter().map(node_to_proto).collect(),
            map: Some(map_to_proto(map)),
        }),
        Command::Register(record) => Proto::Register(node_to_proto(record)),
        Command::SetStanding { node, standing, by } => Proto::SetStanding(storage::SetStanding {
            node: node.0,
            standing: standing_to_proto(*standing).into(),
            by: by.to_string(),
        }),
        Command::Forget { node, by } => {
            Proto::Forget(storage::ForgetNode { node: node.0, by: by.to_string() })
        }
        Command::Rules(change) => Proto::Rules(storage::ChangeRules {
            domain: change.domain.to_string(),
            text: change.text.as_deref().map(str::to_owned),
            expected: change.expected.map(|version| version.0),
            by: change.by.to_string(),
        }),
        Command::Moving { shard, moving } => Proto::Moving(move_to_proto(*shard, moving)),
        Command::Moved { shard } => Proto::Moved(storage::MoveOver { shard: shard.0 }),
        Command::SetMap { map } => Proto::SetMap(map_to_proto(map)),
    };
    storage::ControlCommand { command: Some(command) }
}

pub(crate) fn from_proto(proto: storage::ControlCommand) -> Result<Command, PartError> {
    Ok(match required(proto.command, "command")? {
        Proto::Create(create) => create_from_proto(create).map_err(|error| error.within("create"))?,
        Proto::Register(record) => {
            Command::Register(node_from_proto(record).map_err(|error| error.within("register"))?)
        }
        Proto::SetStanding(set) => Command::SetStanding {
            node: NodeId(set.node),
            standing: standing_from_proto(set.standing).map_err(|error| error.within("set_standing"))?,
            by: set.by.into(),
        },
        Proto::Forget(forget) => Command::Forget { node: NodeId(forget.node), by: forget.by.into() },
        Proto::Rules(change) => Command::Rules(RulesChange {
            domain: change.domain.into(),
            text: change.text.map(Into::into),
            expected: change.expected.map(RulesVersion),
            by: change.by.into(),
        }),
        Proto::Moving(moving) => {
            let (shard, moving) = move_from_proto(&moving).map_err(|error| error.within("moving"))?;
            Command::Moving { shard, moving }
        }
        Proto::Moved(over) => Command::Moved { shard: ShardId(over.shard) },
        Proto::SetMap(map) => Command::SetMap { map: map_from_proto(map) },
    })
}

fn create_from_proto(create: storage::CreateCluster) -> Result<Command, PartError> {
    let cluster = required(create.cluster, "cluster")?;
    Ok(Command::Create {
        cluster: cluster_from_proto(&cluster).map_err(|error| error.within("cluster"))?,
        nodes: each(create.nodes, "nodes", node_from_proto)?,
        map: map_from_proto(required(create.map, "map")?),
    })
}
