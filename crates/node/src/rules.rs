//! The rules in force: built as a whole, swapped as a whole, whoever keeps them.
//!
//! Invariants: a bad set leaves the old one in force, and versions only go up. Who keeps rules is [`files`] for a node that
//! runs alone and [`cluster`] for one of several; nothing here knows where they come from.

mod cluster;
mod files;
mod keeper;
mod source;
mod store;
mod watcher;

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use leasehold_decide::Region;
use leasehold_front::{AdminError, DomainStatus, RulesStatus};
use leasehold_limit::KeySecret;
use leasehold_limit::rules::{Domain, RuleBook, RuleError, SENT_TEXT, parse};
use leasehold_model::{RulesVersion, Stamp};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::metrics::{Metrics, RuleMeters};
pub(crate) use cluster::{ClusterRules, FirstRules};
pub(crate) use files::{FileRules, LoadError};
pub(crate) use keeper::Keeper;
pub(crate) use source::Source;
pub use source::{EXAMPLE_RULES_YAML, rule_files};
pub(crate) use watcher::{Watch, reload};

/// Mistakes of one reload that are logged one by one; all of them are in the status.
const MISTAKES_LOGGED_MAX: usize = 50;

/// The rules in force, if any are known yet.
#[derive(Debug)]
pub(crate) struct RulesInForce {
    /// Where they come from, for people.
    source: String,
    /// Keys counter names until a set brings its own secret.
    first_secret: KeySecret,
    metrics: Arc<Metrics>,
    /// The domain of requests that name none. Without rules they all pass, so the log warns of that.
    fallback_domain: Option<String>,
    active: ArcSwapOption<Active>,
    /// The version in force, told after each swap.
    changes: watch::Sender<RulesVersion>,
    history: Mutex<History>,
}

/// One rule set, with the counters of its rules.
pub(crate) type Active = leasehold_decide::Active<RuleMeters>;

#[derive(Debug, Default)]
struct History {
    mistakes: Vec<RuleError>,
    accepted: u64,
    refused: u64,
}

impl RulesInForce {
    /// None yet.
    pub(crate) fn unknown(
        source: String,
        first_secret: KeySecret,
        metrics: Arc<Metrics>,
        fallback_domain: Option<String>,
    ) -> Self {
        let (active, history) = (ArcSwapOption::empty(), Mutex::default());
        let changes = watch::Sender::new(RulesVersion(0));
        Self { source, first_secret, metrics, fallback_domain, active, changes, history }
    }

    /// The rule set in force. `None`: it isn't known yet.
    pub(crate) fn active(&self) -> Option<Arc<Active>> {
        self.active.load_full()
    }

    /// Tells of each set that comes into force.
    pub(crate) fn changes(&self) -> watch::Receiver<RulesVersion> {
        self.changes.subscribe()
    }

    /// The secret that keys counter names.
    pub(crate) fn secret(&self) -> KeySecret {
        self.active.load().as_ref().map_or_else(|| self.first_secret.clone(), |active| active.secret.clone())
    }

    /// The version in force; 0 while none is.
    pub(crate) fn version(&self) -> RulesVersion {
        self.active.load().as_ref().map_or(RulesVersion(0), |active| active.book.version)
    }

    /// What is in force and how the last reload went.
    pub(crate) fn status(&self) -> RulesStatus {
        let active = self.active();
        let history = self.history.lock();
        let domains = active.iter().flat_map(|active| active.book.domains.values()).map(domain_status);
        RulesStatus {
            version: active.as_ref().map_or(RulesVersion(0), |active| active.book.version),
            source: self.source.clone(),
            domains: domains.collect(),
            errors: history.mistakes.clone(),
            reloads_accepted: history.accepted,
            reloads_refused: history.refused,
        }
    }

    /// Validates one domain's rules.
    ///
    /// # Errors
    /// Every mistake found.
    pub(crate) fn parse(&self, text: &str) -> Result<Domain, Vec<RuleError>> {
        parse(SENT_TEXT, text, &self.secret())
    }

    /// Checks that a domain has rules.
    ///
    /// # Errors
    /// It has none, and which do.
    fn knows(&self, domain: &str) -> Result<(), AdminError> {
        let active = self.active();
        let domains = || active.iter().flat_map(|active| active.book.domains.keys());
        if domains().any(|name| **name == *domain) {
            return Ok(());
        }
        let names: Vec<_> = domains().map(|name| &**name).collect();
        let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        Err(AdminError::NotFound(format!("there is no domain {domain:?}; there are: {there}")))
    }

