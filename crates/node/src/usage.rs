//! What is used, for operators: units lent to edges, and the keys that are asked for most often.

mod top;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use leasehold_cluster::{Cluster, Lent, Question};
use leasehold_front::AdminError;
use leasehold_front::leases::{LeaseStatus, LeaseTotals, LeasesStatus};
use leasehold_front::top_keys::{TOP_KEYS_MAX, TopKeysQuery, TopKeysStatus};
use leasehold_lease::EdgeId;
use leasehold_limit::KeySecret;
use leasehold_model::{ShardId, TenantId};
use leasehold_service::top_keys;
use leasehold_shard::{LeaseNumbers, LentLease};
use leasehold_wire::Message as _;
use leasehold_wire::peer::{EdgeNamesReply, EdgeNamesRequest};
use leasehold_wire::proto::leasehold::v1 as pb;

use crate::authority::NodeAuthority;
use crate::clock;
use crate::core::Core;
use crate::lease_service::printable;
use crate::rules::Active;
use top::top_keys_of_all;

impl<A: NodeAuthority> Core<A> {
    /// What is out on leases, with the names of domains that have rules here.
    pub(crate) async fn lent(&self, domain: Option<&str>, most: u32) -> Result<LeasesStatus, AdminError> {
        let secret = self.rules.secret();
        let lent = self.authority.lent(domain.map(|domain| secret.tenant(domain)), most).await?;
        let names = self.rules.active().map(|active| names(&active, &secret)).unwrap_or_default();
        let edges = self.edge_names(lent.leases.iter().map(|(_, lease)| lease.edge).collect()).await;
        Ok(leases(lent, &names, &edges))
    }

    /// What edges call themselves, as the nodes say that they are connected to.
    async fn edge_names(&self, edges: BTreeSet<EdgeId>) -> BTreeMap<EdgeId, String> {
        let mut known = self.names_of(edges.iter().copied());
        let unknown: Vec<_> = edges.into_iter().filter(|edge| !known.contains_key(edge)).collect();
        if unknown.is_empty() {
            return known;
        }
        let request = EdgeNamesRequest(unknown).encode();
        for told in self.authority.ask_members(Question::EdgeNames, request).await {
            let reply =
                told.answer.and_then(|answer| EdgeNamesReply::decode(answer).ok()).unwrap_or_default();
            for (edge, name) in reply.0 {
                known.entry(edge).or_insert_with(|| printable(&name));
            }
        }
        known
    }

    fn names_of(&self, edges: impl Iterator<Item = EdgeId>) -> BTreeMap<EdgeId, String> {
        edges.filter_map(|edge| Some((edge, self.names.of(edge)?))).collect()
    }

    /// The keys that the nodes were asked for most often of late, or this one.
    pub(crate) async fn asked_most(&self, query: TopKeysQuery<'_>) -> Result<TopKeysStatus, AdminError> {
        if query.this_node {
            return top_keys(&self.top_keys, clock::boot(), query);
        }
        let all = TopKeysQuery { most: TOP_KEYS_MAX, ..query };
        let here = top_keys(&self.top_keys, clock::boot(), all)?;
        let request = pb::TopKeysRequest {
            domain: query.domain.unwrap_or_default().to_owned(),
            limit: TOP_KEYS_MAX,
            show_values: query.show_values,
            this_node: true,
        };
        let told = self.authority.ask_members(Question::TopKeys, request.encode_to_vec().into()).await;
        Ok(top_keys_of_all(here, told, query.most))
    }

    /// The answer to another node that asks for them. Values only where they are kept.
    fn tell_top_keys(&self, request: Bytes) -> Option<Bytes> {
        let pb::TopKeysRequest { domain, show_values, .. } = pb::TopKeysRequest::decode(request).ok()?;
        let query = TopKeysQuery {
            domain: Some(&*domain).filter(|domain| !domain.is_empty()),
            most: TOP_KEYS_MAX,
            show_values: show_values && self.top_keys.keeps_values(),
            this_node: true,
        };
        let told = top_keys(&self.top_keys, clock::boot(), query).ok()?;
        Some(pb::TopKeysResponse::from(told).encode_to_vec().into())
    }

    fn tell_edge_names(&self, request: Bytes) -> Option<Bytes> {
        let EdgeNamesRequest(edges) = EdgeNamesRequest::decode(request).ok()?;
        Some(EdgeNamesReply(self.names_of(edges.into_iter()).into_iter().collect()).encode())
    }
}

/// Answers what other nodes ask for their operators.
pub(crate) fn answer_members<A: NodeAuthority>(cluster: &Cluster, core: &Arc<Core<A>>) {
    // The cluster outlives nobody that it answers for.
    let (names, keys) = (Arc::downgrade(core), Arc::downgrade(core));
    cluster.answer_members(Question::EdgeNames, move |request| names.upgrade()?.tell_edge_names(request));
    cluster.answer_members(Question::TopKeys, move |request| keys.upgrade()?.tell_top_keys(request));
}

fn names(active: &Active, secret: &KeySecret) -> BTreeMap<TenantId, String> {
    active.book.domains.keys().map(|name| (secret.tenant(name), name.to_string())).collect()
}

fn leases(lent: Lent, names: &BTreeMap<TenantId, String>, edges: &BTreeMap<EdgeId, String>) -> LeasesStatus {
    let Lent { leases, more, numbers, unanswered } = lent;
    let LeaseNumbers {
        leases: live, out, grants, granted, spent, returned, lapsed, gates, violations, ..
    } = numbers;
    LeasesStatus {
        leases: leases.into_iter().map(|(shard, lent)| lease(shard, lent, names, edges)).collect(),
        more,
        totals: LeaseTotals {
            leases: live,
            out,
            grants,
            granted,
            spent,
            returned,
            lapsed,
            gates,
            violations,
        },
        shards_unanswered: unanswered,
    }
}

fn lease(
    shard: ShardId,
    lent: LentLease,
    names: &BTreeMap<TenantId, String>,
    edges: &BTreeMap<EdgeId, String>,
) -> LeaseStatus {
    let LentLease { key, tenant, edge, granted, spent, returned, expires_in } = lent;
    let domain = names.get(&tenant).cloned();
    let (edge, edge_name) = (edge.0, edges.get(&edge).cloned());
    LeaseStatus { key, domain, shard, edge, edge_name, granted, spent, returned, expires_in }
}

#[cfg(test)]
mod tests;
