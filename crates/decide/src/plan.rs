//! What one request asks of which counters, and what came of it. Pure: rules in, demands out, decisions in, answer out.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use leasehold_limit::check::{
    Answer, Descriptor, DescriptorAnswer, Outcome, Request, RuleAnswer, Source, Verdict,
};
use leasehold_limit::rules::{EDGES_DEFAULT, Lease, Matched, OnUnavailable, Rule, RuleBook, Scope};
use leasehold_limit::{Ask, Decision, KeySecret, Limit, RuleKeys};
use leasehold_model::{Nanos, RequestId, RulesVersion, Stamp};
use leasehold_shard::{Acquire, Acquired, Batch, Command, Demand, LimitSpec};

use crate::region::counter;
use crate::{CheckError, Proposal, Region, Terms, bounds};

/// Stands for the rule in the keys of overridden descriptors. No rule file can spell it, so no rule's counters are theirs.
const OVERRIDE_KEYS: &str = "\0override";

/// One request on its way to an answer.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Outcomes are `Unavailable` until the counter has answered.
    descriptors: Vec<DescriptorAnswer>,
    limits: Vec<LimitSpec>,
    /// One for each of `limits`.
    terms: Vec<Terms>,
    demands: Vec<Demand>,
    /// Where each demand's outcome goes.
    slots: Vec<Slot>,
    version: RulesVersion,
    since: Stamp,
}

/// What was answered of every demand, and by whom.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) acquired: Acquired,
    /// Empty: the owner, all of it.
    pub(crate) sources: Vec<Source>,
}

impl Told {
    /// Replaces what would be taken by what was seen of counters that nothing is taken from. A refusal stays one: it is a
    /// shadow's.
    pub(crate) fn see(&mut self, seen: &Self) {
        if self.sources.len() < seen.sources.len() {
            self.sources.resize(seen.sources.len(), Source::Owner);
        }
        let admitted = self.acquired.decisions.iter_mut().zip(&seen.acquired.decisions).enumerate();
        for (index, (asked, seen_one)) in admitted.filter(|(_, (asked, _))| asked.allowed) {
            *asked = *seen_one;
            if let Some(source) = self.sources.get_mut(index) {
                *source = seen.sources.get(index).copied().unwrap_or_default();
            }
        }
    }
}

/// The place of one demand in the answer.
#[derive(Clone, Copy, Debug)]
struct Slot {
    descriptor: usize,
    /// Among the descriptor's rules.
    place: usize,
    peek: bool,
}

impl Plan {
    /// Every rule that matches any descriptor, with the demands on its counters.
    ///
    /// # Errors
    /// The request asks more counters than `demands_max`.
    pub(crate) fn new(
        book: &RuleBook,
        region: Option<&Region>,
        request: &Request<'_>,
        secret: &KeySecret,
        demands_max: usize,
    ) -> Result<Self, CheckError> {
        let mut plan = Self {
            descriptors: Vec::with_capacity(request.descriptors.len()),
            limits: Vec::new(),
            terms: Vec::new(),
            demands: Vec::new(),
            slots: Vec::new(),
            version: book.version,
            since: book.since,
        };
        for descriptor in &request.descriptors {
            let matched = match &descriptor.limit_override {
                None => book.matching(request.domain, &descriptor.attributes).unwrap_or_default(),
                Some(limit) => overridden(book, request.domain, descriptor, limit, secret),
            };
            plan.add(matched, region, Ask::exactly(descriptor.cost));
        }
        bounds::at_most("descriptors", plan.demands.len(), demands_max, "counters")?;
        Ok(plan)
    }

    fn add(&mut self, matched: Vec<Matched>, region: Option<&Region>, ask: Ask) {
        let descriptor = self.descriptors.len();
        self.limits.reserve(matched.len());
        self.terms.reserve(matched.len());
        self.demands.reserve(matched.len());
        self.slots.reserve(matched.len());
        let mut answered = Vec::with_capacity(matched.len());
        for matched in matched {
            let outcome = match matched.key {
                None => Outcome::Unidentified,
                Some(key) => {
                    let key = counter(region, &matched.rule, key);
                    let limit = self.limit(&matched);
                    self.demands.push(Demand { key, limit, ask, shadow: matched.rule.shadow });
                    self.slots.push(Slot { descriptor, place: answered.len(), peek: ask.is_peek() });
                    Outcome::Unavailable
                }
            };
            let Matched { rule, limit, .. } = matched;
            answered.push(RuleAnswer { rule, limit, outcome, source: Source::Owner });
        }
        self.descriptors.push(DescriptorAnswer { matched: answered });
    }

