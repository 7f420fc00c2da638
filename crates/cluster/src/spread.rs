//! Requests whose counters lie on several shards: all are charged or none, without a lock over shards.
//!
//! Invariant: shards are asked one after the other. A refusal returns what was taken before, and so does a shard that was
//! certainly never asked: it has no leader, or too much to do. What may have been charged is never returned: an unknown
//! outcome ends the request as unanswered. A request may so lose tokens when nodes die under it; it never gains any.
//!
//! Under a caller's own id each shard remembers its part of the answer, denials too, and a return has an id made of the
//! caller's: a retry finds the same charges, the same denial and the same returns. That rests on the denial being
//! remembered. A refusal that isn't (no room, no leader) returns nothing under a caller's id, since the retry that finds the
//! earlier charges may be admitted after all; until then the outcome is called unknown.

mod split;

use std::time::Duration;

use leasehold_model::{RequestId, ShardId};
use leasehold_placement::Shards;
use leasehold_shard::{
    Acquire, Acquired, Batch, Command, LeaseCommand, LimitSpec, Refund, RefundItem, Refusal, Reply, Reset,
};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use crate::Unanswered;
use crate::counts::Meters;
use crate::router::Router;
use split::{Outcome, Part, merge_acquired, only_shard, split_acquire, split_refund, split_reset, taken};

/// A return is tried for so long; then its units are stranded. Longer than a shard is without a leader, and no longer than
/// replies are remembered.
const RETURN_MAX: Duration = Duration::from_secs(60);
/// A refusal waits for its returns this long, so that who is refused finds the tokens back.
const RETURN_WAIT: Duration = Duration::from_millis(100);
/// Pause before an overloaded shard is offered a return again.
const RETURN_PAUSE: Duration = Duration::from_millis(100);
/// Makes the id of a return from its request's.
const RETURN_SALT: u128 = 0x7265_7475_726e_2d6f_662d_7265_7175_6573;

/// A look at one shard that is under way.
type Look = AbortOnDropHandle<Result<Reply, Unanswered>>;

impl Router {
    /// Applies a batch to the shards of its counters; one reply a command, in order. Commands of several shards are
    /// carried out one after the other.
    ///
    /// # Errors
    /// [`Unanswered`] says whether anything may have been done. A retry under the same request ids is safe.
    pub async fn propose(&self, batch: Batch, deadline: Instant) -> Result<Vec<Reply>, Unanswered> {
        let shards = self.shards().ok_or(Unanswered::Forming)?;
        if let Some(shard) = only_shard(&batch, shards) {
            return self.ask_shard(shard, batch, deadline).await;
        }
        // In a task of its own: a caller that goes away must not leave it half done.
        let permit = self.place()?;
        let router = self.clone();
        let spread = tokio::spawn(async move {
            let _permit = permit;
            router.one_by_one(&batch, shards, deadline).await
        });
        spread.await.unwrap_or(Err(Unanswered::Deadline))
    }

    /// What an acquire would be answered now. Takes and records nothing.
    ///
    /// # Errors
    /// The leader of a shard didn't answer.
    pub async fn preview(
        &self,
        limits: &[LimitSpec],
        acquire: &Acquire,
        deadline: Instant,
    ) -> Result<Reply, Unanswered> {
        let shards = self.shards().ok_or(Unanswered::Forming)?;
        let parts = split_acquire(limits, acquire, shards);
        match parts.as_slice() {
            [] => self.preview_shard(ShardId(0), limits, acquire, deadline).await,
            [part] => self.preview_shard(part.shard, limits, acquire, deadline).await,
            _ => {
                let _place = self.place()?;
                let mut outcomes = Vec::with_capacity(parts.len());
                for look in self.look(&parts, deadline) {
                    match joined(look).await? {
                        Reply::Acquired(acquired) => outcomes.push(Outcome::Decided(acquired)),
                        other @ (Reply::Refused(_)
                        | Reply::Refunded(_)
                        | Reply::Reset(_)
                        | Reply::Leased(_)) => {
                            return Ok(other);
                        }
                    }
                }
                Ok(Reply::Acquired(merge_acquired(&parts, &outcomes)))
            }
        }
    }

    /// A place among the requests over several shards.
    fn place(&self) -> Result<OwnedSemaphorePermit, Unanswered> {
        self.spreading().try_acquire_owned().map_err(|_| {
            Meters::count(&self.meters().overloaded);
            Unanswered::Overloaded
        })
    }

