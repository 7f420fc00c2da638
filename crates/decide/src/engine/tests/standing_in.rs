//! What stands in for the owner, and who is said to have decided.

use leasehold_limit::Share;
use leasehold_limit::check::{Attribute, Outcome, Source, Verdict};
use leasehold_limit::rules::{Lease, OnUnavailable};
use leasehold_shard::{Bounds, LimitSpec};
use parking_lot::Mutex;

use super::support::*;
use super::*;
use crate::{ProposeError, Terms};

/// Cut off from its owner. Of each limit that sets something aside, so many units are.
struct CutOff {
    units: u64,
    taken: Mutex<u64>,
}

impl CutOff {
    const fn with(units: u64) -> Self {
        Self { units, taken: Mutex::new(0) }
    }
}

impl Authority for CutOff {
    fn patience(&self) -> Option<Duration> {
        None
    }

    async fn propose(&self, _: Proposal, _: Option<Instant>) -> Result<Proposed, ProposeError> {
        Err(ProposeError::Unreachable)
    }

    async fn preview(
        &self,
        _: &[LimitSpec],
        _: &[Terms],
        _: &Acquire,
        _: Option<Instant>,
    ) -> Result<Proposed, ProposeError> {
        Err(ProposeError::Unreachable)
    }

    fn stand_in(&self, acquire: &Acquire, limits: &[LimitSpec], terms: &[Terms]) -> Vec<Option<Decision>> {
        assert_eq!(terms.len(), limits.len(), "terms for each limit");
        let mut taken = self.taken.lock();
        let fits = |units: u64| *taken + units <= self.units;
        let terms = |index: u32| terms[usize::try_from(index).expect("small")];
        let pass = acquire.demands.iter().all(|demand| {
            let of = terms(demand.limit);
            demand.shadow || if of.sets_aside() { fits(demand.ask.min.max(1)) } else { of.lets_pass() }
        });
        let decided = acquire.demands.iter().map(|demand| {
            let allowed = fits(demand.ask.min.max(1));
            terms(demand.limit).sets_aside().then_some(Decision {
                allowed,
                granted: if pass && allowed { demand.ask.max } else { 0 },
                remaining: 0,
                retry_after: (!allowed).then_some(leasehold_limit::RetryAfter::Never),
                reset_after: Nanos::ZERO,
                next_unit_after: Nanos::ZERO,
                wait: None,
            })
        });
        let decided: Vec<_> = decided.collect();
        *taken += decided.iter().flatten().map(|decision| decision.granted).sum::<u64>();
        decided
    }

