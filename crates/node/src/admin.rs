//! What an operator can ask of the process.

use std::sync::Arc;

use leasehold_front::{Admin, AdminError, RulesStatus, Status};
use leasehold_limit::rules::RuleError;
use leasehold_model::RulesVersion;

use crate::authority::Authority;
use crate::clock;
use crate::core::Core;
use crate::metrics::Totals;

impl<A: Authority> Admin for Core<A> {
    fn rules_get(&self, domain: &str) -> Option<(String, RulesVersion)> {
        let active = self.rules.active();
        let source = &active.book.domains.get(domain)?.source;
        Some((source.to_string(), active.book.version))
    }

    async fn rules_put<'a>(
        &'a self,
        text: &'a str,
        expected: Option<RulesVersion>,
    ) -> Result<RulesVersion, AdminError> {
        let (rules, text) = (Arc::clone(&self.rules), text.to_owned());
        tokio::task::spawn_blocking(move || rules.put(&text, expected)).await.unwrap_or_else(|_| {
            Err(AdminError::Failed("the write was interrupted; read the rules".to_owned()))
        })
    }

    fn rules_validate(&self, text: &str) -> Result<String, Vec<RuleError>> {
        self.rules.validate(text)
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
        }
    }

    fn metrics(&self) -> String {
        let holdings = self.authority.holdings();
        self.metrics.page(holdings.keys, holdings.evicted)
    }
}
