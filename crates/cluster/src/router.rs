//! Asks of shards, wherever their leaders are: here through this node's own log, else by a message to the leader.
//!
//! Invariant: an ask whose outcome isn't known is asked again under the same ids or reported as unanswered; nothing is ever
//! undone on a guess. Every acquire that goes out has an id: its caller's, or one drawn here.

mod consult;
mod leaders;
mod serve;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use leasehold_consensus::runner::Runner;
use leasehold_consensus::transport::Transport;
use leasehold_consensus::types::GroupId;
use leasehold_control::Control;
use leasehold_model::{NodeId, ShardId};
use leasehold_placement::Shards;
use leasehold_shard::{Batch, Command, Refusal, Reply};
use parking_lot::{Mutex, RwLock};
use rand::Rng;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::attempt::AttemptError;
use crate::counts::Meters;
use crate::forward::Forwarder;
use crate::lane::{Carry, IDLE_MAX, Lane, Refused, fits};
use crate::leader_client::{Hint, LeaderClient};
use crate::lines::Lines;
use crate::local_groups::LocalGroups;
use crate::machine::ShardMachine;
use crate::planted;
use crate::proposer::Proposer;
use crate::sessions::{OpenIds, Session};
use crate::{Clock, Counts, Unanswered};

/// Pause between attempts when nobody knows who leads: short beside an election, long beside an answer.
const PAUSE_MS: std::ops::RangeInclusive<u64> = 5..=20;
/// The pause grows with the attempts to so many times that, still short beside an election: thousands that wait for one
/// must not take the time it needs.
const PAUSE_TIMES_MAX: u32 = 4;
/// A tick that isn't applied by then is as good as the next one.
const TICK_MAX: Duration = Duration::from_secs(1);
/// Requests over several shards, and returns of what such took, that are under way. Further requests are refused as
/// overloaded; further returns are given up, and what they would return is stranded.
const SPREAD_MAX: usize = 4 << 10;

/// What a router needs of its node.
pub struct RouterParts {
    /// This node.
    pub node: NodeId,
    /// Its groups, made by [`machines`](crate::machines).
    pub runner: Runner,
    /// Its connections to the others.
    pub transport: Transport,
    /// What it stamps by.
    pub clock: Arc<dyn Clock>,
    /// The control state as this node has applied it.
    pub control: watch::Receiver<Arc<Control>>,
    /// Who leads by word of others; believed only as far as whom to ask next.
    pub hint: Hint,
}

/// See the module. Clones are handles to the same one.
#[derive(Clone, Debug)]
pub struct Router(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    local: Arc<LocalGroups>,
    leaders: Arc<LeaderClient>,
    meters: Arc<Meters>,
    control: watch::Receiver<Arc<Control>>,
    shards: RwLock<BTreeMap<ShardId, Arc<ShardPath>>>,
    spreading: Arc<Semaphore>,
    returning: Arc<Semaphore>,
    stop: CancellationToken,
}

/// What asks of one shard share on this node.
#[derive(Debug)]
struct ShardPath {
    group: GroupId,
    session: Arc<Session>,
    /// Into this node's log.
    log: Mutex<Option<Lane>>,
    /// To the leader.
    leader: Mutex<Option<Lane>>,
}

impl fmt::Debug for RouterParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouterParts").field("node", &self.node).finish_non_exhaustive()
    }
}

impl Router {
    /// A router that asks; [`Self::serve`] has it answer other nodes too.
    #[must_use]
    pub fn new(parts: RouterParts) -> Self {
        let RouterParts { node, runner, transport, clock, control, hint } = parts;
        let local = Arc::new(LocalGroups { node, runner, lines: Lines::new(clock) });
        let meters = Arc::<Meters>::default();
        let leaders = LeaderClient {
            local: Arc::clone(&local),
            transport,
            control: control.clone(),
            hint,
            routes: Mutex::default(),
            meters: Arc::clone(&meters),
        };
        Self(Arc::new(Inner {
            local,
            leaders: Arc::new(leaders),
            meters,
            control,
            shards: RwLock::default(),
            spreading: Arc::new(Semaphore::new(SPREAD_MAX)),
            returning: Arc::new(Semaphore::new(SPREAD_MAX)),
            stop: CancellationToken::new(),
        }))
    }

