//! A cluster as tables of at most 80 columns, as long as names are short, and as JSON in the shape of `GET /v1/cluster`.

use std::collections::BTreeMap;

use leasehold_wire::duration;
use leasehold_wire::proto::leasehold::v1 as pb;
use serde_json::{Value, json};

use super::names::Names;
use crate::output::{count, number, plural, table, text};

/// What is shown where nothing is known.
const UNKNOWN: &str = "?";

pub(super) fn status_text(status: &pb::StatusResponse, cluster: Option<&pb::ClusterResponse>) -> String {
    let uptime = status.uptime.and_then(|uptime| duration::from_proto(uptime).ok()).unwrap_or_default();
    let ready =
        if status.ready { "ready".to_owned() } else { format!("not ready: {}", status.not_ready_reason) };
    let mut lines = vec![
        ("server", format!("version {}, up {}", status.version, crate::output::duration(uptime.0))),
        ("traffic", ready),
        ("counters", format!("{} held here", count(status.keys))),
        (
            "decided",
            format!(
                "{} allowed, {} over limit, {} unavailable",
                count(status.allowed),
                count(status.over_limit),
                count(status.unavailable)
            ),
        ),
    ];
    match cluster {
        Some(cluster) => lines.extend(cluster_lines(cluster)),
        None if status.ready => lines.push(("cluster", "none: this node runs alone".to_owned())),
        None => {}
    }
    lines.iter().map(|(what, line)| format!("{what:<10} {}\n", crate::output::visible(line))).collect()
}

fn cluster_lines(cluster: &pb::ClusterResponse) -> Vec<(&'static str, String)> {
    let names = Names::of(cluster);
    let mut states: BTreeMap<&str, usize> = BTreeMap::new();
    for member in &cluster.members {
        *states.entry(state(member)).or_default() += 1;
    }
    let states: Vec<_> = states.iter().map(|(state, count)| format!("{count} {state}")).collect();
    let led = cluster.shards.iter().filter(|shard| shard.leader != 0).count();
    let moving = cluster.shards.iter().filter(|shard| shard.r#move.is_some()).count();
    let control = cluster.control.as_ref().map_or(0, |control| control.leader);
    let mut lines = vec![
        ("cluster", format!("{}, id {}", cluster.name, cluster.id)),
        ("node", names.or_dash(cluster.node)),
        ("members", states.join(", ")),
        (
            "shards",
            format!(
                "{led} of {} led, {} replicas each, {moving} moving, map {}",
                cluster.shards.len(),
                cluster.replicas,
                cluster.epoch
            ),
        ),
        ("rules", format!("version {}", cluster.rules_version)),
        (
            "control",
            format!("led by {}", names.get(control).unwrap_or_else(|| "nobody that answers".to_owned())),
        ),
    ];
    if let Some([stalled, remedy]) = stalled_drain(cluster, &names) {
        lines.extend([("drain", stalled), ("", remedy)]);
    }
    lines
}

/// What to do about nodes that are drained and can't become empty: too few others may hold what they have.
fn stalled_drain(cluster: &pb::ClusterResponse, names: &Names) -> Option<[String; 2]> {
    let draining = cluster
        .members
        .iter()
        .filter(|member| member.standing() == pb::Standing::Draining && member.replicas > 0);
    let draining: Vec<_> = draining.map(|member| names.or_dash(member.id)).collect();
    let active = cluster.members.iter().filter(|member| member.standing() == pb::Standing::Active).count();
    let needed = usize::try_from(cluster.replicas).unwrap_or(usize::MAX);
    if draining.is_empty() || active >= needed {
        return None;
    }
    let draining = draining.join(", ");
    let needed = plural(needed, "active node");
    Some([
        format!("{draining} can't become empty: that takes {needed}, there are {active}"),
        "add nodes, or end it: leasehold members activate NODE".to_owned(),
    ])
}

/// What matters most of how a node is.
fn state(member: &pb::Member) -> &'static str {
    match member.standing() {
        pb::Standing::Dead => "dead",
        pb::Standing::Draining if member.answers => "draining",
        pb::Standing::Unspecified | pb::Standing::Active if member.answers => "active",
        pb::Standing::Unspecified | pb::Standing::Active | pb::Standing::Draining => "away",
    }
}

