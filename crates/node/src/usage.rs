//! What is used, for operators: units lent to edges, and the keys that are asked for most often.

use std::collections::BTreeMap;

use leasehold_cluster::Lent;
use leasehold_front::AdminError;
use leasehold_front::leases::{LeaseStatus, LeaseTotals, LeasesStatus};
use leasehold_front::top_keys::{TopKeysQuery, TopKeysStatus};
use leasehold_limit::KeySecret;
use leasehold_model::{ShardId, TenantId};
use leasehold_service::top_keys;
use leasehold_shard::{LeaseNumbers, LentLease};

use crate::authority::NodeAuthority;
use crate::clock;
use crate::core::Core;
use crate::rules::Active;

impl<A: NodeAuthority> Core<A> {
    /// What is out on leases, with the names of domains that have rules here.
    pub(crate) async fn lent(&self, domain: Option<&str>, most: u32) -> Result<LeasesStatus, AdminError> {
        let secret = self.rules.secret();
        let lent = self.authority.lent(domain.map(|domain| secret.tenant(domain)), most).await?;
        let names = self.rules.active().map(|active| names(&active, &secret)).unwrap_or_default();
        Ok(leases(lent, &names))
    }

    /// The keys that this node was asked for most often of late.
    pub(crate) fn asked_most(&self, query: TopKeysQuery<'_>) -> Result<TopKeysStatus, AdminError> {
        top_keys(&self.top_keys, clock::boot(), query)
    }
}

fn names(active: &Active, secret: &KeySecret) -> BTreeMap<TenantId, String> {
    active.book.domains.keys().map(|name| (secret.tenant(name), name.to_string())).collect()
}

fn leases(lent: Lent, names: &BTreeMap<TenantId, String>) -> LeasesStatus {
    let Lent { leases, more, numbers, unanswered } = lent;
    let LeaseNumbers {
        leases: live, out, grants, granted, spent, returned, lapsed, gates, violations, ..
    } = numbers;
    LeasesStatus {
        leases: leases.into_iter().map(|(shard, lent)| lease(shard, lent, names)).collect(),
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

fn lease(shard: ShardId, lent: LentLease, names: &BTreeMap<TenantId, String>) -> LeaseStatus {
    let LentLease { key, tenant, edge, granted, spent, returned, expires_in } = lent;
    let domain = names.get(&tenant).cloned();
    let (edge, edge_name) = (edge.0, None);
    LeaseStatus { key, domain, shard, edge, edge_name, granted, spent, returned, expires_in }
}

#[cfg(test)]
mod tests;
