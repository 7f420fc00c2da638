//! Counters by rule: resolved once a rule set, so that a request finds them by its rule's address.

use std::collections::HashSet;
use std::sync::Arc;

use leasehold_limit::check::{Outcome, RuleAnswer, Source};
use leasehold_limit::rules::{OnUnavailable, Rule, RuleBook};
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// The label under which numbers that came with a request are counted. No rule can be named so: names begin with a letter.
pub(super) const OVERRIDE_LABEL: &str = "(override)";

/// Whoever decides by units, in the order of a rule's counters.
const SOURCES: [SourceLabel; 4] =
    [SourceLabel::owner, SourceLabel::lease, SourceLabel::deny_cache, SourceLabel::fallback];

/// The families that have a series a rule.
#[derive(Debug)]
pub(super) struct RuleFamilies {
    decisions: Family<DecisionLabels, Counter>,
    degraded: Family<DegradedLabels, Counter>,
}

/// The counters of the rules in force.
#[derive(Debug, Default)]
pub struct RuleMeters {
    /// By the rule's address, ascending. The rule set that holds these also holds the rules: addresses stay theirs.
    rules: Vec<(usize, RuleMeter)>,
    /// By domain, ascending: limits that came with a request have no rule in the set.
    overrides: Vec<(Arc<str>, RuleMeter)>,
}

#[derive(Debug)]
struct RuleMeter {
    /// By who decided.
    admitted: [Counter; SOURCES.len()],
    refused: [Counter; SOURCES.len()],
    unidentified: Counter,
    declared: Counter,
    degraded: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DecisionLabels {
    domain: Arc<str>,
    rule: Arc<str>,
    decision: DecisionLabel,
    source: SourceLabel,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DegradedLabels {
    domain: Arc<str>,
    rule: Arc<str>,
    mode: ModeLabel,
}

/// What a rule said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[expect(
    non_camel_case_types,
    reason = "the derive writes variants as they are spelled, and these are label values"
)]
enum DecisionLabel {
    allowed,
    over_limit,
    /// A shadow rule's refusal: recorded, not enforced.
    shadow_over_limit,
    /// It could not be asked, and refuses for that.
    unavailable,
    /// An attribute that tells counters apart was absent.
    unidentified,
}

/// Who said it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[expect(
    non_camel_case_types,
    reason = "the derive writes variants as they are spelled, and these are label values"
)]
enum SourceLabel {
    /// The counter.
    owner,
    /// Tokens that were lent before.
    lease,
    /// A refusal that is remembered until its time.
    deny_cache,
    /// What is set aside for when the counter can't be asked.
    fallback,
    /// The rule's own words for when there is no counter to ask.
    declared,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[expect(
    non_camel_case_types,
    reason = "the derive writes variants as they are spelled, and these are label values"
)]
enum ModeLabel {
    allow,
    deny,
    local,
}

impl RuleFamilies {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let families = Self { decisions: Family::default(), degraded: Family::default() };
        let help = "What each rule said of the requests it applied to, peeks aside";
        registry.register("leasehold_decisions", help, families.decisions.clone());
        let help = "Decisions by what stands in for a counter that could not be asked";
        registry.register("leasehold_degraded", help, families.degraded.clone());
        families
    }

    pub(super) fn meters(&self, book: &RuleBook) -> RuleMeters {
        let mut meters = RuleMeters::default();
        for domain in book.domains.values() {
            for rule in &domain.rules {
                let labels = Labels::of(rule);
                meters.rules.push((address(rule), self.meter(&labels)));
            }
            let labels = Labels::of_overrides(&domain.name);
            meters.overrides.push((Arc::clone(&domain.name), self.meter(&labels)));
        }
        meters.rules.sort_by_key(|(address, _)| *address);
        meters.overrides.sort_by(|(a, _), (b, _)| a.cmp(b));
        meters
    }

    pub(super) fn forget_rules_missing_from(&self, old: &RuleBook, new: &RuleBook) {
        // Series, not rules, are compared: a rule whose `shadow` changed keeps some of them.
        let kept: HashSet<_> = every_rule(new).flat_map(|labels| labels.decisions()).collect();
        for gone in every_rule(old).flat_map(|labels| labels.decisions()).filter(|l| !kept.contains(l)) {
            self.decisions.remove(&gone);
        }
        let kept: HashSet<_> = every_rule(new).map(|labels| labels.degraded()).collect();
        for gone in every_rule(old).map(|labels| labels.degraded()).filter(|l| !kept.contains(l)) {
            self.degraded.remove(&gone);
        }
    }