    /// A set of these texts, each with the name that mistakes are reported under. Also the domains, in their order.
    fn build<'t>(
        &self,
        version: RulesVersion,
        since: Stamp,
        secret: &KeySecret,
        region: Option<Region>,
        texts: impl Iterator<Item = (String, &'t str)>,
    ) -> Result<(Active, Vec<Arc<str>>), Vec<RuleError>> {
        let domains = domains(texts, secret)?;
        let names = domains.iter().map(|(_, domain)| Arc::clone(&domain.name)).collect();
        let book = RuleBook { since, ..RuleBook::new(version, domains)? };
        let meters = self.metrics.meters(&book);
        Ok((Active { book: Arc::new(book), meters, secret: secret.clone(), region }, names))
    }

    /// Puts a set in force that nobody changed to: the first one.
    fn begin(&self, first: Active) {
        self.swap(first);
    }

    /// Puts a changed set in force.
    fn accept(&self, next: Active) -> RulesVersion {
        let version = self.swap(next);
        self.metrics.reload_accepted();
        let mut history = self.history.lock();
        history.mistakes.clear();
        history.accepted += 1;
        tracing::info!(%version, source = self.source, "new rules are in force");
        version
    }

    fn swap(&self, next: Active) -> RulesVersion {
        let version = next.book.version;
        let next = Arc::new(next);
        let old = self.active.swap(Some(Arc::clone(&next)));
        if let Some(old) = &old {
            self.metrics.forget_rules_missing_from(&old.book, &next.book);
        }
        self.metrics.rules_version(version);
        self.changes.send_replace(version);
        self.warn_of_missing(old.as_ref().map(|old| &*old.book), &next.book);
        version
    }

    /// Warns of domains without rules that had some, or that requests fall back to: their requests pass without a limit.
    fn warn_of_missing(&self, old: Option<&RuleBook>, new: &RuleBook) {
        for domain in old.map(|old| domains_missing_from(old, new)).unwrap_or_default() {
            tracing::warn!(domain, "this domain has no rules any more: its requests pass without a limit");
        }
        if let Some(domain) = self.fallback_domain.as_deref().filter(|name| !new.domains.contains_key(*name))
        {
            tracing::warn!(
                domain,
                "authorize.domain has no rules: requests that name no domain pass without a limit"
            );
        }
    }

    /// Notes a set that was not put in force. Returns whether these mistakes are news.
    fn refuse(&self, mistakes: Vec<RuleError>) -> bool {
        let mut history = self.history.lock();
        if history.mistakes == mistakes {
            return false;
        }
        for mistake in mistakes.iter().take(MISTAKES_LOGGED_MAX) {
            let place = format!("{}:{}:{}", mistake.file, mistake.line, mistake.column);
            let (field, fix) = (&mistake.field, &mistake.fix);
            tracing::warn!(place, field, fix, "rules refused: {}", mistake.message);
        }
        tracing::warn!(mistakes = mistakes.len(), version = %self.version(), "the old rules stay in force");
        self.metrics.reload_refused();
        history.mistakes = mistakes;
        history.refused += 1;
        true
    }
}

/// Reads texts, each with the name that its mistakes are reported under.
fn domains<'t>(
    texts: impl Iterator<Item = (String, &'t str)>,
    secret: &KeySecret,
) -> Result<Vec<(String, Domain)>, Vec<RuleError>> {
    let (mut domains, mut mistakes) = (Vec::new(), Vec::new());
    for (name, text) in texts {
        match parse(&name, text, secret) {
            Ok(domain) => domains.push((name, domain)),
            Err(found) => mistakes.extend(found),
        }
    }
    if mistakes.is_empty() { Ok(domains) } else { Err(mistakes) }
}

/// Domains that had rules and have none now.
fn domains_missing_from<'o>(old: &'o RuleBook, new: &RuleBook) -> Vec<&'o str> {
    let limited =
        |book: &RuleBook, name: &str| book.domains.get(name).is_some_and(|held| !held.rules.is_empty());
    let names = old.domains.keys().map(|name| &**name);
    names.filter(|name| limited(old, name) && !limited(new, name)).collect()
}

fn domain_status(domain: &Domain) -> DomainStatus {
    DomainStatus {
        name: domain.name.to_string(),
        rules: domain.rules.len(),
        overrides: domain.rules.iter().map(|rule| rule.overrides.len()).sum(),
    }
}

#[cfg(test)]
mod tests;
