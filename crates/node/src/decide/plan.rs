//! What one request asks of which counters, and what came of it. Pure: rules in, demands out, decisions in, answer out.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use leasehold_front::{CheckError, bounds};
use leasehold_limit::check::{Answer, Descriptor, DescriptorAnswer, Outcome, Request, RuleAnswer, Verdict};
use leasehold_limit::rules::{Lease, Matched, OnUnavailable, Rule, RuleBook, Scope};
use leasehold_limit::{Ask, Decision, KeySecret, Limit, RuleKeys};
use leasehold_model::{RequestId, RulesVersion};
use leasehold_shard::{Acquire, Batch, Command, Demand, LimitSpec};

use crate::metrics::OVERRIDE_RULE;

/// Stands for the rule in the keys of overridden descriptors. No rule file can spell it, so no rule's counters are theirs.
const OVERRIDE_KEYS: &str = "\0override";

/// One request on its way to an answer.
#[derive(Debug)]
pub(super) struct Plan {
    /// Outcomes are `Unavailable` until the counter has answered.
    descriptors: Vec<DescriptorAnswer>,
    limits: Vec<LimitSpec>,
    demands: Vec<Demand>,
    /// Where each demand's outcome goes: descriptor, then position in it.
    slots: Vec<(usize, usize)>,
    version: RulesVersion,
}

impl Plan {
    /// Every rule that matches any descriptor, with the demands on its counters.
    ///
    /// # Errors
    /// The request asks more counters than `demands_max`.
    pub(super) fn new(
        book: &RuleBook,
        request: &Request<'_>,
        secret: &KeySecret,
        demands_max: usize,
    ) -> Result<Self, CheckError> {
        let mut plan = Self {
            descriptors: Vec::with_capacity(request.descriptors.len()),
            limits: Vec::new(),
            demands: Vec::new(),
            slots: Vec::new(),
            version: book.version,
        };
        for descriptor in &request.descriptors {
            let matched = match &descriptor.limit_override {
                None => book.matching(request.domain, &descriptor.attributes).unwrap_or_default(),
                Some(limit) => overridden(book, request.domain, descriptor, limit, secret),
            };
            plan.add(matched, Ask::exactly(descriptor.cost));
        }
        bounds::at_most("descriptors", plan.demands.len(), demands_max, "counters")?;
        Ok(plan)
    }

    fn add(&mut self, matched: Vec<Matched>, ask: Ask) {
        let descriptor = self.descriptors.len();
        let mut answered = Vec::with_capacity(matched.len());
        for Matched { rule, limit, key } in matched {
            let outcome = match key {
                None => Outcome::Unidentified,
                Some(key) => {
                    let limit = self.limit(&rule, &limit);
                    self.demands.push(Demand { key, limit, ask, shadow: rule.shadow });
                    self.slots.push((descriptor, answered.len()));
                    Outcome::Unavailable
                }
            };
            answered.push(RuleAnswer { rule, limit, outcome });
        }
        self.descriptors.push(DescriptorAnswer { matched: answered });
    }

    /// The limit's place in the batch. Few enough to look at all; equal ones are one, as a batch carries each once.
    fn limit(&mut self, rule: &Rule, limit: &Arc<Limit>) -> u32 {
        let same = |spec: &LimitSpec| spec.tenant == rule.tenant && spec.limit == **limit;
        let place = self.limits.iter().position(same).unwrap_or_else(|| {
            let limit = Limit::clone(limit);
            self.limits.push(LimitSpec { tenant: rule.tenant, version: self.version, limit });
            self.limits.len() - 1
        });
        u32::try_from(place).expect("a request has far fewer limits")
    }

    pub(super) fn limits(&self) -> &[LimitSpec] {
        &self.limits
    }

    /// What is still to be asked.
    pub(super) fn demands(&self) -> &[Demand] {
        &self.demands
    }

    pub(super) fn only_peeks(&self) -> bool {
        self.demands.iter().all(|demand| demand.ask.is_peek())
    }

