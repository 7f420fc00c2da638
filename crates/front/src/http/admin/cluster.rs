//! Routes for operators of a cluster: members, shards, audit, and what can be done with them.
//!
//! `GET /v1/cluster` answers
//!
//! ```json
//! {
//!   "id": "32 hexadecimal digits", "name": "example", "node": 81985529216486, "epoch": 3, "rules_version": 2,
//!   "replicas": 3,
//!   "members": [{
//!     "id": 81985529216486, "name": "a", "peer_address": "10.0.0.1:7601", "client_address": "10.0.0.1:7600",
//!     "zone": "", "region": "", "weight": 100, "standing": "active", "answers": true, "live": true, "votes": true,
//!     "replicas": 32, "leads": 11, "keys": 12345, "rules_version": 2, "round_trip_us": 310
//!   }],
//!   "shards": [{
//!     "shard": 0, "leader": 81985529216486, "preferred": 81985529216486, "home": null, "keys": 380,
//!     "replicas": [{ "node": 81985529216486, "role": "leader", "applied": 4711, "behind": 0, "hash": null }],
//!     "move": { "to": 94, "from": 95, "phase": "learning" }
//!   }],
//!   "control": { "leader": 81985529216486, "preferred": null, "home": null, "keys": null, "replicas": [], "move": null }
//! }
//! ```
//!
//! With `?hashes=true` a replica also has `"hash": { "applied": 4711, "hash": "16 hexadecimal digits" }`; that reads all
//! counters. `standing` is active, draining or dead; `role` is learner, follower, candidate or leader.
//!
//! Nodes are named by their ids there: names are unique only among those that are not dead. What is not known is `null`.
//! Elsewhere a node may be named by its id or its name.

use std::future::{self, Ready};
use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::{MethodFilter, delete, get, on};
use http::{Method, Uri};
use leasehold_model::{NodeId, ShardId};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::body;
use super::super::problem::Problem;
use super::super::routes::{get_only, json, named, post_only};
use super::who;
use crate::cluster::{ClusterStatus, GroupStatus, MemberStatus, ReplicaStatus, Role, Standing, StateHash};
use crate::{Admin, Decider};

/// Bytes of a body that names a node or a standing. Larger: 413.
const BODY_BYTES_MAX: usize = 4_096;

/// The routes.
pub(super) fn routes<D: Decider + Admin>() -> Router<Arc<D>> {
    Router::new()
        .route("/v1/cluster", get(cluster::<D>).fallback(get_only))
        .route("/v1/audit", get(audit::<D>).fallback(get_only))
        .route("/v1/shards/{shard}/leader", on(MethodFilter::POST, lead::<D>).fallback(post_only))
        .route(
            "/v1/members/{member}",
            delete(forget::<D>).on(MethodFilter::POST, set_standing::<D>).fallback(post_or_delete),
        )
}

async fn cluster<D: Admin>(State(admin): State<Arc<D>>, uri: Uri) -> Result<Response, Problem> {
    let hashes = match uri.query() {
        None | Some("" | "hashes=false") => false,
        Some("hashes=true") => true,
        Some(_) => return Err(Problem::field("hashes", "the query is ?hashes=true, or none")),
    };
    Ok(json(&status_json(&admin.cluster(hashes).await?)))
}