pub(super) fn members_text(cluster: &pb::ClusterResponse) -> String {
    let names = Names::of(cluster);
    // Without regions nodes are next to each other, and a terminal has no room to spare.
    let regions = cluster.members.iter().any(|member| !member.region.is_empty());
    let mut columns = vec![text("node"), text("state"), text("zone")];
    if regions {
        columns.extend([text("region"), number("round trip")]);
    }
    columns.extend([number("replicas"), number("leads"), number("keys"), number("rules"), text("clients")]);
    let or_dash = |name: &str| if name.is_empty() { "-".to_owned() } else { name.to_owned() };
    let known = |value: Option<u64>| value.map_or_else(|| UNKNOWN.to_owned(), count);
    let rows = cluster.members.iter().map(|member| {
        let mut row = vec![names.or_dash(member.id), state(member).to_owned(), or_dash(&member.zone)];
        if regions {
            row.extend([or_dash(&member.region), round_trip(member.round_trip_micros)]);
        }
        row.extend([
            member.replicas.to_string(),
            member.leads.to_string(),
            known(member.keys),
            known(member.rules_version),
            member.client_address.clone(),
        ]);
        row
    });
    let mut told = table(&columns, rows);
    for line in stalled_drain(cluster, &names).into_iter().flatten() {
        told.push_str(&format!("{line}\n"));
    }
    told
}

/// In milliseconds, to a tenth.
fn round_trip(micros: Option<u64>) -> String {
    micros.map_or_else(|| "-".to_owned(), |micros| format!("{}.{} ms", micros / 1_000, micros % 1_000 / 100))
}

pub(super) fn shards_text(cluster: &pb::ClusterResponse, hashes: bool) -> String {
    let names = Names::of(cluster);
    let homes = cluster.shards.iter().any(|shard| !shard.home.is_empty());
    let mut columns = vec![number("shard")];
    if homes {
        columns.push(text("home"));
    }
    columns.extend([
        text("leader"),
        text("wanted"),
        number("keys"),
        text("replicas"),
        number("behind"),
        text("move"),
    ]);
    if hashes {
        columns.push(text("states"));
    }
    let rows = cluster.shards.iter().map(|shard| {
        let mut row = shard_row(shard, &names);
        if homes {
            row.insert(1, if shard.home.is_empty() { "-".to_owned() } else { shard.home.clone() });
        }
        if hashes {
            row.push(agreement(shard).to_owned());
        }
        row
    });
    let unled = cluster.shards.iter().filter(|shard| shard.leader == 0).count();
    let mut told = table(&columns, rows);
    if unled > 0 {
        told.push_str(&format!("{} without a leader that answers\n", plural(unled, "shard")));
    }
    told
}

fn shard_row(shard: &pb::ShardStatus, names: &Names) -> Vec<String> {
    let mut replicas: Vec<_> = shard.replicas.iter().map(|replica| replica_text(replica, names)).collect();
    replicas.sort();
    let behind = shard.replicas.iter().filter_map(|replica| replica.behind).max();
    let wanted = if shard.preferred == shard.leader { 0 } else { shard.preferred };
    vec![
        shard.shard.to_string(),
        names.get(shard.leader).unwrap_or_else(|| "nobody".to_owned()),
        names.or_dash(wanted),
        shard.keys.map_or_else(|| UNKNOWN.to_owned(), count),
        replicas.join(" "),
        behind.map_or_else(|| UNKNOWN.to_owned(), count),
        shard.r#move.as_ref().map_or_else(|| "-".to_owned(), |moving| move_text(moving, names)),
    ]
}

/// `a`, `a+` while it learns, `a?` when its node doesn't say.
fn replica_text(replica: &pb::ReplicaStatus, names: &Names) -> String {
    let mark = match replica.role() {
        pb::Role::Unspecified => "?",
        pb::Role::Learner => "+",
        pb::Role::Follower | pb::Role::Candidate | pb::Role::Leader => "",
    };
    format!("{}{mark}", names.or_dash(replica.node))
}

fn move_text(moving: &pb::ReplicaMove, names: &Names) -> String {
    match (names.get(moving.from), names.get(moving.to)) {
        (Some(from), Some(to)) => format!("{from} to {to}, {}", moving.phase),
        (None, Some(to)) => format!("to {to}, {}", moving.phase),
        (Some(from), None) => format!("off {from}, {}", moving.phase),
        (None, None) => moving.phase.clone(),
    }
}