    /// Moves time on in the shards that this node leads and that hold anything: what has become fresh is dropped. To be
    /// called about once a second.
    pub fn tick(&self) {
        let tick = Arc::new(Batch::default());
        for group in self.0.local.runner.groups() {
            let Some(shard) = group.shard() else { continue };
            let holds = |machine: &ShardMachine| machine.holds_anything();
            if self.0.local.serves(group) && self.0.local.runner.with_machine(group, holds) == Some(true) {
                // Where too much waits, entries move time on anyway.
                let _ = self.0.shard(shard).to_log(&self.0, &tick, Instant::now() + TICK_MAX);
            }
        }
    }

    /// What was counted since the start.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.0.meters.read()
    }

    /// Ends what is under way, as unknown where it is.
    pub fn stop(&self) {
        self.0.stop.cancel();
    }

    /// How keys map to shards; none until the cluster is made.
    pub(crate) fn shards(&self) -> Option<Shards> {
        Some(self.0.control.borrow().layout()?.shards)
    }

    /// Room for requests over several shards.
    pub(crate) fn spreading(&self) -> Arc<Semaphore> {
        Arc::clone(&self.0.spreading)
    }

    /// Room for returns of what such took.
    pub(crate) fn returning(&self) -> Arc<Semaphore> {
        Arc::clone(&self.0.returning)
    }

    pub(crate) fn meters(&self) -> &Meters {
        &self.0.meters
    }

    /// Asks one shard. Acquires without an id get one, and are asked again under it until the deadline.
    ///
    /// # Errors
    /// [`Unanswered`] says whether anything may have been done.
    pub(crate) async fn ask_shard(
        &self,
        shard: ShardId,
        mut batch: Batch,
        deadline: Instant,
    ) -> Result<Vec<Reply>, Unanswered> {
        if !fits(&batch) {
            return Ok(vec![Reply::Refused(Refusal::Malformed); batch.commands.len()]);
        }
        let path = self.0.shard(shard);
        let mut ids = path.session.open();
        identify(&mut batch, &mut ids);
        self.0.ask(&path, &Arc::new(batch), deadline).await
    }
}

/// Gives each acquire and each lease an id. Whose id was drawn here asks again only when no answer came.
fn identify(batch: &mut Batch, ids: &mut OpenIds) {
    for command in &mut batch.commands {
        match command {
            Command::Acquire(acquire) => {
                acquire.remember_denial = acquire.id.is_some();
                acquire.id.get_or_insert_with(|| ids.draw());
            }
            Command::Lease(lease) => {
                lease.id.get_or_insert_with(|| ids.draw());
            }
            Command::Refund(_) | Command::Reset(_) => {}
        }
    }
}

impl Inner {
    /// Asks until somebody answers.
    async fn ask(
        self: &Arc<Self>,
        path: &ShardPath,
        batch: &Arc<Batch>,
        deadline: Instant,
    ) -> Result<Vec<Reply>, Unanswered> {
        let mut attempts = Attempts::new(self, path.group, deadline);
        let (mut renamed, mut other_ids) = (None, path.session.open());
        loop {
            let batch = renamed.as_ref().unwrap_or(batch);
            if let Some(replies) = self.planted(path, batch, None) {
                return Ok(replies);
            }
            let put = if self.local.serves(path.group) {
                path.to_log(self, batch, deadline)
            } else {
                path.to_leader(self, batch, deadline)
            };
            let outcome = match put {
                Err(failed) => Err(failed),
                // An answer that was dropped is one that nobody knows.
                Ok(answer) => match timeout_at(deadline, answer).await {
                    Ok(answered) => answered.unwrap_or(Err(AttemptError::Unknown)),
                    Err(_) => Err(AttemptError::Unknown),
                },
            };
            match outcome {
                Ok(replies) => return Ok(replies),
                Err(failed) => {
                    if let Some(replies) = self.planted(path, batch, Some(failed)) {
                        return Ok(replies);
                    }
                    renamed = planted::renamed(batch, failed, &mut other_ids);
                    attempts.failed(failed).await?;
                }
            }
        }
    }

