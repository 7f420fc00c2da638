//! What an operator can ask of the process.

use std::sync::Arc;

use leasehold_cluster::Cluster;
use leasehold_front::cluster::{AuditEntry, ClusterStatus, Standing};
use leasehold_front::leases::LeasesStatus;
use leasehold_front::top_keys::{TopKeysQuery, TopKeysStatus};
use leasehold_front::{Admin, AdminError, Decider, RulesStatus, Status};
use leasehold_limit::rules::RuleError;
use leasehold_model::{RulesVersion, ShardId};

use crate::authority::NodeAuthority;
use crate::core::Core;
use crate::metrics::Totals;
use crate::rules::Keeper;
use crate::{clock, operate};

impl<A: NodeAuthority> Core<A> {
    fn joined(&self) -> Result<&Cluster, AdminError> {
        match &self.keeper {
            Keeper::Files(_) => Err(AdminError::Alone),
            Keeper::Cluster { cluster, .. } => Ok(cluster),
        }
    }
}

impl<A: NodeAuthority> Admin for Core<A> {
    fn rules_get(&self, domain: &str) -> Option<(String, RulesVersion)> {
        let active = self.rules.active()?;
        let source = &active.book.domains.get(domain)?.source;
        Some((source.to_string(), active.book.version))
    }

    async fn rules_put<'a>(
        &'a self,
        text: &'a str,
        expected: Option<RulesVersion>,
        by: &'a str,
    ) -> Result<RulesVersion, AdminError> {
        self.keeper.put(text, expected, by).await
    }

    async fn rules_remove<'a>(
        &'a self,
        domain: &'a str,
        expected: Option<RulesVersion>,
        by: &'a str,
    ) -> Result<RulesVersion, AdminError> {
        self.keeper.remove(domain, expected, by).await
    }

    fn rules_validate(&self, text: &str) -> Result<String, Vec<RuleError>> {
        self.rules.parse(text).map(|domain| domain.name.to_string())
    }

    fn rules_status(&self) -> RulesStatus {
        self.rules.status()
    }

    async fn status(&self) -> Status {
        let authority = Arc::clone(&self.authority);
        let walk = tokio::task::spawn_blocking(move || (authority.holdings(), authority.state_hash()));
        // It panicked, which left a line, or the runtime is going down.
        let (holdings, state_hash) = walk.await.unwrap_or_default();
        let Totals { allowed, over_limit, unavailable } = self.metrics.totals();
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            readiness: self.readiness(),
            uptime: clock::boot().since(self.started),
            keys: holdings.keys,
            allowed,
            over_limit,
            unavailable,
            state_hash,
            degraded: None,
        }
    }

    async fn leases<'a>(&'a self, domain: Option<&'a str>, most: u32) -> Result<LeasesStatus, AdminError> {
        self.lent(domain, most).await
    }

    async fn top_keys<'a>(&'a self, query: TopKeysQuery<'a>) -> Result<TopKeysStatus, AdminError> {
        self.asked_most(query).await
    }

    fn metrics(&self) -> String {
        let holdings = self.authority.holdings();
        self.metrics.lent(self.authority.lease_numbers());
        self.metrics.page(holdings.keys, holdings.evicted)
    }

    async fn cluster(&self, hashes: bool) -> Result<ClusterStatus, AdminError> {
        operate::status(self.joined()?, hashes).await
    }

    fn audit(&self) -> Result<Vec<AuditEntry>, AdminError> {
        operate::audit(self.joined()?)
    }

    async fn move_leader<'a>(&'a self, shard: ShardId, to: &'a str) -> Result<(), AdminError> {
        operate::move_leader(self.joined()?, shard, to).await
    }

    async fn set_standing<'a>(
        &'a self,
        member: &'a str,
        standing: Standing,
        by: &'a str,
    ) -> Result<(), AdminError> {
        operate::set_standing(self.joined()?, member, standing, by).await
    }

    async fn forget<'a>(&'a self, member: &'a str, by: &'a str) -> Result<(), AdminError> {
        operate::forget(self.joined()?, member, by).await
    }
}