    async fn one_by_one(
        &self,
        batch: &Batch,
        shards: Shards,
        deadline: Instant,
    ) -> Result<Vec<Reply>, Unanswered> {
        let mut replies = Vec::with_capacity(batch.commands.len());
        for command in &batch.commands {
            let answered = match command {
                Command::Acquire(acquire) => self.acquire(&batch.limits, acquire, shards, deadline).await,
                Command::Refund(refund) => self.refund(refund, shards, deadline).await,
                Command::Reset(reset) => self.reset(reset, shards, deadline).await,
                Command::Lease(lease) => self.lease(&batch.limits, lease, shards, deadline).await,
            };
            replies.push(answered.map_err(|error| error.of_whole(!replies.is_empty()))?);
        }
        Ok(replies)
    }

    async fn acquire(
        &self,
        limits: &[LimitSpec],
        acquire: &Acquire,
        shards: Shards,
        deadline: Instant,
    ) -> Result<Reply, Unanswered> {
        let parts = split_acquire(limits, acquire, shards);
        if parts.len() > 1 {
            Meters::count(&self.meters().spread);
        }
        let mut took: Vec<Acquired> = Vec::with_capacity(parts.len());
        for part in &parts {
            let command = Command::Acquire(part.acquire.clone());
            match self.ask_one(part.shard, part.limits.clone(), command, deadline).await {
                Ok(Reply::Acquired(acquired)) if acquired.admitted => took.push(acquired),
                Ok(Reply::Acquired(denied)) => {
                    return Ok(Reply::Acquired(
                        self.refused(&parts, took, denied, acquire.id, deadline).await,
                    ));
                }
                Ok(other) => {
                    self.undo_unless_retried(&parts, &took, acquire.id, deadline).await;
                    return Ok(other);
                }
                // A router that has stopped asks nobody, for returns neither.
                Err(error) if error.is_undone() && error != Unanswered::Stopping => {
                    self.undo_unless_retried(&parts, &took, acquire.id, deadline).await;
                    return Err(error.of_whole(acquire.id.is_some() && !took.is_empty()));
                }
                Err(error) => return Err(error.of_whole(!took.is_empty())),
            }
        }
        let outcomes: Vec<Outcome> = took.into_iter().map(Outcome::Decided).collect();
        Ok(Reply::Acquired(merge_acquired(&parts, &outcomes)))
    }

    /// The answer to a request that one of its shards denied: what was taken before goes back, and the shards that weren't
    /// asked say how they stand.
    async fn refused(
        &self,
        parts: &[Part],
        took: Vec<Acquired>,
        denied: Acquired,
        id: Option<RequestId>,
        deadline: Instant,
    ) -> Acquired {
        let asked = took.len() + 1;
        let looks = self.look(&parts[asked..], deadline);
        self.undo(parts, &took, id, deadline).await;
        let mut outcomes: Vec<Outcome> = took.into_iter().map(Outcome::Returned).collect();
        outcomes.push(Outcome::Decided(denied));
        for look in looks {
            outcomes.push(match joined(look).await {
                Ok(Reply::Acquired(acquired)) => Outcome::Looked(acquired),
                Ok(_) | Err(_) => Outcome::Unseen,
            });
        }
        merge_acquired(parts, &outcomes)
    }

    /// What each part would be answered, asked at the same time; nobody is asked any more once the answer is dropped.
    fn look(&self, parts: &[Part], deadline: Instant) -> Vec<Look> {
        let look = |part: &Part| {
            let (router, part) = (self.clone(), part.clone());
            AbortOnDropHandle::new(tokio::spawn(async move {
                router.preview_shard(part.shard, &part.limits, &part.acquire, deadline).await
            }))
        };
        parts.iter().map(look).collect()
    }

    /// Returns what was taken when nobody will ask again under the same id: see the module.
    async fn undo_unless_retried(
        &self,
        parts: &[Part],
        took: &[Acquired],
        id: Option<RequestId>,
        deadline: Instant,
    ) {
        if id.is_none() {
            self.undo(parts, took, None, deadline).await;
        }
    }

