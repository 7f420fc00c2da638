//! An [`Upstream`] at the other end of a gRPC stream: one node at a time, of several that know the same cluster.
//!
//! Invariant: an ask is sent under one id only, however often connections are lost, so that owners carry it out once; it is
//! answered once, by its deadline. Asks wait here, bounded, while there is no connection or the node has enough.

mod address;
mod desk;
mod link;
mod pack;
mod pause;
mod rules;
mod standing;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold_decide::{Proposal, ProposeError, Terms};
use leasehold_lease::EdgeId;
use leasehold_limit::rules::Scope;
use leasehold_model::{Key, Nanos, RequestId, ShardId};
use leasehold_placement::Shards;
use leasehold_shard::{Acquire, Command, LimitSpec, Refusal, Reply, Settled};
use leasehold_wire::lease::{Outcome, Unanswered};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{Answers, Away, NoGrant, Upstream, UpstreamAnswer, UpstreamAsk};
pub use address::{Address, AddressError};
use desk::{Asker, Desk};
use pack::Question;
pub use rules::KnownRules;
use standing::Standing;
pub use standing::{Counts, Peer};

/// Too much waits already.
const FULL: &str = "more asks wait for the node than may";
/// The stream is closed.
const CLOSED: &str = "the connection to the node was closed";

/// What a stream is opened with.
#[derive(Clone, Debug)]
pub struct StreamConfig {
    /// Nodes of one cluster, or one node that runs alone. At least one; the first to be tried is drawn.
    pub addresses: Vec<Address>,
    /// What the node's operators see of this edge; at most 128 bytes.
    pub name: String,
}

/// See the module. It connects for as long as it lives; clones are handles to the same one.
#[derive(Clone, Debug)]
pub struct NodeStream {
    shared: Arc<Shared>,
    /// Ends it when the last handle is gone.
    _stop: Arc<DropGuard>,
}

/// What handles share with the tasks behind them.
#[derive(Debug)]
struct Shared {
    config: StreamConfig,
    edge: EdgeId,
    desk: Mutex<Desk>,
    /// Something was put on the desk.
    wake: Notify,
    /// A deadline is nearer than those before it.
    nearer: Notify,
    standing: Standing,
    round_trip_ns: AtomicU64,
    rules: watch::Sender<Option<Arc<KnownRules>>>,
    /// No more asks are taken; what is on the desk is finished.
    closing: CancellationToken,
    stop: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl NodeStream {
    /// Begins to connect. Asks may be put at once; they wait for the connection.
    ///
    /// # Panics
    /// Without an address, or outside a tokio runtime.
    #[must_use]
    pub fn open(config: StreamConfig) -> Self {
        assert!(!config.addresses.is_empty(), "a stream needs an address");
        let stop = CancellationToken::new();
        let shared = Arc::new(Shared {
            standing: Standing::new(config.addresses.len(), Instant::now()),
            config,
            edge: EdgeId(rand::random()),
            desk: Mutex::new(Desk::new(rand::random())),
            wake: Notify::new(),
            nearer: Notify::new(),
            round_trip_ns: AtomicU64::new(0),
            rules: watch::Sender::new(None),
            closing: CancellationToken::new(),
            stop: stop.clone(),
            task: Mutex::new(None),
        });
        let running = Arc::clone(&shared);
        *shared.task.lock() = Some(tokio::spawn(async move {
            let stop = running.stop.clone();
            tokio::select! {
                () = stop.cancelled() => {}
                () = link::run(&running) => {}
                () = running.expire() => {}
            }
            running.end();
        }));
        Self { shared, _stop: Arc::new(stop.drop_guard()) }
    }

    /// The rules that nodes handed out; none until the first have come.
    #[must_use]
    pub fn rules(&self) -> watch::Receiver<Option<Arc<KnownRules>>> {
        self.shared.rules.subscribe()
    }

    /// Who is at the other end; `None` while nobody is.
    #[must_use]
    pub fn peer(&self) -> Option<Arc<Peer>> {
        self.shared.standing.peer()
    }

    /// What was counted since it was opened.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared.standing.counts()
    }

    /// Asks without an answer.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.shared.desk.lock().open()
    }

    /// Takes no more asks, has those that were put answered within `within`, and says goodbye. Returns whether that is so;
    /// else what is left is answered as unreachable.
    pub async fn close(&self, within: Duration) -> bool {
        self.shared.closing.cancel();
        let task = self.shared.task.lock().take();
        let Some(task) = task else { return true };
        let done = timeout(within, task).await.is_ok();
        self.shared.stop.cancel();
        done && self.waiting() == 0
    }

    /// Puts a question and waits for its answer.
    async fn ask(
        &self,
        id: Option<RequestId>,
        question: Option<Question>,
        deadline: Instant,
    ) -> Result<Reply, ProposeError> {
        let Some(question) = question else { return Ok(Reply::Refused(Refusal::Malformed)) };
        let (caller, answer) = oneshot::channel();
        self.shared.put(deadline, Asker::Caller(caller), |desk, asker| {
            desk.put_exact(id, question, deadline, asker)
        });
        // The desk answers by the deadline, or everything has ended.
        let outcome = answer.await.unwrap_or(Outcome::Unanswered(Unanswered::Unreachable));
        match outcome {
            Outcome::Acquired(acquired) => Ok(Reply::Acquired(acquired)),
            Outcome::Refunded(units) => Ok(Reply::Refunded(units)),
            Outcome::Reset(held) => Ok(Reply::Reset(held)),
            Outcome::Refused(refusal) => Ok(Reply::Refused(refusal)),
            Outcome::Unanswered(Unanswered::Overloaded) if self.shared.is_closed() => {
                Err(ProposeError::Overloaded(CLOSED))
            }
            Outcome::Unanswered(Unanswered::Overloaded) => Err(ProposeError::Overloaded(FULL)),
            // The answer to another question is none.
            Outcome::Unanswered(Unanswered::Unreachable) | Outcome::Leased { .. } => {
                Err(ProposeError::Unreachable)
            }
        }
    }
}