    fn health(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Rules a, b, … with these fields beside their limit.
fn rules(fields: &[&str]) -> String {
    let rule = |(name, fields): (char, &&str)| format!("  - {{ name: {name}, limit: 10/day, {fields} }}\n");
    let rules: String = ('a'..).zip(fields).map(rule).collect();
    format!("domain: d\nlimits:\n{rules}")
}

/// Checks what is answered while cut off with two units set aside, and how many units that took.
async fn cut_off(fields: &[&str], cost: u64, verdict: Verdict, sources: &[Option<Source>], taken: u64) {
    let engine = engine_on(CutOff::with(2), &rules(fields));
    let answer = engine.check(&request(&[], cost), None).await.expect("an answer");
    assert_eq!((answer.verdict, answer.degraded), (verdict, true), "{answer:?}");
    let by: Vec<_> = answer.matched().map(|one| one.decision().map(|_| one.source)).collect();
    assert_eq!(by, sources);
    assert_eq!(*engine.authority().taken.lock(), taken);
}

/// Half of ten is set aside for the only edge.
const LOCAL: &str = "on_unavailable: local, local_share: 0.5, edges: 1";
const ALLOW: &str = "on_unavailable: allow";
const DENY: &str = "on_unavailable: deny";
const ASIDE: Option<Source> = Some(Source::Fallback);

#[tokio::test]
async fn what_is_set_aside_decides_while_the_owner_is_away_and_is_marked_degraded() {
    cut_off(&[LOCAL], 2, Verdict::Allowed, &[ASIDE], 2).await;
    cut_off(&[LOCAL], 3, Verdict::OverLimit, &[ASIDE], 0).await;
    cut_off(&["max_overshoot: 0.05"], 1, Verdict::Allowed, &[ASIDE], 1).await;
}

#[tokio::test]
async fn a_peek_is_answered_by_what_is_set_aside_and_takes_none_of_it() {
    cut_off(&[LOCAL], 0, Verdict::Allowed, &[ASIDE], 0).await;
}

#[tokio::test]
async fn a_limit_that_only_allows_hinders_nothing_and_one_that_denies_keeps_all_from_being_taken() {
    cut_off(&[LOCAL, ALLOW], 1, Verdict::Allowed, &[ASIDE, None], 1).await;
    cut_off(&[LOCAL, DENY], 1, Verdict::Unavailable, &[ASIDE, None], 0).await;
}

#[tokio::test]
async fn where_no_rule_sets_anything_aside_nobody_is_asked_for_it() {
    cut_off(&[ALLOW], 1, Verdict::Allowed, &[None], 0).await;
    cut_off(&[DENY], 1, Verdict::Unavailable, &[None], 0).await;
}

#[tokio::test]
async fn nothing_set_aside_is_spent_on_a_caller_who_is_gone() {
    let engine = engine_on(CutOff::with(2), &rules(&[LOCAL]));
    let answer = engine.check(&request(&[], 1), Some(Duration::ZERO)).await.expect("an answer");
    assert_eq!((answer.verdict, *engine.authority().taken.lock()), (Verdict::Unavailable, 0));
}

/// Counters, with every answer said to come from elsewhere; keeps the terms that came last.
struct Elsewhere {
    counters: Counters,
    source: Source,
    terms: Mutex<Vec<Terms>>,
}

impl Elsewhere {
    fn by(source: Source) -> Self {
        Self { counters: Counters::new(Bounds::default()), source, terms: Mutex::default() }
    }

    fn say(&self, proposed: Proposed) -> Proposed {
        let Reply::Acquired(acquired) = &proposed.reply else { return proposed };
        Proposed { sources: vec![self.source; acquired.decisions.len()], ..proposed }
    }
}

impl Authority for Elsewhere {
    fn patience(&self) -> Option<Duration> {
        None
    }

    async fn propose(&self, proposal: Proposal, deadline: Option<Instant>) -> Result<Proposed, ProposeError> {
        self.terms.lock().clone_from(&proposal.terms);
        self.counters.propose(proposal, deadline).await.map(|proposed| self.say(proposed))
    }

    async fn preview(
        &self,
        limits: &[LimitSpec],
        terms: &[Terms],
        acquire: &Acquire,
        deadline: Option<Instant>,
    ) -> Result<Proposed, ProposeError> {
        let proposed = self.counters.preview(limits, terms, acquire, deadline).await;
        proposed.map(|proposed| self.say(proposed))
    }

    fn health(&self) -> Result<(), String> {
        Ok(())
    }
}

#[tokio::test]
async fn whoever_decided_is_named_and_only_a_fallback_is_degraded() {
    for source in [Source::Owner, Source::Lease, Source::DenyCache, Source::Fallback] {
        let engine = engine_on(Elsewhere::by(source), TEN_BY_USER);
        for answer in [peek(&engine, &[("user", "u")]).await, check(&engine, &[("user", "u")]).await] {
            assert_eq!(answer.descriptors[0].matched[0].source, source);
            assert_eq!(answer.degraded, source == Source::Fallback);
        }
    }
}

#[tokio::test]
async fn a_request_that_is_refused_anyway_names_who_was_looked_at() {
    let rules = "
domain: d
limits:
  - { name: everybody, limit: 10/day }
  - { name: users, per: [{ attribute: user, absent: deny }], limit: 10/day }
";
    let engine = engine_on(Elsewhere::by(Source::Lease), rules);
    let answer = check(&engine, &[]).await;
    let told: Vec<_> =
        answer.matched().map(|one| (one.outcome == Outcome::Unidentified, one.source)).collect();
    assert_eq!(told, [(false, Source::Lease), (true, Source::Owner)]);
}

#[tokio::test]
async fn rules_of_equal_numbers_share_a_limit_only_if_their_terms_are_equal_too() {
    let engine = engine_on(
        Elsewhere::by(Source::Owner),
        &rules(&[ALLOW, "lease: never", ALLOW, "on_unavailable: local"]),
    );
    check(&engine, &[]).await;
    let terms = engine.authority().terms.lock().clone();
    let said: Vec<_> = terms.iter().map(|terms| (terms.lease, terms.on_unavailable)).collect();
    assert_eq!(
        said,
        [
            (Lease::Auto, OnUnavailable::Allow),
            (Lease::Never, OnUnavailable::Allow),
            (Lease::Auto, OnUnavailable::Local)
        ]
    );
}

#[tokio::test]
async fn an_owner_decides_by_what_is_not_set_aside_and_the_answer_shows_the_declared_limit() {
    let engine = engine_on(Elsewhere::by(Source::Owner), &rules(&[LOCAL]));
    let answer = check(&engine, &[]).await;
    assert_eq!((answer.descriptors[0].matched[0].limit.n(), remaining(&answer)), (10, vec![Some(4)]));
    let terms = engine.authority().terms.lock()[0];
    assert_eq!((terms.local, terms.overshoot, terms.edges), (Some(Share::WHOLE), None, 1));
}

#[tokio::test]
async fn a_reset_needs_no_terms() {
    let engine = engine_on(Elsewhere::by(Source::Owner), TEN_BY_USER);
    check(&engine, &[("user", "u")]).await;
    let attributes = [Attribute { name: "user", value: b"u" }];
    assert_eq!(engine.reset(ResetTarget { domain: "d", attributes: &attributes, rule: None }).await, Ok(1));
}
