//! What is used, as messages: units lent to edges, and the keys that are asked for most often.

use leasehold_model::Key;
use leasehold_wire::duration;
use leasehold_wire::proto::leasehold::v1;
use leasehold_wire::status;
use tonic::Status;

use super::super::check_status;
use crate::bounds;
use crate::leases::{LeaseStatus, LeaseTotals, LeasesStatus};
use crate::top_keys::{TopKey, TopKeysStatus};

/// The domain that is meant, if any.
pub(super) fn domain(named: &str) -> Result<Option<&str>, Status> {
    if named.is_empty() {
        return Ok(None);
    }
    bounds::domain(named).map_err(|error| check_status(&error))?;
    Ok(Some(named))
}

/// How many are wanted; 0 is `default`.
pub(super) fn limit(wanted: u32, default: u32, max: u32) -> Result<u32, Status> {
    match wanted {
        0 => Ok(default),
        limit if limit <= max => Ok(limit),
        _ => Err(status::invalid("limit", &format!("use 1 to {max}"))),
    }
}

pub(super) fn leases(status: LeasesStatus) -> v1::LeasesResponse {
    let LeasesStatus { leases, more, totals, shards_unanswered } = status;
    let LeaseTotals { leases: live, out, grants, granted, spent, returned, lapsed, gates, violations } =
        totals;
    let totals =
        v1::LeaseTotals { leases: live, out, grants, granted, spent, returned, lapsed, gates, violations };
    let leases = leases.into_iter().map(lease).collect();
    v1::LeasesResponse { leases, more, totals: Some(totals), shards_unanswered }
}

fn lease(lease: LeaseStatus) -> v1::Lease {
    v1::Lease {
        key: lease.key.to_string(),
        domain: lease.domain.unwrap_or_default(),
        shard: lease.shard.0,
        edge: format!("{:032x}", lease.edge),
        edge_name: lease.edge_name.unwrap_or_default(),
        granted: lease.granted,
        spent: lease.spent,
        returned: lease.returned,
        expires_in: Some(duration::to_proto(lease.expires_in)),
    }
}

impl From<TopKeysStatus> for v1::TopKeysResponse {
    fn from(status: TopKeysStatus) -> Self {
        let TopKeysStatus { keys, window, sampled_one_in, nodes, nodes_unanswered } = status;
        let keys = keys.into_iter().map(top_key).collect();
        Self { keys, window: Some(duration::to_proto(window)), sampled_one_in, nodes, nodes_unanswered }
    }
}

/// As another node tells it. What can't be read of it is left out.
impl From<v1::TopKeysResponse> for TopKeysStatus {
    fn from(told: v1::TopKeysResponse) -> Self {
        let v1::TopKeysResponse { keys, window, sampled_one_in, nodes, nodes_unanswered } = told;
        let window = window.and_then(|window| duration::from_proto(window).ok()).unwrap_or_default();
        let keys = keys.into_iter().filter_map(heard_top_key).collect();
        Self { keys, window, sampled_one_in, nodes, nodes_unanswered }
    }
}

fn heard_top_key(key: v1::TopKey) -> Option<TopKey> {
    let v1::TopKey { domain, rule, key, values, requests, error, refused, rule_requests, unlisted_max } = key;
    let key = Key::from_u128(u128::from_str_radix(&key, 16).ok()?);
    let values = values.into_iter().map(|pair| (pair.name, pair.value)).collect();
    Some(TopKey { domain, rule, key, values, requests, error, refused, rule_requests, unlisted_max })
}

fn top_key(key: TopKey) -> v1::TopKey {
    let TopKey { domain, rule, key, values, requests, error, refused, rule_requests, unlisted_max } = key;
    let values = values.into_iter().map(|(name, value)| v1::KeyValue { name, value });
    v1::TopKey {
        domain,
        rule,
        key: key.to_string(),
        values: values.collect(),
        requests,
        error,
        refused,
        rule_requests,
        unlisted_max,
    }
}