    /// Whether it is refused whatever the counters still to be asked say.
    pub(super) fn is_refused(&self) -> bool {
        self.descriptors.iter().enumerate().any(|(descriptor, answer)| {
            let asked = |place| self.slots.contains(&(descriptor, place));
            answer.matched.iter().enumerate().any(|(place, answer)| answer.violated() && !asked(place))
        })
    }

    /// The demands as a batch, moved out of the plan: it is on every request's way.
    pub(super) fn take_batch(&mut self, id: Option<RequestId>) -> Batch {
        let acquire = Acquire { id, demands: mem::take(&mut self.demands) };
        Batch { limits: mem::take(&mut self.limits), commands: vec![Command::Acquire(acquire)] }
    }

    /// The demands as an acquire that is only previewed.
    pub(super) fn as_asked(&self) -> Acquire {
        Acquire { id: None, demands: self.demands.clone() }
    }

    /// The demands without what they would take.
    pub(super) fn as_peeks(&self) -> Acquire {
        let peek = |demand: &Demand| Demand { ask: Ask::PEEK, ..*demand };
        Acquire { id: None, demands: self.demands.iter().map(peek).collect() }
    }

    /// Leaves demands unasked that aren't `held`; their outcome stays `Unavailable`.
    pub(super) fn give_up_all_but(&mut self, held: &[bool]) {
        let mut keep = held.iter();
        self.demands.retain(|_| keep.next().copied().unwrap_or(false));
        let mut keep = held.iter();
        self.slots.retain(|_| keep.next().copied().unwrap_or(false));
    }

    /// Notes what the counters said: one decision a demand, in order.
    pub(super) fn decided(&mut self, decisions: &[Decision]) {
        debug_assert_eq!(decisions.len(), self.slots.len());
        for (&(descriptor, place), decision) in self.slots.iter().zip(decisions) {
            self.descriptors[descriptor].matched[place].outcome = Outcome::Decided(*decision);
        }
    }

    pub(super) fn into_answer(self) -> Answer {
        let mut verdict = Verdict::Allowed;
        let mut degraded = false;
        for answer in self.descriptors.iter().flat_map(|descriptor| &descriptor.matched) {
            let unavailable = answer.outcome == Outcome::Unavailable;
            degraded |= unavailable;
            // A limit that is known to be exceeded says more than one that can't be asked.
            if answer.violated() && verdict != Verdict::OverLimit {
                verdict = if unavailable { Verdict::Unavailable } else { Verdict::OverLimit };
            }
        }
        Answer { verdict, descriptors: self.descriptors, degraded, rules_version: self.version }
    }
}

/// The numbers that came with a descriptor, as a rule of its own that replaces the domain's.
///
/// Only in a domain that has rules: else callers could open tenants, each with its own share of counters, at will.
fn overridden(
    book: &RuleBook,
    domain: &str,
    descriptor: &Descriptor<'_>,
    limit: &Limit,
    secret: &KeySecret,
) -> Vec<Matched> {
    let Some((domain, _)) = book.domains.get_key_value(domain) else { return Vec::new() };
    let keys = RuleKeys::new(secret, domain, OVERRIDE_KEYS);
    let mut key = keys.start();
    for attribute in &descriptor.attributes {
        key.push(Some(attribute.name.as_bytes()));
        key.push(Some(attribute.value));
    }
    let limit = Arc::new(limit.clone());
    let rule = Rule {
        name: Arc::from(OVERRIDE_RULE),
        domain: Arc::clone(domain),
        tenant: secret.tenant(domain),
        when: Vec::new(),
        per: Vec::new(),
        limit: Arc::clone(&limit),
        overrides: BTreeMap::new(),
        keys,
        lease: Lease::Never,
        max_overshoot_ppm: 0,
        scope: Scope::Global,
        on_unavailable: OnUnavailable::Allow,
        shadow: false,
    };
    vec![Matched { rule: Arc::new(rule), limit, key: Some(key.finish()) }]
}
