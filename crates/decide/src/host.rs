//! What an engine needs of the process that it decides in: the rules in force, and somebody who counts.

use std::sync::Arc;

use leasehold_limit::KeySecret;
use leasehold_limit::check::{Answer, Request};
use leasehold_limit::rules::{Matched, RuleBook};
use leasehold_model::{Key, Nanos};

use crate::{Readiness, Region, region};

/// The process around an engine. It is on the way of every request: what takes longer than a few atomics is done when the
/// rules are swapped.
pub trait Host: Send + Sync + 'static {
    /// What is resolved for a rule set when it comes into force, such as the counters of its rules.
    type Meters: Send + Sync;

    /// The rule set in force. `None`: it isn't known yet.
    fn active(&self) -> Option<Arc<Active<Self::Meters>>>;

    /// The secret that keys counter names, which request ids are made from as well.
    fn secret(&self) -> KeySecret;

    /// Whether traffic should come here, whatever the authority says.
    fn readiness(&self) -> Readiness;

    /// Counts one decided request, peeks aside.
    fn decided(&self, meters: &Self::Meters, answer: &Answer, took: Nanos);

    /// Sees one decided request, peeks aside, with what it asked for.
    fn asked(&self, active: &Active<Self::Meters>, request: &Request<'_>, answer: &Answer) {
        let _ = (active, request, answer);
    }

    /// Counts one request that no rule applied to.
    fn unmatched(&self, domain_known: bool);

    /// Notes a request that found no room for a counter.
    fn full(&self, domain: &str);
}

/// One rule set, with what was resolved when it came into force.
#[derive(Debug)]
pub struct Active<M> {
    /// The rules.
    pub book: Arc<RuleBook>,
    /// What its host counts by.
    pub meters: M,
    /// Keys the names of its counters.
    pub secret: KeySecret,
    /// Where it is decided. `None`: nowhere in particular, and limits with `scope: region` count as one.
    pub region: Option<Region>,
}

impl<M> Active<M> {
    /// The counter that a matched rule is charged to here. `None`: it refuses what lacks an attribute.
    #[must_use]
    pub fn counter(&self, matched: &Matched) -> Option<Key> {
        matched.key.map(|key| region::counter(self.region.as_ref(), &matched.rule, key))
    }
}
