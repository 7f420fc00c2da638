//! Random values of the control group, for round trips.

use std::sync::Arc;

use leasehold_control::{Cluster, ClusterId, Command, NodeRecord, Refusal, Reply, RulesChange};
use leasehold_model::{Epoch, NodeId, RulesVersion, ShardId};
use leasehold_placement::{Move, Phase, Placement, ShardMap, Standing};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

pub(crate) fn text() -> impl Strategy<Value = Arc<str>> {
    prop_oneof![Just(""), Just("n1"), Just("127.0.0.1:7001"), Just("domain: a\nlimits: []\n"), Just("größe")]
        .prop_map(Into::into)
}

pub(crate) fn node() -> impl Strategy<Value = NodeId> {
    any::<u64>().prop_map(NodeId)
}

pub(crate) fn cluster() -> impl Strategy<Value = Cluster> {
    any::<(u128, [u8; 16], u32, u32)>().prop_map(|(id, secret, shards, replicas)| Cluster {
        id: ClusterId(id),
        secret,
        shards,
        replicas,
    })
}

fn standing() -> impl Strategy<Value = Standing> {
    select(vec![Standing::Active, Standing::Draining, Standing::Dead])
}

pub(crate) fn record() -> impl Strategy<Value = NodeRecord> {
    (node(), [text(), text(), text(), text(), text(), text()], any::<u32>(), standing()).prop_map(
        |(id, [name, peer_address, gossip_address, client_address, zone, region], weight, standing)| {
            NodeRecord {
                id,
                name,
                peer_address,
                gossip_address,
                client_address,
                zone,
                region,
                weight,
                standing,
            }
        },
    )
}

pub(crate) fn map() -> impl Strategy<Value = ShardMap> {
    let placement = (option::of(text()), vec(node(), 0..4), option::of(node()))
        .prop_map(|(home, replicas, leader)| Placement { home, replicas, leader });
    (any::<u64>(), vec(placement, 0..5)).prop_map(|(epoch, shards)| ShardMap { epoch: Epoch(epoch), shards })
}

pub(crate) fn moving() -> impl Strategy<Value = (ShardId, Move)> {
    let phase = select(vec![Phase::Learning, Phase::Changing, Phase::Retiring]);
    (any::<u32>(), option::of(node()), option::of(node()), phase)
        .prop_map(|(shard, to, from, phase)| (ShardId(shard), Move { to, from, phase }))
}

pub(crate) fn command() -> impl Strategy<Value = Command> {
    let change = (text(), option::of(text()), any::<Option<u64>>(), text()).prop_map(
        |(domain, text, expected, by)| RulesChange { domain, text, expected: expected.map(RulesVersion), by },
    );
    prop_oneof![
        (cluster(), vec(record(), 0..4), map()).prop_map(|(cluster, nodes, map)| Command::Create {
            cluster,
            nodes,
            map
        }),
        record().prop_map(Command::Register),
        (node(), standing(), text()).prop_map(|(node, standing, by)| Command::SetStanding {
            node,
            standing,
            by
        }),
        (node(), text()).prop_map(|(node, by)| Command::Forget { node, by }),
        change.prop_map(Command::Rules),
        moving().prop_map(|(shard, moving)| Command::Moving { shard, moving }),
        any::<u32>().prop_map(|shard| Command::Moved { shard: ShardId(shard) }),
        map().prop_map(|map| Command::SetMap { map }),
    ]
}

pub(crate) fn reply() -> impl Strategy<Value = Reply> {
    let refusal = prop_oneof![
        Just(Refusal::Exists),
        Just(Refusal::NotCreated),
        node().prop_map(Refusal::NoSuchNode),
        node().prop_map(Refusal::Replaced),
        node().prop_map(Refusal::NameTaken),
        node().prop_map(Refusal::StillHolds),
        any::<u64>().prop_map(|version| Refusal::RulesConflict(RulesVersion(version))),
        any::<u64>().prop_map(|epoch| Refusal::MapConflict(Epoch(epoch))),
        any::<usize>().prop_map(Refusal::TooMany),
    ];
    prop_oneof![
        Just(Reply::Done),
        any::<u64>().prop_map(|version| Reply::Rules(RulesVersion(version))),
        any::<u64>().prop_map(|epoch| Reply::Map(Epoch(epoch))),
        refusal.prop_map(Reply::Refused),
    ]
}