    /// Returns what was taken, in the background; waits a moment for it.
    async fn undo(&self, parts: &[Part], took: &[Acquired], id: Option<RequestId>, deadline: Instant) {
        let until = deadline.min(Instant::now() + RETURN_WAIT);
        let returning = |(part, acquired): (&Part, &Acquired)| {
            let (router, shard, items) = (self.clone(), part.shard, taken(part, acquired));
            (!items.is_empty()).then(|| tokio::spawn(async move { router.give_back(shard, items, id).await }))
        };
        let returns: Vec<_> = parts.iter().zip(took).filter_map(returning).collect();
        for returned in returns {
            // It goes on although nobody waits for it.
            let _ = timeout_at(until, returned).await;
        }
    }

    /// Returns until it is known to be done.
    async fn give_back(&self, shard: ShardId, items: Vec<RefundItem>, id: Option<RequestId>) {
        let meters = self.meters();
        Meters::count(&meters.returns);
        let Ok(_permit) = self.returning().try_acquire_owned() else {
            return Meters::count(&meters.stranded);
        };
        let deadline = Instant::now() + RETURN_MAX;
        // Not one of the sessions that say what they have settled: a copy of a return must find its reply.
        let own = || RequestId { session: rand::random(), seq: 0 };
        let id = id.map_or_else(own, |id| RequestId { session: id.session ^ RETURN_SALT, ..id });
        let refund = Refund { id, items };
        loop {
            let command = Command::Refund(refund.clone());
            match self.ask_one(shard, Vec::new(), command, deadline).await {
                Ok(Reply::Refunded(_)) => return,
                Err(Unanswered::Overloaded) | Ok(Reply::Refused(Refusal::RepliesFull(_)))
                    if Instant::now() < deadline =>
                {
                    sleep(RETURN_PAUSE).await;
                }
                Ok(_) | Err(_) => return Meters::count(&meters.stranded),
            }
        }
    }

    async fn refund(&self, refund: &Refund, shards: Shards, deadline: Instant) -> Result<Reply, Unanswered> {
        let mut units = vec![0; refund.items.len()];
        for (nth, (shard, (part, places))) in split_refund(refund, shards).into_iter().enumerate() {
            let answered = self.ask_one(shard, Vec::new(), Command::Refund(part), deadline).await;
            match answered.map_err(|error| error.of_whole(nth > 0))? {
                Reply::Refunded(returned) => {
                    places.iter().zip(returned).for_each(|(&place, returned)| units[place] = returned);
                }
                other @ (Reply::Refused(_) | Reply::Acquired(_) | Reply::Reset(_) | Reply::Leased(_)) => {
                    return Ok(other);
                }
            }
        }
        Ok(Reply::Refunded(units))
    }

    async fn reset(&self, reset: &Reset, shards: Shards, deadline: Instant) -> Result<Reply, Unanswered> {
        let mut held: u32 = 0;
        for (nth, (shard, part)) in split_reset(reset, shards).into_iter().enumerate() {
            let answered = self.ask_one(shard, Vec::new(), Command::Reset(part), deadline).await;
            match answered.map_err(|error| error.of_whole(nth > 0))? {
                Reply::Reset(part) => held = held.saturating_add(part),
                other @ (Reply::Refused(_) | Reply::Acquired(_) | Reply::Refunded(_) | Reply::Leased(_)) => {
                    return Ok(other);
                }
            }
        }
        Ok(Reply::Reset(held))
    }

    async fn lease(
        &self,
        limits: &[LimitSpec],
        lease: &LeaseCommand,
        shards: Shards,
        deadline: Instant,
    ) -> Result<Reply, Unanswered> {
        let spec = usize::try_from(lease.limit).ok().and_then(|at| limits.get(at));
        let Some(spec) = spec else { return Ok(Reply::Refused(Refusal::Malformed)) };
        let command = Command::Lease(LeaseCommand { limit: 0, ..lease.clone() });
        self.ask_one(shards.of(lease.ask.key), vec![spec.clone()], command, deadline).await
    }

    async fn ask_one(
        &self,
        shard: ShardId,
        limits: Vec<LimitSpec>,
        command: Command,
        deadline: Instant,
    ) -> Result<Reply, Unanswered> {
        let batch = Batch { limits, commands: vec![command], ..Batch::default() };
        let replies = self.ask_shard(shard, batch, deadline).await?;
        Ok(replies.into_iter().next().unwrap_or(Reply::Refused(Refusal::Malformed)))
    }
}

async fn joined(look: Look) -> Result<Reply, Unanswered> {
    look.await.unwrap_or(Err(Unanswered::Deadline))
}
