//! An engine over one shard whose time stands still, in a host that remembers what it was told.

use leasehold_limit::KeySecret;
use leasehold_limit::check::{Attribute, Descriptor, Verdict};
use leasehold_limit::rules::{RuleBook, parse};
use leasehold_model::{RulesVersion, Stamp};
use leasehold_shard::{Bounds, LimitSpec, Shard};
use parking_lot::Mutex;

use super::*;
use crate::{Active, ProposeError, Terms};

/// When everything happens.
const NOW: Stamp = Stamp(1_800_000_000_000_000_000);

/// A shard behind a lock.
pub(super) struct Counters(Mutex<Shard>);

impl Counters {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self(Mutex::new(Shard::new(bounds)))
    }

    pub(super) fn keys(&self) -> usize {
        self.0.lock().keys()
    }
}

impl Authority for Counters {
    fn patience(&self) -> Option<Duration> {
        None
    }

    async fn propose(&self, proposal: Proposal, _: Option<Instant>) -> Result<Proposed, ProposeError> {
        assert_eq!(proposal.terms.len(), proposal.batch.limits.len(), "terms for each limit");
        let mut replies = self.0.lock().apply(&proposal.batch, NOW);
        Ok(Proposed::by_owner(replies.pop().expect("one command, one reply")))
    }

    async fn preview(
        &self,
        limits: &[LimitSpec],
        terms: &[Terms],
        acquire: &Acquire,
        _: Option<Instant>,
    ) -> Result<Proposed, ProposeError> {
        assert_eq!(terms.len(), limits.len(), "terms for each limit");
        Ok(Proposed::by_owner(self.0.lock().preview(limits, acquire, NOW)))
    }

    fn health(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Rules that a test changes, and what was counted.
pub(super) struct TestHost {
    active: Mutex<Option<Arc<Active<()>>>>,
    /// Where it decides from the next rules on.
    pub(super) region: Mutex<Option<Region>>,
    pub(super) decided: Mutex<Vec<Verdict>>,
    pub(super) unmatched: Mutex<Vec<bool>>,
}

impl TestHost {
    /// One whose rules aren't known yet.
    pub(super) fn unknown() -> Self {
        Self {
            active: Mutex::default(),
            region: Mutex::default(),
            decided: Mutex::default(),
            unmatched: Mutex::default(),
        }
    }

    pub(super) fn of(rules: &str) -> Self {
        let host = Self::unknown();
        host.put(rules);
        host
    }

    /// Puts rules in force.
    pub(super) fn put(&self, rules: &str) {
        let secret = self.secret();
        let domain = parse("rules", rules, &secret).expect("valid rules");
        let mut active = self.active.lock();
        let version = active.as_ref().map_or(1, |active| active.book.version.0 + 1);
        let book = RuleBook::new(RulesVersion(version), vec![("rules".to_owned(), domain)]);
        let (book, region) = (Arc::new(book.expect("one domain")), self.region.lock().clone());
        *active = Some(Arc::new(Active { book, meters: (), secret, region }));
    }

    /// Requests counted as allowed, over the limit and unavailable.
    pub(super) fn totals(&self) -> [usize; 3] {
        let decided = self.decided.lock();
        [Verdict::Allowed, Verdict::OverLimit, Verdict::Unavailable]
            .map(|verdict| decided.iter().filter(|counted| **counted == verdict).count())
    }
}

impl Host for TestHost {
    type Meters = ();

    fn active(&self) -> Option<Arc<Active<()>>> {
        self.active.lock().clone()
    }

    fn secret(&self) -> KeySecret {
        KeySecret::new([7; 16])
    }

    fn readiness(&self) -> Readiness {
        match &*self.active.lock() {
            Some(_) => Readiness::Ready,
            None => Readiness::NotReady("waiting for b".to_owned()),
        }
    }

    fn decided(&self, (): &(), answer: &Answer, _: Nanos) {
        self.decided.lock().push(answer.verdict);
    }

    fn unmatched(&self, domain_known: bool) {
        self.unmatched.lock().push(domain_known);
    }

    fn full(&self, domain: &str) {
        assert_eq!(domain, "d");
    }
}

pub(super) type TestEngine = Engine<Counters, TestHost>;

pub(super) fn engine_on<A: Authority>(authority: A, rules: &str) -> Engine<A, TestHost> {
    Engine::new(TestHost::of(rules), Arc::new(authority), 256)
}

pub(super) fn engine(rules: &str) -> TestEngine {
    engine_on(Counters::new(Bounds::default()), rules)
}

/// Room for this many counters and remembered ids.
pub(super) fn tight_engine(keys: u32, replies: u32, rules: &str) -> TestEngine {
    let bounds = Bounds { keys_per_tenant_max: keys, replies_per_tenant_max: replies, ..Bounds::default() };
    engine_on(Counters::new(bounds), rules)
}

pub(super) fn request<'a>(attributes: &[(&'a str, &'a str)], cost: u64) -> Request<'a> {
    let attributes = attributes.iter().map(|(name, value)| Attribute { name, value: value.as_bytes() });
    let descriptor = Descriptor { attributes: attributes.collect(), cost, limit_override: None };
    Request { domain: "d", descriptors: vec![descriptor], request_id: None }
}

pub(super) async fn check<A: Authority>(engine: &Engine<A, TestHost>, attributes: &[(&str, &str)]) -> Answer {
    engine.check(&request(attributes, 1), None).await.expect("decided")
}

pub(super) async fn peek<A: Authority>(engine: &Engine<A, TestHost>, attributes: &[(&str, &str)]) -> Answer {
    engine.check(&request(attributes, 0), None).await.expect("decided")
}

pub(super) fn remaining(answer: &Answer) -> Vec<Option<u64>> {
    answer.matched().map(|matched| matched.decision().map(|decision| decision.remaining)).collect()
}

pub(super) const TEN_BY_USER: &str = "
domain: d
limits:
  - { name: exact, per: [user], limit: 10/day, algorithm: sliding_log }
";

/// One counter for everybody and one for each user, each with its own declared failure.
pub(super) fn everybody_and_users(on_unavailable: &str) -> String {
    format!(
        "
domain: d
limits:
  - {{ name: everybody, limit: 10/day, on_unavailable: {on_unavailable} }}
  - {{ name: users, per: [user], limit: 10/day, on_unavailable: {on_unavailable} }}
"
    )
}
