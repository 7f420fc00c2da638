//! An owner of counters, and a network between it and edges that loses, delays and refuses as it is told. What is decided
//! is decided by a real shard.

use std::sync::Arc;
use std::time::Duration;

use leasehold_client::{Answers, Away, Clock, Grant, NoGrant, Upstream, UpstreamAnswer, UpstreamAsk};
use leasehold_decide::{Proposal, ProposeError, Terms};
use leasehold_lease::EdgeId;
use leasehold_limit::Decision;
use leasehold_model::{BootTime, Key, Nanos, Stamp};
use leasehold_shard::{
    Acquire, Batch, Bounds, Command, Demand, LeaseCommand, LimitSpec, Refusal, Reply, Settled, Shard,
};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, sleep_until};

/// Where the shard's time line begins: the middle of a year, so that no window ends during a test.
const EPOCH: u64 = 1_800_000_000_000_000_000;

/// tokio's time, so that a test that stops it stops leases, too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TestClock(Instant);

impl TestClock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    fn nanos(self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).expect("a test is short")
    }
}

impl Clock for TestClock {
    fn boot(&self) -> BootTime {
        BootTime(1_000_000_000 + self.nanos())
    }
}

/// What the network does to messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Faults {
    /// Time a message takes each way.
    pub(crate) delay: Duration,
    /// Every so many-th message each way is lost; 0: none.
    pub(crate) loses_every: u64,
    /// Nothing gets through, and the edge knows.
    pub(crate) away: bool,
    /// Nothing gets through, and the edge doesn't know.
    pub(crate) silent: bool,
    /// Asks for leases and commands are turned away.
    pub(crate) overloaded: bool,
    /// Asks for leases are refused so.
    pub(crate) refuses: Option<Refusal>,
}

/// Counters, behind a lock.
#[derive(Debug)]
pub(crate) struct Owner {
    shard: Mutex<Shard>,
    pub(crate) clock: TestClock,
    faults: Mutex<Faults>,
    messages: Mutex<u64>,
    commands: Mutex<Vec<Command>>,
}

impl Owner {
    pub(crate) fn new(faults: Faults) -> Arc<Self> {
        Arc::new(Self {
            shard: Mutex::new(Shard::new(Bounds::default())),
            clock: TestClock::start(),
            faults: Mutex::new(faults),
            messages: Mutex::default(),
            commands: Mutex::default(),
        })
    }