    /// The place in the batch of the limit that its owner decides by. Few enough to look at all; those equal in numbers and
    /// terms are one, as a batch carries each once.
    fn limit(&mut self, matched: &Matched) -> u32 {
        let (rule, limit, terms) = (&matched.rule, matched.owner(), Terms::of(matched));
        let same = |(spec, of): (&LimitSpec, &Terms)| {
            *of == terms && spec.tenant == rule.tenant && spec.limit == **limit
        };
        let place = self.limits.iter().zip(&self.terms).position(same).unwrap_or_else(|| {
            self.terms.push(terms);
            let limit = Limit::clone(limit);
            self.limits.push(LimitSpec {
                tenant: rule.tenant,
                version: self.version,
                since: self.since,
                limit,
            });
            self.limits.len() - 1
        });
        u32::try_from(place).expect("a request has far fewer limits")
    }

    pub(crate) fn limits(&self) -> &[LimitSpec] {
        &self.limits
    }

    pub(crate) fn terms(&self) -> &[Terms] {
        &self.terms
    }

    /// What is still to be asked.
    pub(crate) fn demands(&self) -> &[Demand] {
        &self.demands
    }

    pub(crate) fn only_peeks(&self) -> bool {
        self.demands.iter().all(|demand| demand.ask.is_peek())
    }

    /// Whether it is refused whatever the counters still to be asked say.
    pub(crate) fn is_refused(&self) -> bool {
        self.descriptors.iter().enumerate().any(|(descriptor, answer)| {
            let asked =
                |place| self.slots.iter().any(|slot| (slot.descriptor, slot.place) == (descriptor, place));
            answer.matched.iter().enumerate().any(|(place, answer)| answer.violated() && !asked(place))
        })
    }

    /// The demands as a proposal, moved out of the plan: it is on every request's way.
    pub(crate) fn take_proposal(&mut self, id: Option<RequestId>) -> Proposal {
        let acquire = Acquire { id, demands: mem::take(&mut self.demands), remember_denial: true };
        let batch = Batch {
            limits: mem::take(&mut self.limits),
            commands: vec![Command::Acquire(acquire)],
            ..Batch::default()
        };
        Proposal { batch, terms: mem::take(&mut self.terms) }
    }

    /// The demands as an acquire that is only previewed.
    pub(crate) fn as_asked(&self) -> Acquire {
        Acquire { id: None, demands: self.demands.clone(), remember_denial: true }
    }

    /// The demands without what they would take.
    pub(crate) fn as_peeks(&self) -> Acquire {
        let peek = |demand: &Demand| Demand { ask: Ask::PEEK, ..*demand };
        Acquire { id: None, demands: self.demands.iter().map(peek).collect(), remember_denial: true }
    }

    /// The demands of a check of one unit, whose answer a peek foretells.
    pub(crate) fn as_checks(&self) -> Acquire {
        let check = |demand: &Demand| Demand { ask: Ask::exactly(1), ..*demand };
        Acquire { id: None, demands: self.demands.iter().map(check).collect(), remember_denial: true }
    }

    /// Of `checks`, lets go those that [`Self::let_go_of_new`] would of a check.
    pub(crate) fn let_go_of_new_among(&self, checks: &mut Acquire, looks: &[Decision]) {
        for (index, (demand, look)) in checks.demands.iter_mut().zip(looks).enumerate() {
            demand.shadow |= self.is_new(index, look) && self.may_go_uncharged(index);
        }
    }

    /// Notes that these demands, by place, would find no room for the counter they need.
    pub(crate) fn no_room_for(&mut self, places: &[usize]) {
        for &place in places {
            self.answer_mut(place).outcome = Outcome::Unavailable;
        }
    }

    /// Lets what needs a counter that isn't there go uncharged, where the rule allows that. `looks` are the counters as
    /// they are, a demand each.
    ///
    /// To the counters it is a shadow: charged if there is room, and no hindrance to the rest if there isn't. The request
    /// stays the same under its id, so that a retry is told what the first try was.
    pub(crate) fn let_go_of_new(&mut self, looks: &[Decision]) {
        for (index, look) in looks.iter().enumerate() {
            if self.needs_room(index, look) && self.may_go_uncharged(index) {
                self.demands[index].shadow = true;
            }
        }
    }

    /// Leaves unasked what needs a counter that isn't there and refuses for that; its outcome stays `Unavailable`.
    pub(crate) fn give_up_new(&mut self, looks: &[Decision]) {
        let given_up: Vec<_> =
            looks.iter().enumerate().map(|(index, look)| self.needs_room(index, look)).collect();
        let mut each = given_up.iter();
        self.demands.retain(|_| each.next() != Some(&true));
        let mut each = given_up.iter();
        self.slots.retain(|_| each.next() != Some(&true));
    }

    fn needs_room(&self, index: usize, look: &Decision) -> bool {
        self.is_new(index, look) && !self.slots[index].peek
    }

    /// A counter that isn't there looks like a fresh one. One that is fresh and there refuses nothing either. A shadow's
    /// hinders nobody.
    pub(crate) fn is_new(&self, index: usize, look: &Decision) -> bool {
        look.reset_after == Nanos::ZERO && !self.demands[index].shadow
    }

