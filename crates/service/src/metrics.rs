//! What the process counts, and the page that shows it in OpenMetrics text.
//!
//! Invariants: no key and no attribute value is a label, so the number of series is bounded by the rules. A request
//! touches atomics only: its rules' counters were resolved when the rules were swapped in.

mod duration;
mod meters;
mod process;
mod recent;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use leasehold_limit::check::{Answer, Verdict};
use leasehold_limit::rules::RuleBook;
use leasehold_model::{Nanos, RulesVersion};
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use duration::DurationHistogram;
use meters::RuleFamilies;
pub use meters::RuleMeters;
pub use recent::Recent;

type GaugeU64 = Gauge<u64, AtomicU64>;

/// Everything that is counted.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    rules: RuleFamilies,
    duration: Arc<DurationHistogram>,
    reloads_accepted: Counter,
    reloads_refused: Counter,
    rules_version: GaugeU64,
    keys: GaugeU64,
    evictions: Counter,
    resident_bytes: GaugeU64,
    open_fds: GaugeU64,
    no_rule: Counter,
    no_domain: Counter,
    tally: Tally,
}

/// Requests decided since start, by verdict and whatever their rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Let pass.
    pub allowed: u64,
    /// Refused, since a limit was exceeded.
    pub over_limit: u64,
    /// Refused, since a limit could not be asked and declares that.
    pub unavailable: u64,
}

/// [`Totals`] as they grow.
#[derive(Debug, Default)]
struct Tally {
    allowed: AtomicU64,
    over_limit: AtomicU64,
    unavailable: AtomicU64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReloadLabels {
    result: ReloadResult,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[expect(
    non_camel_case_types,
    reason = "the derive writes variants as they are spelled, and these are label values"
)]
enum ReloadResult {
    accepted,
    refused,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UnmatchedLabels {
    reason: Unmatched,
}

/// Why no rule applied to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[expect(
    non_camel_case_types,
    reason = "the derive writes variants as they are spelled, and these are label values"
)]
enum Unmatched {
    no_such_domain,
    no_matching_rule,
}

impl Metrics {
    /// With what the process registered of its own before. `keys_help`: what `leasehold_keys` counts there.
    #[must_use]
    pub fn new(mut registry: Registry, keys_help: &str) -> Self {
        let rules = RuleFamilies::register(&mut registry);
        let duration = Arc::new(DurationHistogram::default());
        registry.register_collector(Box::new(Arc::clone(&duration)));
        let reloads = Family::<ReloadLabels, Counter>::default();
        registry.register("leasehold_rules_reloads", "Rule sets read since start", reloads.clone());
        let unmatched = Family::<UnmatchedLabels, Counter>::default();
        let help = "Requests allowed because no rule applied to them";
        registry.register("leasehold_unmatched_requests", help, unmatched.clone());
        let unmatched = |reason| unmatched.get_or_create_owned(&UnmatchedLabels { reason });
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("leasehold_build", "The program", version);
        let mut gauge = |name, help| {
            let gauge = GaugeU64::default();
            registry.register(name, help, gauge.clone());
            gauge
        };
        let rules_version = gauge("leasehold_rules_version", "Version of the rules in force");
        let keys = gauge("leasehold_keys", keys_help);
        let resident_bytes = gauge("process_resident_memory_bytes", "Resident memory");
        let open_fds = gauge("process_open_fds", "Open file descriptors");
        let evictions = Counter::default();
        let help = "Counters dropped because they equalled fresh ones";
        registry.register("leasehold_evictions", help, evictions.clone());
        Self {
            rules,
            duration,
            reloads_accepted: reloads.get_or_create_owned(&ReloadLabels { result: ReloadResult::accepted }),
            reloads_refused: reloads.get_or_create_owned(&ReloadLabels { result: ReloadResult::refused }),
            rules_version,
            keys,
            evictions,
            resident_bytes,
            open_fds,
            no_rule: unmatched(Unmatched::no_matching_rule),
            no_domain: unmatched(Unmatched::no_such_domain),
            tally: Tally::default(),
            registry,
        }
    }

    /// Resolves the counters of a book's rules.
    #[must_use]
    pub fn meters(&self, book: &RuleBook) -> RuleMeters {
        self.rules.meters(book)
    }

    /// Ends the series of rules that `old` had and `new` doesn't.
    pub fn forget_rules_missing_from(&self, old: &RuleBook, new: &RuleBook) {
        self.rules.forget_rules_missing_from(old, new);
    }

    /// Counts one decided request.
    pub fn decided(&self, meters: &RuleMeters, answer: &Answer, took: Nanos) {
        self.duration.observe(took);
        let total = match answer.verdict {
            Verdict::Allowed => &self.tally.allowed,
            Verdict::OverLimit => &self.tally.over_limit,
            Verdict::Unavailable => &self.tally.unavailable,
        };
        total.fetch_add(1, Relaxed);
        for answered in answer.matched() {
            meters.count(answered);
        }
    }

    /// Counts one request that no rule applied to: a domain spelled wrongly should not go unnoticed.
    pub fn unmatched(&self, domain_known: bool) {
        if domain_known { &self.no_rule } else { &self.no_domain }.inc();
    }

    /// Requests decided since start.
    pub fn totals(&self) -> Totals {
        let Tally { allowed, over_limit, unavailable } = &self.tally;
        Totals {
            allowed: allowed.load(Relaxed),
            over_limit: over_limit.load(Relaxed),
            unavailable: unavailable.load(Relaxed),
        }
    }

    /// Notes the version of the rules in force.
    pub fn rules_version(&self, version: RulesVersion) {
        self.rules_version.set(version.0);
    }

    /// Counts a rule set that was put in force.
    pub fn reload_accepted(&self) {
        self.reloads_accepted.inc();
    }

    /// Rule sets put in force since start.
    #[must_use]
    pub fn reloads_accepted(&self) -> u64 {
        self.reloads_accepted.get()
    }

    /// Counts a rule set that was not.
    pub fn reload_refused(&self) {
        self.reloads_refused.inc();
    }

    /// The page, with what the counters hold now.
    pub fn page(&self, keys: u64, evicted: u64) -> String {
        self.keys.set(keys);
        self.evictions.inner().store(evicted, Relaxed);
        if let Some(usage) = process::usage() {
            self.resident_bytes.set(usage.resident_bytes);
            self.open_fds.set(usage.open_fds);
        }
        let mut page = String::new();
        match text::encode(&mut page, &self.registry) {
            Ok(()) => page,
            Err(std::fmt::Error) => {
                tracing::error!("the metrics page could not be written");
                String::new()
            }
        }
    }
}

#[cfg(test)]
mod tests;