    /// Replies that only a bug gives.
    fn planted(&self, path: &ShardPath, batch: &Batch, failed: Option<AttemptError>) -> Option<Vec<Reply>> {
        planted::decided_alone(&self.local, path.group, batch, failed, || (self.leaders.hint)(path.group))
    }

    fn shard(&self, shard: ShardId) -> Arc<ShardPath> {
        if let Some(path) = self.shards.read().get(&shard) {
            return Arc::clone(path);
        }
        let mut shards = self.shards.write();
        let path = shards.entry(shard).or_insert_with(|| {
            Arc::new(ShardPath {
                group: GroupId::of_shard(shard),
                session: Session::new(rand::random()),
                log: Mutex::default(),
                leader: Mutex::default(),
            })
        });
        Arc::clone(path)
    }
}

type Put = Result<tokio::sync::oneshot::Receiver<crate::lane::Attempt>, AttemptError>;

impl ShardPath {
    fn to_log(&self, inner: &Inner, batch: &Arc<Batch>, deadline: Instant) -> Put {
        put(&self.log, inner, batch, deadline, || Proposer {
            group: self.group,
            local: Arc::clone(&inner.local),
            session: Arc::clone(&self.session),
            meters: Arc::clone(&inner.meters),
            bounds: OnceLock::new(),
        })
    }

    fn to_leader(&self, inner: &Inner, batch: &Arc<Batch>, deadline: Instant) -> Put {
        put(&self.leader, inner, batch, deadline, || Forwarder {
            group: self.group,
            leaders: Arc::clone(&inner.leaders),
            session: Arc::clone(&self.session),
            meters: Arc::clone(&inner.meters),
        })
    }
}

/// Puts a batch into a lane, and starts the lane if it isn't running.
fn put<C: Carry>(
    lane: &Mutex<Option<Lane>>,
    inner: &Inner,
    batch: &Arc<Batch>,
    deadline: Instant,
    carry: impl Fn() -> C,
) -> Put {
    let mut lane = lane.lock();
    if let Some(running) = &*lane {
        match running.put(batch, deadline) {
            Ok(answer) => return Ok(answer),
            Err(Refused::Full) => return Err(AttemptError::Overloaded),
            Err(Refused::Ended) => {}
        }
    }
    let started = lane.insert(Lane::start(Arc::new(carry()), IDLE_MAX, inner.stop.clone()));
    started.put(batch, deadline).map_err(|_| AttemptError::Overloaded)
}

/// The attempts of one ask.
struct Attempts<'a> {
    inner: &'a Inner,
    group: GroupId,
    deadline: Instant,
    made: u32,
    unknown: bool,
}

impl<'a> Attempts<'a> {
    const fn new(inner: &'a Inner, group: GroupId, deadline: Instant) -> Self {
        Self { inner, group, deadline, made: 0, unknown: false }
    }

    /// Whether to try again, after a pause if that is due.
    async fn failed(&mut self, failed: AttemptError) -> Result<(), Unanswered> {
        let meters = &self.inner.meters;
        self.made += 1;
        match failed {
            AttemptError::Unknown => {
                self.unknown = true;
                Meters::count(&meters.unknown);
            }
            AttemptError::Overloaded => {
                Meters::count(&meters.overloaded);
                return Err(self.ended(Unanswered::Overloaded));
            }
            AttemptError::NotLeader => {}
        }
        if self.inner.stop.is_cancelled() {
            return Err(self.ended(Unanswered::Stopping));
        }
        let mut now = Instant::now();
        // The first attempt may just have had an old hint.
        if self.made > 1 || !self.inner.leaders.anybody(self.group) {
            let pause = Duration::from_millis(rand::rng().random_range(PAUSE_MS));
            let pause = pause * self.made.min(PAUSE_TIMES_MAX);
            now = self.deadline.min(now + pause);
            sleep_until(now).await;
        }
        if now >= self.deadline {
            return Err(self.ended(Unanswered::Unreached));
        }
        Meters::count(&meters.retries);
        Ok(())
    }

    /// What promises that nothing was done is only said when no attempt left it open.
    const fn ended(&self, why: Unanswered) -> Unanswered {
        if self.unknown { Unanswered::Deadline } else { why }
    }
}

#[cfg(test)]
mod tests;
