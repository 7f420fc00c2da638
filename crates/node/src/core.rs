//! What the doors stand on: an engine over rules, authority and metrics, and whether traffic should come here.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use leasehold_decide::{CheckError, Decider, Engine, Host, Readiness, ResetTarget, TopKeys};
use leasehold_limit::KeySecret;
use leasehold_limit::check::{Answer, Request};
use leasehold_model::{BootTime, Nanos, RequestId};
use leasehold_service::{Fullness, Gate};

use crate::authority::NodeAuthority;
use crate::clock;
use crate::lease_service::EdgeNames;
use crate::metrics::{Metrics, RuleMeters};
use crate::rules::{Active, Keeper, RulesInForce};

/// The process behind the doors.
#[derive(Debug)]
pub(crate) struct Core<A> {
    pub(crate) rules: Arc<RulesInForce>,
    pub(crate) keeper: Keeper,
    pub(crate) authority: Arc<A>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) started: BootTime,
    pub(crate) gate: Arc<Gate>,
    pub(crate) top_keys: Arc<TopKeys>,
    pub(crate) names: Arc<EdgeNames>,
    engine: Engine<A, Base>,
}

/// What the engine decides in.
#[derive(Debug)]
struct Base {
    rules: Arc<RulesInForce>,
    metrics: Arc<Metrics>,
    gate: Arc<Gate>,
    top_keys: Arc<TopKeys>,
    fullness: Fullness,
}

impl<A: NodeAuthority> Core<A> {
    /// Requests may be charged to `demands_max` counters each.
    pub(crate) fn new(
        keeper: Keeper,
        authority: A,
        metrics: Arc<Metrics>,
        top_keys: TopKeys,
        demands_max: usize,
    ) -> Self {
        let rules = Arc::clone(keeper.in_force());
        let authority = Arc::new(authority);
        let gate = Arc::new(Gate::closed("starting"));
        let top_keys = Arc::new(top_keys);
        let base = Base {
            rules: Arc::clone(&rules),
            metrics: Arc::clone(&metrics),
            gate: Arc::clone(&gate),
            top_keys: Arc::clone(&top_keys),
            fullness: Fullness::default(),
        };
        let engine = Engine::new(base, Arc::clone(&authority), demands_max);
        let (started, names) = (clock::boot(), Arc::default());
        Self { rules, keeper, authority, metrics, started, gate, top_keys, names, engine }
    }
}

impl Host for Base {
    type Meters = RuleMeters;

    fn active(&self) -> Option<Arc<Active>> {
        self.rules.active()
    }

    fn secret(&self) -> KeySecret {
        self.rules.secret()
    }

    fn readiness(&self) -> Readiness {
        self.gate.get()
    }

    fn decided(&self, meters: &RuleMeters, answer: &Answer, took: Nanos) {
        self.metrics.decided(meters, answer, took);
    }

    fn asked(&self, active: &Active, request: &Request<'_>, answer: &Answer) {
        if self.top_keys.draws() {
            self.top_keys.see(clock::boot(), active.region.as_ref(), request, answer);
        }
    }

    fn unmatched(&self, domain_known: bool) {
        self.metrics.unmatched(domain_known);
    }

    fn full(&self, domain: &str) {
        self.fullness.note(domain, clock::boot());
    }
}

impl<A: NodeAuthority> Decider for Core<A> {
    fn check<'a>(
        &'a self,
        request: &'a Request<'a>,
        budget: Option<Duration>,
    ) -> impl Future<Output = Result<Answer, CheckError>> + Send + 'a {
        self.engine.check(request, budget)
    }

    fn reset<'a>(
        &'a self,
        target: ResetTarget<'a>,
    ) -> impl Future<Output = Result<u32, CheckError>> + Send + 'a {
        self.engine.reset(target)
    }

    fn request_id(&self, domain: &str, text: &str) -> RequestId {
        self.engine.request_id(domain, text)
    }

    fn readiness(&self) -> Readiness {
        self.engine.readiness()
    }
}

#[cfg(test)]
mod tests;