    fn meter(&self, labels: &Labels) -> RuleMeter {
        let counter = |labels: DecisionLabels| self.decisions.get_or_create_owned(&labels);
        let admitted = labels.admitted().map(counter);
        let refused = labels.refused().map(counter);
        let [unidentified, declared] = labels.declared().map(counter);
        let degraded = self.degraded.get_or_create_owned(&labels.degraded());
        RuleMeter { admitted, refused, unidentified, declared, degraded }
    }
}

impl RuleMeters {
    /// Counts what one rule said.
    pub(super) fn count(&self, answer: &RuleAnswer) {
        let Some(meter) = self.find(&answer.rule) else { return };
        if answer.degraded() {
            meter.degraded.inc();
        }
        match answer.outcome {
            Outcome::Decided(decision) if decision.allowed => meter.admitted[place(answer.source)].inc(),
            Outcome::Decided(_) => meter.refused[place(answer.source)].inc(),
            Outcome::Unidentified => meter.unidentified.inc(),
            Outcome::Unavailable => meter.declared.inc(),
        };
    }

    fn find(&self, rule: &Arc<Rule>) -> Option<&RuleMeter> {
        let address = address(rule);
        if let Ok(index) = self.rules.binary_search_by_key(&address, |(address, _)| *address) {
            return Some(&self.rules[index].1);
        }
        // A rule of another set, or one shown as it was when a remembered reply was made: counted then.
        if !rule.name.is_empty() {
            return None;
        }
        let index = self.overrides.binary_search_by(|(domain, _)| domain.cmp(&rule.domain)).ok()?;
        Some(&self.overrides[index].1)
    }
}

fn every_rule(book: &RuleBook) -> impl Iterator<Item = Labels> {
    let rules = book.domains.values().flat_map(|domain| &domain.rules).map(|rule| Labels::of(rule));
    rules.chain(book.domains.keys().map(Labels::of_overrides))
}

/// Of a source among [`SOURCES`].
const fn place(source: Source) -> usize {
    match source {
        Source::Owner => 0,
        Source::Lease => 1,
        Source::DenyCache => 2,
        Source::Fallback => 3,
    }
}

fn address(rule: &Arc<Rule>) -> usize {
    Arc::as_ptr(rule).addr()
}

/// What the label values of one rule follow from.
struct Labels {
    domain: Arc<str>,
    rule: Arc<str>,
    shadow: bool,
    mode: ModeLabel,
}

impl Labels {
    fn of(rule: &Rule) -> Self {
        let mode = match rule.on_unavailable {
            OnUnavailable::Allow => ModeLabel::allow,
            OnUnavailable::Deny => ModeLabel::deny,
            OnUnavailable::Local => ModeLabel::local,
        };
        Self { domain: Arc::clone(&rule.domain), rule: Arc::clone(&rule.name), shadow: rule.shadow, mode }
    }

    fn of_overrides(domain: &Arc<str>) -> Self {
        let mode = ModeLabel::allow;
        Self { domain: Arc::clone(domain), rule: Arc::from(OVERRIDE_LABEL), shadow: false, mode }
    }

    fn decisions(&self) -> impl Iterator<Item = DecisionLabels> + use<> {
        self.admitted().into_iter().chain(self.refused()).chain(self.declared())
    }

    fn admitted(&self) -> [DecisionLabels; SOURCES.len()] {
        SOURCES.map(|source| self.decision(DecisionLabel::allowed, source))
    }

    fn refused(&self) -> [DecisionLabels; SOURCES.len()] {
        let refused = if self.shadow { DecisionLabel::shadow_over_limit } else { DecisionLabel::over_limit };
        SOURCES.map(|source| self.decision(refused, source))
    }

    /// What has no counter: unidentified, and what the rule declares.
    fn declared(&self) -> [DecisionLabels; 2] {
        let declared = match self.mode {
            ModeLabel::allow => DecisionLabel::allowed,
            ModeLabel::deny | ModeLabel::local => DecisionLabel::unavailable,
        };
        [DecisionLabel::unidentified, declared].map(|decision| self.decision(decision, SourceLabel::declared))
    }

    fn decision(&self, decision: DecisionLabel, source: SourceLabel) -> DecisionLabels {
        DecisionLabels { domain: Arc::clone(&self.domain), rule: Arc::clone(&self.rule), decision, source }
    }

    fn degraded(&self) -> DegradedLabels {
        DegradedLabels { domain: Arc::clone(&self.domain), rule: Arc::clone(&self.rule), mode: self.mode }
    }
}