/// Whether replicas that have applied the same entries have the same state.
fn agreement(shard: &pb::ShardStatus) -> &'static str {
    let hashes: Vec<_> = shard.replicas.iter().filter_map(|replica| replica.hash).collect();
    let apart = |a: &pb::StateHash| hashes.iter().any(|b| a.applied == b.applied && a.hash != b.hash);
    let compared = |a: &pb::StateHash| hashes.iter().filter(|b| a.applied == b.applied).count() > 1;
    match (hashes.iter().any(apart), hashes.iter().any(compared)) {
        (true, _) => "DIFFER",
        (false, true) => "agree",
        // Entries were applied meanwhile, or one replica only answered.
        (false, false) => UNKNOWN,
    }
}

pub(super) fn status_json(status: &pb::StatusResponse, cluster: Option<&pb::ClusterResponse>) -> Value {
    let uptime = status.uptime.and_then(|uptime| duration::from_proto(uptime).ok()).unwrap_or_default();
    json!({
        "version": status.version,
        "ready": status.ready,
        "reason": (!status.ready).then_some(&status.not_ready_reason),
        "uptime_ms": uptime.millis_ceil(),
        "keys": status.keys,
        "allowed": status.allowed,
        "over_limit": status.over_limit,
        "unavailable": status.unavailable,
        "cluster": cluster.map(cluster_json),
    })
}

pub(super) fn members_json(cluster: &pb::ClusterResponse) -> Value {
    cluster.members.iter().map(member_json).collect()
}

pub(super) fn shards_json(cluster: &pb::ClusterResponse) -> Value {
    cluster.shards.iter().map(group_json).collect()
}

fn cluster_json(cluster: &pb::ClusterResponse) -> Value {
    json!({
        "id": cluster.id,
        "name": cluster.name,
        "node": cluster.node,
        "epoch": cluster.epoch,
        "rules_version": cluster.rules_version,
        "replicas": cluster.replicas,
        "members": members_json(cluster),
        "shards": shards_json(cluster),
        "control": cluster.control.as_ref().map(group_json),
    })
}

fn member_json(member: &pb::Member) -> Value {
    let standing = match member.standing() {
        pb::Standing::Unspecified => None,
        pb::Standing::Active => Some("active"),
        pb::Standing::Draining => Some("draining"),
        pb::Standing::Dead => Some("dead"),
    };
    json!({
        "id": member.id,
        "name": member.name,
        "peer_address": member.peer_address,
        "client_address": member.client_address,
        "zone": member.zone,
        "region": member.region,
        "weight": member.weight,
        "standing": standing,
        "answers": member.answers,
        "live": member.live,
        "votes": member.votes,
        "replicas": member.replicas,
        "leads": member.leads,
        "keys": member.keys,
        "rules_version": member.rules_version,
        "round_trip_us": member.round_trip_micros,
    })
}

fn group_json(group: &pb::ShardStatus) -> Value {
    let id = |node: u64| (node != 0).then_some(node);
    let moving = group.r#move.as_ref();
    json!({
        "shard": group.shard,
        "leader": id(group.leader),
        "preferred": id(group.preferred),
        "home": (!group.home.is_empty()).then_some(&group.home),
        "keys": group.keys,
        "replicas": group.replicas.iter().map(replica_json).collect::<Vec<_>>(),
        "move": moving.map(|moving| {
            json!({ "to": id(moving.to), "from": id(moving.from), "phase": moving.phase })
        }),
    })
}

fn replica_json(replica: &pb::ReplicaStatus) -> Value {
    let role = match replica.role() {
        pb::Role::Unspecified => None,
        pb::Role::Learner => Some("learner"),
        pb::Role::Follower => Some("follower"),
        pb::Role::Candidate => Some("candidate"),
        pb::Role::Leader => Some("leader"),
    };
    let hash =
        replica.hash.map(|hash| json!({ "applied": hash.applied, "hash": format!("{:016x}", hash.hash) }));
    json!({
        "node": replica.node,
        "role": role,
        "applied": replica.applied,
        "behind": replica.behind,
        "hash": hash,
    })
}