fn audit<D: Admin>(State(admin): State<Arc<D>>) -> Ready<Result<Response, Problem>> {
    let entries = admin.audit().map(|entries| {
        let entries = entries.iter().map(
            |entry| json!({ "at_unix_ms": entry.at.0 / 1_000_000, "by": &*entry.by, "what": &*entry.what }),
        );
        json(&json!({ "entries": entries.collect::<Vec<_>>() }))
    });
    future::ready(entries.map_err(Problem::from))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Lead {
    to: NodeName,
}

/// A node's name, or its id as a number or as text.
#[derive(Deserialize)]
#[serde(untagged)]
enum NodeName {
    Text(String),
    Id(u64),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewStanding {
    standing: String,
}

async fn lead<D: Admin>(
    State(admin): State<Arc<D>>,
    shard: Result<Path<u32>, PathRejection>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let work = async {
        let Path(shard) =
            shard.map_err(|_| Problem::field("shard", "it is no number; see GET /v1/cluster"))?;
        let body = body::read_json(&parts.headers, body, BODY_BYTES_MAX).await?;
        let Lead { to } = serde_json::from_slice(&body)
            .map_err(|_| Problem::field("to", r#"name the node that shall lead it: {"to": "NODE"}"#))?;
        let to = match to {
            NodeName::Text(name) => name,
            NodeName::Id(id) => id.to_string(),
        };
        admin.move_leader(ShardId(shard), &to).await?;
        Ok(json(&json!({ "shard": shard, "leader": to })))
    };
    named(&parts.headers, work).await
}

async fn set_standing<D: Admin>(
    State(admin): State<Arc<D>>,
    member: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let work = async {
        let member = member_of(member)?;
        let body = body::read_json(&parts.headers, body, BODY_BYTES_MAX).await?;
        let fix = r#"send {"standing": "draining"}, "active" or "dead""#;
        let new: NewStanding = serde_json::from_slice(&body).map_err(|_| Problem::field("standing", fix))?;
        let standing = Standing::named(&new.standing).ok_or_else(|| Problem::field("standing", fix))?;
        admin.set_standing(&member, standing, &who(parts.extensions.get())).await?;
        Ok(json(&json!({ "member": member, "standing": standing.name() })))
    };
    named(&parts.headers, work).await
}

async fn forget<D: Admin>(
    State(admin): State<Arc<D>>,
    member: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    let work = async {
        let member = member_of(member)?;
        admin.forget(&member, &who(parts.extensions.get())).await?;
        Ok(json(&json!({ "member": member, "forgotten": true })))
    };
    named(&parts.headers, work).await
}

fn member_of(member: Result<Path<String>, PathRejection>) -> Result<String, Problem> {
    let Path(member) = member.map_err(|_| Problem::field("member", "it can't be read from the path"))?;
    Ok(member)
}

fn post_or_delete(method: Method) -> Ready<Problem> {
    future::ready(body::not_allowed(&method, "POST, DELETE"))
}

fn status_json(status: &ClusterStatus) -> Value {
    json!({
        "id": format!("{:032x}", status.id),
        "name": status.name,
        "node": status.node.0,
        "epoch": status.epoch.0,
        "rules_version": status.rules_version.0,
        "replicas": status.replicas,
        "members": status.members.iter().map(member_json).collect::<Vec<_>>(),
        "shards": (0_u32..).zip(&status.shards).map(|(shard, group)| {
            let mut json = group_json(group);
            json["shard"] = shard.into();
            json
        }).collect::<Vec<_>>(),
        "control": group_json(&status.control),
    })
}

fn member_json(member: &MemberStatus) -> Value {
    json!({
        "id": member.id.0,
        "name": member.name,
        "peer_address": member.peer_address,
        "client_address": member.client_address,
        "zone": member.zone,
        "region": member.region,
        "weight": member.weight,
        "standing": member.standing.name(),
        "answers": member.answers,
        "live": member.live,
        "votes": member.votes,
        "replicas": member.replicas,
        "leads": member.leads,
        "keys": member.keys,
        "rules_version": member.rules_version.map(|version| version.0),
        "round_trip_us": member.round_trip_micros(),
    })
}

fn group_json(group: &GroupStatus) -> Value {
    let moving = group
        .moving
        .map(|moving| json!({ "to": id(moving.to), "from": id(moving.from), "phase": moving.phase }));
    json!({
        "leader": id(group.leader),
        "preferred": id(group.preferred),
        "home": group.home,
        "keys": group.keys,
        "replicas": group.replicas.iter().map(replica_json).collect::<Vec<_>>(),
        "move": moving,
    })
}

fn replica_json(replica: &ReplicaStatus) -> Value {
    let hash = replica
        .hash
        .map(|StateHash { applied, hash }| json!({ "applied": applied, "hash": format!("{hash:016x}") }));
    json!({
        "node": replica.node.0,
        "role": replica.role.map(Role::name),
        "applied": replica.applied,
        "behind": replica.behind,
        "hash": hash,
    })
}

fn id(node: Option<NodeId>) -> Option<u64> {
    node.map(|node| node.0)
}