impl Shared {
    /// Puts something on the desk. When that is full or closed, the asker is told at once.
    fn put(&self, deadline: Instant, asker: Asker, put: impl FnOnce(&mut Desk, Asker) -> Result<(), Asker>) {
        let refused = if self.is_closed() {
            Err(asker)
        } else {
            let mut desk = self.desk.lock();
            let before = desk.next_deadline();
            let put = put(&mut desk, asker);
            if before.is_none_or(|before| deadline < before) {
                self.nearer.notify_one();
            }
            put
        };
        match refused {
            Ok(()) => self.wake.notify_one(),
            Err(asker) => asker.tell(Outcome::Unanswered(Unanswered::Overloaded)),
        }
    }

    fn is_closed(&self) -> bool {
        self.closing.is_cancelled() || self.stop.is_cancelled()
    }

    /// Answers those whose deadline passes.
    async fn expire(&self) {
        loop {
            let next = self.desk.lock().next_deadline();
            let passes = async {
                match next {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = passes => {}
                () = self.nearer.notified() => continue,
            }
            let expired = self.desk.lock().expired(Instant::now());
            self.standing.count_expired(expired.len());
            for asker in expired {
                asker.tell(Outcome::Unanswered(Unanswered::Unreachable));
            }
        }
    }

    /// Nothing will be answered any more.
    fn end(&self) {
        self.stop.cancel();
        self.standing.gone("the stream was closed");
        let askers = self.desk.lock().clear();
        for asker in askers {
            asker.tell(Outcome::Unanswered(Unanswered::Unreachable));
        }
    }

    /// Smooths over the last few answers.
    fn note_round_trip(&self, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let smooth = |before: u64| if before == 0 { took } else { before - before / 8 + took / 8 };
        // Answers are noted by one task.
        let before = self.round_trip_ns.load(Ordering::Relaxed);
        self.round_trip_ns.store(smooth(before).max(1), Ordering::Relaxed);
    }
}

impl Upstream for NodeStream {
    fn edge(&self) -> EdgeId {
        self.shared.edge
    }

    fn lease(&self, asks: Vec<UpstreamAsk>, settled: Settled, deadline: Instant, answers: &Answers) {
        self.shared.desk.lock().settle(settled);
        for UpstreamAsk { id, spec, terms, ask } in asks {
            let Some(question) = Question::lease(spec, terms.scope, ask) else {
                let outcome = Err(NoGrant::Refused(Refusal::Malformed));
                let _ = answers.send(UpstreamAnswer { id, outcome });
                continue;
            };
            let asker = Asker::Pool { id, answers: answers.clone() };
            self.shared.put(deadline, asker, |desk, asker| desk.put_lease(id, question, deadline, asker));
        }
    }

    fn propose(
        &self,
        proposal: Proposal,
        deadline: Instant,
    ) -> impl Future<Output = Result<Reply, ProposeError>> + Send {
        let Proposal { mut batch, terms } = proposal;
        let limits = with_scopes(batch.limits, &terms);
        let command = batch.commands.pop();
        let id = match &command {
            Some(Command::Acquire(acquire)) => acquire.id,
            Some(Command::Refund(refund)) => Some(refund.id),
            Some(Command::Lease(lease)) => lease.id,
            Some(Command::Reset(_)) | None => None,
        };
        self.ask(id, command.and_then(|command| Question::exact(limits, command)), deadline)
    }

    fn preview(
        &self,
        limits: &[LimitSpec],
        terms: &[Terms],
        acquire: &Acquire,
        deadline: Instant,
    ) -> impl Future<Output = Result<Reply, ProposeError>> + Send {
        let limits = with_scopes(limits.to_vec(), terms);
        self.ask(None, Question::preview(limits, acquire.demands.clone()), deadline)
    }

    fn shard(&self, key: Key) -> ShardId {
        let shards = self.shared.rules.borrow().as_ref().and_then(|known| Shards::new(known.shards).ok());
        shards.map_or(ShardId(0), |shards| shards.of(key))
    }

    fn away(&self) -> Option<Away> {
        self.shared.standing.away(Instant::now())
    }

    fn round_trip(&self) -> Nanos {
        Nanos(self.shared.round_trip_ns.load(Ordering::Relaxed))
    }
}

fn with_scopes(limits: Vec<LimitSpec>, terms: &[Terms]) -> Vec<(LimitSpec, Scope)> {
    let scopes = terms.iter().map(|terms| terms.scope).chain(std::iter::repeat(Scope::default()));
    limits.into_iter().zip(scopes).collect()
}

#[cfg(test)]
mod tests;
