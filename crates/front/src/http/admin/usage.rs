//! Routes for operators about what is used: units lent to edges, and the keys that are asked for most often.
//!
//! `GET /v1/leases?domain=DOMAIN&limit=50` answers
//!
//! ```json
//! {
//!   "leases": [{
//!     "key": "32 hexadecimal digits", "domain": "api", "shard": 3, "edge": "32 hexadecimal digits",
//!     "edge_name": "gateway-1", "granted": 200, "spent": 120, "returned": 0, "out": 80, "expires_in_ms": 4200
//!   }],
//!   "more": false,
//!   "totals": {
//!     "leases": 1, "out": 80, "grants": 9, "granted": 1700, "spent": 1500, "returned": 100, "lapsed": 20, "gates": 0,
//!     "violations": 0
//!   },
//!   "shards_unanswered": 0
//! }
//! ```
//!
//! and `GET /v1/keys/top?domain=DOMAIN&limit=20`
//!
//! ```json
//! {
//!   "keys": [{
//!     "domain": "api", "rule": "per-user", "key": "32 hexadecimal digits", "values": null,
//!     "requests": 64000, "error": 640, "refused": 1280, "rule_requests": 128000, "unlisted_max": 640
//!   }],
//!   "window_ms": 90000, "sampled_one_in": 64, "nodes": 3, "nodes_unanswered": []
//! }
//! ```
//!
//! of all nodes, or with `&this_node=true` of the one that answers. With `&show_values=true`, where the node keeps them, `values` is `{ "user": "ann" }`. What is not known is `null`.

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::problem::Problem;
use super::super::routes::{get_only, json};
use crate::leases::{LEASES_DEFAULT, LEASES_MAX, LeaseStatus, LeaseTotals, LeasesStatus};
use crate::top_keys::{TOP_KEYS_DEFAULT, TOP_KEYS_MAX, TopKey, TopKeysQuery, TopKeysStatus};
use crate::{Admin, Decider, bounds};

/// The routes.
pub(super) fn routes<D: Decider + Admin>() -> Router<Arc<D>> {
    Router::new()
        .route("/v1/leases", get(leases::<D>).fallback(get_only))
        .route("/v1/keys/top", get(top_keys::<D>).fallback(get_only))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LeasesQuery {
    domain: Option<String>,
    limit: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeysQuery {
    domain: Option<String>,
    limit: Option<u32>,
    #[serde(default)]
    show_values: bool,
    #[serde(default)]
    this_node: bool,
}

async fn leases<D: Admin>(
    State(admin): State<Arc<D>>,
    query: Result<Query<LeasesQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(LeasesQuery { domain, limit }) =
        query.map_err(|_| Problem::field("query", "it takes domain=DOMAIN and limit=NUMBER"))?;
    let domain = named(domain.as_deref())?;
    let most = within(limit, LEASES_DEFAULT, LEASES_MAX)?;
    Ok(json(&leases_json(&admin.leases(domain, most).await?)))
}

async fn top_keys<D: Admin>(
    State(admin): State<Arc<D>>,
    query: Result<Query<KeysQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let takes = "it takes domain=DOMAIN, limit=NUMBER, show_values=true and this_node=true";
    let Query(KeysQuery { domain, limit, show_values, this_node }) =
        query.map_err(|_| Problem::field("query", takes))?;
    let domain = named(domain.as_deref())?;
    let most = within(limit, TOP_KEYS_DEFAULT, TOP_KEYS_MAX)?;
    let told = admin.top_keys(TopKeysQuery { domain, most, show_values, this_node }).await?;
    Ok(json(&top_keys_json(&told, show_values)))
}

fn named(domain: Option<&str>) -> Result<Option<&str>, Problem> {
    let domain = domain.filter(|domain| !domain.is_empty());
    domain.map(bounds::domain).transpose()?;
    Ok(domain)
}

fn within(limit: Option<u32>, default: u32, max: u32) -> Result<u32, Problem> {
    match limit.unwrap_or(default) {
        limit if (1..=max).contains(&limit) => Ok(limit),
        _ => Err(Problem::field("limit", &format!("use 1 to {max}"))),
    }
}

fn leases_json(status: &LeasesStatus) -> Value {
    let LeaseTotals { leases, out, grants, granted, spent, returned, lapsed, gates, violations } =
        status.totals;
    json!({
        "leases": status.leases.iter().map(lease_json).collect::<Vec<_>>(),
        "more": status.more,
        "totals": {
            "leases": leases, "out": out, "grants": grants, "granted": granted, "spent": spent,
            "returned": returned, "lapsed": lapsed, "gates": gates, "violations": violations,
        },
        "shards_unanswered": status.shards_unanswered,
    })
}

fn lease_json(lease: &LeaseStatus) -> Value {
    json!({
        "key": lease.key.to_string(),
        "domain": lease.domain,
        "shard": lease.shard.0,
        "edge": format!("{:032x}", lease.edge),
        "edge_name": lease.edge_name,
        "granted": lease.granted,
        "spent": lease.spent,
        "returned": lease.returned,
        "out": lease.out(),
        "expires_in_ms": lease.expires_in.millis_ceil(),
    })
}

fn top_keys_json(status: &TopKeysStatus, show_values: bool) -> Value {
    json!({
        "keys": status.keys.iter().map(|key| top_key_json(key, show_values)).collect::<Vec<_>>(),
        "window_ms": status.window.millis_ceil(),
        "sampled_one_in": status.sampled_one_in,
        "nodes": status.nodes,
        "nodes_unanswered": status.nodes_unanswered,
    })
}

fn top_key_json(key: &TopKey, show_values: bool) -> Value {
    let values = key.values.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str())));
    json!({
        "domain": key.domain,
        "rule": key.rule,
        "key": key.key.to_string(),
        "values": show_values.then(|| values.collect::<Map<_, _>>()),
        "requests": key.requests,
        "error": key.error,
        "refused": key.refused,
        "rule_requests": key.rule_requests,
        "unlisted_max": key.unlisted_max,
    })
}