    /// From here on the network is so.
    pub(crate) fn set(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.faults.lock());
    }

    /// Commands that reached it, but for asks for leases.
    pub(crate) fn commands(&self) -> Vec<Command> {
        self.commands.lock().clone()
    }

    /// What is left of a counter.
    pub(crate) fn look(&self, key: Key, spec: &LimitSpec) -> Decision {
        let demand = Demand { key, limit: 0, ask: leasehold_limit::Ask::PEEK, shadow: false };
        let acquire = Acquire { id: None, remember_denial: false, demands: vec![demand] };
        match self.shard.lock().preview(std::slice::from_ref(spec), &acquire, self.stamp()) {
            Reply::Acquired(acquired) => acquired.decisions[0],
            Reply::Leased(_) | Reply::Refunded(_) | Reply::Reset(_) | Reply::Refused(_) => {
                panic!("an acquire is answered as one")
            }
        }
    }

    /// Leases that are out.
    pub(crate) fn leases(&self) -> usize {
        self.apply(&Batch::default());
        self.shard.lock().leases().count()
    }

    fn stamp(&self) -> Stamp {
        Stamp(EPOCH + self.clock.nanos())
    }

    fn apply(&self, batch: &Batch) -> Vec<Reply> {
        let mut shard = self.shard.lock();
        shard.apply(batch, self.stamp())
    }

    fn faults(&self) -> Faults {
        *self.faults.lock()
    }

    /// A message crosses the network, or doesn't.
    async fn cross(&self) -> bool {
        let faults = self.faults();
        if faults.delay > Duration::ZERO {
            sleep(faults.delay).await;
        }
        let mut messages = self.messages.lock();
        *messages += 1;
        let lost = faults.loses_every > 0 && messages.is_multiple_of(faults.loses_every);
        !(lost || faults.away || faults.silent)
    }

    async fn lend(&self, ask: UpstreamAsk, settled: Settled) -> Option<Result<Grant, NoGrant>> {
        if !self.cross().await {
            return None;
        }
        let Faults { overloaded, refuses, .. } = self.faults();
        let UpstreamAsk { id, spec, ask, .. } = ask;
        let command = Command::Lease(LeaseCommand { id: Some(id), limit: 0, ask });
        let batch = Batch {
            limits: vec![LimitSpec::clone(&spec)],
            commands: vec![command],
            settled: vec![settled],
            bounds: None,
        };
        let outcome = match refuses {
            _ if overloaded => Err(NoGrant::Overloaded),
            Some(refusal) => Err(NoGrant::Refused(refusal)),
            None => match self.apply(&batch).pop() {
                Some(Reply::Leased(leased)) => Ok(Grant { leased, slot_parts: 1 }),
                reply => panic!("{reply:?}"),
            },
        };
        self.cross().await.then_some(outcome)
    }

    async fn carry_out(&self, batch: Batch) -> Option<Result<Reply, ProposeError>> {
        if !self.cross().await {
            return None;
        }
        if self.faults().overloaded {
            return Some(Err(ProposeError::Overloaded("too much is going on")));
        }
        self.commands.lock().extend(batch.commands.iter().cloned());
        let reply = self.apply(&batch).pop().expect("one command, one reply");
        self.cross().await.then_some(Ok(reply))
    }
}

/// One edge's way to the owner.
#[derive(Debug)]
pub(crate) struct Edge {
    owner: Arc<Owner>,
    id: EdgeId,
}

impl Edge {
    pub(crate) fn new(owner: &Arc<Owner>, id: u128) -> Arc<Self> {
        Arc::new(Self { owner: Arc::clone(owner), id: EdgeId(id) })
    }
}

impl Upstream for Edge {
    fn edge(&self) -> EdgeId {
        self.id
    }

    fn lease(&self, asks: Vec<UpstreamAsk>, settled: Settled, deadline: Instant, answers: &Answers) {
        for ask in asks {
            let (owner, answers) = (Arc::clone(&self.owner), answers.clone());
            tokio::spawn(async move {
                let id = ask.id;
                let outcome = match owner.lend(ask, settled).await {
                    Some(outcome) => outcome,
                    None => {
                        sleep_until(deadline).await;
                        Err(NoGrant::Unreachable)
                    }
                };
                let _ = answers.send(UpstreamAnswer { id, outcome });
            });
        }
    }

    async fn propose(&self, proposal: Proposal, deadline: Instant) -> Result<Reply, ProposeError> {
        match self.owner.carry_out(proposal.batch).await {
            Some(reply) => reply,
            None => {
                sleep_until(deadline).await;
                Err(ProposeError::Unreachable)
            }
        }
    }

    async fn preview(
        &self,
        limits: &[LimitSpec],
        _: &[Terms],
        acquire: &Acquire,
        deadline: Instant,
    ) -> Result<Reply, ProposeError> {
        if !self.owner.cross().await {
            sleep_until(deadline).await;
            return Err(ProposeError::Unreachable);
        }
        let at = self.owner.stamp();
        Ok(self.owner.shard.lock().preview(limits, acquire, at))
    }

    fn away(&self) -> Option<Away> {
        self.owner.faults().away.then(|| Away { since: Instant::now(), why: "cut off".into() })
    }

    fn round_trip(&self) -> Nanos {
        Nanos(u64::try_from(2 * self.owner.faults().delay.as_nanos()).expect("a delay is short"))
    }
}