    pub(crate) fn may_go_uncharged(&self, index: usize) -> bool {
        self.answer(index).rule.on_unavailable == OnUnavailable::Allow
    }

    /// Notes what the counters said of every demand, in order.
    ///
    /// What they said may be remembered from before rules changed their `shadow`. Then the flags of that time are shown,
    /// so that a retry is answered as it was charged.
    pub(crate) fn decided(&mut self, Told { acquired, sources }: &Told) {
        debug_assert_eq!(acquired.decisions.len(), self.slots.len());
        let mut refused = false;
        for (index, decision) in acquired.decisions.iter().enumerate().take(self.slots.len()) {
            let answer = self.answer_mut(index);
            answer.outcome = Outcome::Decided(*decision);
            answer.source = sources.get(index).copied().unwrap_or_default();
            refused |= answer.violated();
        }
        if acquired.admitted == refused {
            self.show_as_shadow(acquired.admitted);
        }
    }

    /// As [`Self::decided`], of demands that were taken: an enforced one that got nothing of what was admitted was let go.
    pub(crate) fn taken(&mut self, told: &Told) {
        self.decided(told);
        let Told { acquired, .. } = told;
        for (index, decision) in acquired.decisions.iter().enumerate().take(self.slots.len()) {
            let nothing = decision.allowed && decision.granted == 0 && !self.slots[index].peek;
            let answer = self.answer_mut(index);
            if acquired.admitted && nothing && !answer.rule.shadow {
                answer.outcome = Outcome::Unavailable;
            }
        }
    }

    /// Whether anything may be set aside for the limits that have not been asked.
    pub(crate) fn sets_aside(&self) -> bool {
        let unasked = |answer: &&RuleAnswer| answer.outcome == Outcome::Unavailable;
        let mut answers = self.descriptors.iter().flat_map(|descriptor| &descriptor.matched).filter(unasked);
        answers.any(|answer| answer.rule.sets_aside())
    }

    /// Notes what stands in for counters that could not be asked, a demand each, where the rule has something set aside.
    pub(crate) fn stood_in(&mut self, decisions: &[Option<Decision>]) {
        for (index, decision) in decisions.iter().enumerate().take(self.slots.len()) {
            let answer = self.answer_mut(index);
            if let Some(decision) = decision
                && answer.rule.sets_aside()
            {
                answer.outcome = Outcome::Decided(*decision);
                answer.source = Source::Fallback;
            }
        }
    }

    fn show_as_shadow(&mut self, shadow: bool) {
        for index in 0..self.slots.len() {
            let answer = self.answer_mut(index);
            if answer.refused() {
                answer.rule = Arc::new(Rule { shadow, ..Rule::clone(&answer.rule) });
            }
        }
    }

    fn answer(&self, index: usize) -> &RuleAnswer {
        let Slot { descriptor, place, .. } = self.slots[index];
        &self.descriptors[descriptor].matched[place]
    }

    fn answer_mut(&mut self, index: usize) -> &mut RuleAnswer {
        let Slot { descriptor, place, .. } = self.slots[index];
        &mut self.descriptors[descriptor].matched[place]
    }

    pub(crate) fn into_answer(self) -> Answer {
        let mut verdict = Verdict::Allowed;
        let mut degraded = false;
        for answer in self.descriptors.iter().flat_map(|descriptor| &descriptor.matched) {
            let unavailable = answer.outcome == Outcome::Unavailable;
            degraded |= answer.degraded();
            // A limit that is known to be exceeded says more than one that can't be asked.
            if answer.violated() && verdict != Verdict::OverLimit {
                verdict = if unavailable { Verdict::Unavailable } else { Verdict::OverLimit };
            }
        }
        Answer { verdict, descriptors: self.descriptors, degraded, rules_version: self.version }
    }
}

/// The numbers that came with a descriptor, as a nameless rule of its own that replaces the domain's. Counters of one
/// period are no counters of another.
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
    key.push(Some(&limit.period().0.to_le_bytes()));
    for attribute in &descriptor.attributes {
        key.push(Some(attribute.name.as_bytes()));
        key.push(Some(attribute.value));
    }
    let limit = Arc::new(limit.clone());
    let rule = Rule {
        name: Arc::from(""),
        domain: Arc::clone(domain),
        tenant: secret.tenant(domain),
        when: Vec::new(),
        per: Vec::new(),
        limit: Arc::clone(&limit),
        overrides: BTreeMap::new(),
        keys,
        lease: Lease::Never,
        max_overshoot_ppm: 0,
        local_share_ppm: 0,
        edges: EDGES_DEFAULT,
        escrow: None,
        scope: Scope::Global,
        on_unavailable: OnUnavailable::Allow,
        shadow: false,
    };
    vec![Matched { rule: Arc::new(rule), limit, escrow: None, key: Some(key.finish()) }]
}
