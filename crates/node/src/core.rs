//! What the doors stand on: rules, authority and metrics, and whether traffic should come here.

use std::sync::Arc;

use leasehold_front::Readiness;
use leasehold_model::BootTime;

use crate::authority::Authority;
use crate::clock;
use crate::fullness::Fullness;
use crate::gate::Gate;
use crate::metrics::Metrics;
use crate::rules::{Keeper, RulesInForce};

/// The process behind the doors.
#[derive(Debug)]
pub(crate) struct Core<A> {
    pub(crate) rules: Arc<RulesInForce>,
    pub(crate) keeper: Keeper,
    pub(crate) authority: Arc<A>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) started: BootTime,
    /// Counters that one request may be charged to; more are refused as invalid.
    pub(crate) demands_max: usize,
    pub(crate) fullness: Fullness,
    pub(crate) gate: Arc<Gate>,
}

impl<A: Authority> Core<A> {
    pub(crate) fn new(keeper: Keeper, authority: A, metrics: Arc<Metrics>, demands_max: usize) -> Self {
        Self {
            rules: Arc::clone(keeper.in_force()),
            keeper,
            authority: Arc::new(authority),
            metrics,
            started: clock::boot(),
            demands_max,
            fullness: Fullness::default(),
            gate: Arc::new(Gate::closed("starting")),
        }
    }

    pub(crate) fn readiness(&self) -> Readiness {
        match self.gate.get() {
            Readiness::Ready => {
                self.authority.health().map_or_else(Readiness::NotReady, |()| Readiness::Ready)
            }
            closed @ Readiness::NotReady(_) => closed,
        }
    }
}
