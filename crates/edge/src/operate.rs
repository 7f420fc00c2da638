//! What an operator can ask of the process. Rules and members are the nodes' business.

use leasehold_client::{Clock, SystemClock};
use leasehold_decide::Decider;
use leasehold_front::cluster::{AuditEntry, ClusterStatus, Standing};
use leasehold_front::leases::LeasesStatus;
use leasehold_front::top_keys::{TopKeysQuery, TopKeysStatus};
use leasehold_front::{Admin, AdminError, DomainStatus, RulesStatus, Status};
use leasehold_limit::KeySecret;
use leasehold_limit::rules::{RuleError, SENT_TEXT, parse};
use leasehold_model::{RulesVersion, ShardId};
use leasehold_service::top_keys;

use crate::core::Core;

fn ask_a_node() -> AdminError {
    AdminError::ReadOnly(
        "this is an edge: it has its rules from the nodes that it leases from; ask one of them".to_owned(),
    )
}

impl Admin for Core {
    fn rules_get(&self, domain: &str) -> Option<(String, RulesVersion)> {
        let book = self.book()?;
        let source = &book.domains.get(domain)?.source;
        Some((source.to_string(), book.version))
    }

    async fn rules_put<'a>(
        &'a self,
        _: &'a str,
        _: Option<RulesVersion>,
        _: &'a str,
    ) -> Result<RulesVersion, AdminError> {
        Err(ask_a_node())
    }

    async fn rules_remove<'a>(
        &'a self,
        _: &'a str,
        _: Option<RulesVersion>,
        _: &'a str,
    ) -> Result<RulesVersion, AdminError> {
        Err(ask_a_node())
    }

    fn rules_validate(&self, text: &str) -> Result<String, Vec<RuleError>> {
        // Names of counters have no say in whether a text is right.
        parse(SENT_TEXT, text, &KeySecret::new([0; 16])).map(|domain| domain.name.to_string())
    }

    fn rules_status(&self) -> RulesStatus {
        let book = self.book();
        let domains = book.iter().flat_map(|book| book.domains.values()).map(|domain| DomainStatus {
            name: domain.name.to_string(),
            rules: domain.rules.len(),
            overrides: domain.rules.iter().map(|rule| rule.overrides.len()).sum(),
        });
        let source = match self.stream.peer() {
            Some(peer) if peer.name.is_empty() => format!("the node at {}", peer.address),
            Some(peer) => format!("node {} at {}", peer.name, peer.address),
            None => "a node that can't be reached now".to_owned(),
        };
        RulesStatus {
            version: book.as_ref().map_or(RulesVersion(0), |book| book.version),
            source,
            domains: domains.collect(),
            errors: Vec::new(),
            reloads_accepted: self.metrics.reloads_accepted(),
            reloads_refused: self.stream.counts().rules_refused,
        }
    }

    async fn status(&self) -> Status {
        let totals = self.metrics.totals();
        std::future::ready(Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            readiness: self.readiness(),
            uptime: SystemClock.boot().since(self.started),
            keys: self.authority.counts().keys,
            allowed: totals.allowed,
            over_limit: totals.over_limit,
            unavailable: totals.unavailable,
            state_hash: None,
            degraded: self.degraded(),
        })
        .await
    }

    async fn leases<'a>(&'a self, _: Option<&'a str>, _: u32) -> Result<LeasesStatus, AdminError> {
        Err(ask_a_node())
    }

    async fn top_keys<'a>(&'a self, query: TopKeysQuery<'a>) -> Result<TopKeysStatus, AdminError> {
        std::future::ready(top_keys(&self.top_keys, SystemClock.boot(), query)).await
    }

    fn metrics(&self) -> String {
        self.metrics.page(self.authority.counts().keys, 0)
    }

    async fn cluster(&self, _: bool) -> Result<ClusterStatus, AdminError> {
        Err(ask_a_node())
    }

    fn audit(&self) -> Result<Vec<AuditEntry>, AdminError> {
        Err(ask_a_node())
    }

    async fn move_leader<'a>(&'a self, _: ShardId, _: &'a str) -> Result<(), AdminError> {
        Err(ask_a_node())
    }

    async fn set_standing<'a>(&'a self, _: &'a str, _: Standing, _: &'a str) -> Result<(), AdminError> {
        Err(ask_a_node())
    }

    async fn forget<'a>(&'a self, _: &'a str, _: &'a str) -> Result<(), AdminError> {
        Err(ask_a_node())
    }
}
