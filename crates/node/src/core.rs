//! What the doors stand on: rules, authority and metrics, and whether traffic should come here.

use std::sync::Arc;

use leasehold_front::Readiness;
use leasehold_model::BootTime;
use parking_lot::RwLock;

use crate::authority::Authority;
use crate::clock;
use crate::fullness::Fullness;
use crate::metrics::Metrics;
use crate::rules::RulesInForce;

/// The process behind the doors.
#[derive(Debug)]
pub(crate) struct Core<A> {
    pub(crate) rules: Arc<RulesInForce>,
    pub(crate) authority: Arc<A>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) started: BootTime,
    /// Counters that one request may be charged to; more are refused as invalid.
    pub(crate) demands_max: usize,
    pub(crate) fullness: Fullness,
    readiness: RwLock<Readiness>,
}

impl<A: Authority> Core<A> {
    pub(crate) fn new(
        rules: Arc<RulesInForce>,
        authority: A,
        metrics: Arc<Metrics>,
        demands_max: usize,
    ) -> Self {
        Self {
            rules,
            authority: Arc::new(authority),
            metrics,
            started: clock::boot(),
            demands_max,
            fullness: Fullness::default(),
            readiness: RwLock::new(Readiness::NotReady("starting".to_owned())),
        }
    }

    pub(crate) fn readiness(&self) -> Readiness {
        self.readiness.read().clone()
    }

    pub(crate) fn set_readiness(&self, readiness: Readiness) {
        *self.readiness.write() = readiness;
    }
}
