//! What the doors stand on: an engine over leases, the rules that nodes hand out, and what is counted.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use leasehold_client::{Clock, KnownRules, LeaseAuthority, NodeStream, SystemClock, Upstream};
use leasehold_decide::{CheckError, Decider, Engine, Host, Readiness, ResetTarget, TopKeys};
use leasehold_limit::KeySecret;
use leasehold_limit::check::{Answer, Request};
use leasehold_limit::rules::RuleBook;
use leasehold_model::{BootTime, Nanos, RequestId};
use leasehold_service::metrics::{Metrics, RuleMeters};
use leasehold_service::{Fullness, Gate};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Counters that one request may be charged to; more are refused as invalid, as a node would.
const DEMANDS_MAX: usize = 256;

type Active = leasehold_decide::Active<RuleMeters>;

/// The process behind the doors.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) stream: NodeStream,
    pub(crate) authority: Arc<LeaseAuthority<NodeStream>>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) started: BootTime,
    pub(crate) top_keys: Arc<TopKeys>,
    engine: Engine<LeaseAuthority<NodeStream>, Base>,
}

/// What the engine decides in.
#[derive(Debug)]
struct Base {
    active: ArcSwapOption<Active>,
    metrics: Arc<Metrics>,
    gate: Arc<Gate>,
    fullness: Fullness,
    top_keys: Arc<TopKeys>,
    stream: NodeStream,
}

impl Core {
    /// Without rules yet.
    pub(crate) fn new(
        stream: NodeStream,
        authority: Arc<LeaseAuthority<NodeStream>>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let gate = Arc::new(Gate::closed("starting"));
        let top_keys = Arc::new(TopKeys::new(false));
        let base = Base {
            active: ArcSwapOption::empty(),
            metrics: Arc::clone(&metrics),
            gate: Arc::clone(&gate),
            fullness: Fullness::default(),
            top_keys: Arc::clone(&top_keys),
            stream: stream.clone(),
        };
        let engine = Engine::new(base, Arc::clone(&authority), DEMANDS_MAX);
        Self { stream, authority, metrics, gate, started: SystemClock.boot(), top_keys, engine }
    }

    /// The rule set in force. `None`: no node has handed one out yet.
    pub(crate) fn book(&self) -> Option<Arc<RuleBook>> {
        self.engine.host().active().map(|active| Arc::clone(&active.book))
    }

    /// Puts every rule set in force that a node hands out, until `stop`.
    pub(crate) async fn follow(
        self: Arc<Self>,
        mut rules: watch::Receiver<Option<Arc<KnownRules>>>,
        stop: CancellationToken,
    ) {
        loop {
            let known = rules.borrow_and_update().clone();
            if let Some(known) = known {
                self.put_in_force(&known);
            }
            tokio::select! {
                () = stop.cancelled() => return,
                changed = rules.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
            }
        }
    }

    fn put_in_force(&self, known: &KnownRules) {
        let base = self.engine.host();
        let book = Arc::clone(&known.book);
        let meters = self.metrics.meters(&book);
        let (secret, region) = (known.secret.clone(), known.region.clone());
        let (version, domains) = (book.version, book.domains.len());
        let next = Arc::new(Active { book, meters, secret, region });
        let old = base.active.swap(Some(Arc::clone(&next)));
        // Refusals of the old rules are none of the new ones.
        self.authority.rules_changed();
        if let Some(old) = old {
            self.metrics.forget_rules_missing_from(&old.book, &next.book);
        }
        self.metrics.rules_version(version);
        self.metrics.reload_accepted();
        tracing::info!(%version, domains, "rules in force");
    }

    /// Why some answers are what stands in for counters. `None`: their owners can be asked.
    pub(crate) fn degraded(&self) -> Option<String> {
        self.stream.away().map(|away| away.to_string())
    }
}

impl Host for Base {
    type Meters = RuleMeters;

    fn active(&self) -> Option<Arc<Active>> {
        self.active.load_full()
    }

    fn secret(&self) -> KeySecret {
        self.active().map_or_else(|| KeySecret::new([0; 16]), |active| active.secret.clone())
    }

    fn readiness(&self) -> Readiness {
        match self.gate.get() {
            Readiness::Ready if self.active.load().is_none() => {
                let why = self.stream.away().map_or_else(String::new, |away| format!(": {away}"));
                Readiness::NotReady(format!("waiting for a node to hand out its rules{why}"))
            }
            said @ (Readiness::Ready | Readiness::NotReady(_)) => said,
        }
    }

    fn decided(&self, meters: &RuleMeters, answer: &Answer, took: Nanos) {
        self.metrics.decided(meters, answer, took);
    }

    fn asked(&self, active: &Active, request: &Request<'_>, answer: &Answer) {
        if self.top_keys.draws() {
            self.top_keys.see(SystemClock.boot(), active.region.as_ref(), request, answer);
        }
    }

    fn unmatched(&self, domain_known: bool) {
        self.metrics.unmatched(domain_known);
    }

    fn full(&self, domain: &str) {
        self.fullness.note(domain, SystemClock.boot());
    }
}

impl Decider for Core {
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
