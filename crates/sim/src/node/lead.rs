//! A group's replica, as its leader serves it: what is settled is answered at once, the rest goes into one entry at a time.
//!
//! Invariant: what waits is bounded. Whoever waits is answered, told that nothing was done, or never hears of it: that is an
//! unknown outcome.

use std::collections::VecDeque;
use std::rc::Rc;

use leasehold_model::RequestId;
use leasehold_model::planted::{self, Bug};
use leasehold_shard::{Acquire, Acquired, Batch, Command, LeaseCommand, LimitSpec, Reply};

use super::Node;
use crate::clocks::SECOND;
use crate::ctx::{Asked, Ctx, Message, Outcome, What};
use crate::log::{Body, Out, Replica};
use crate::machine::Machine;
use crate::net::Place;
use crate::reached::State;

/// What waits for the next entry. At the bound nothing more is taken.
const WAITING_MAX: usize = 256;
/// Commands of one entry.
const COMMANDS_MAX: usize = 64;

/// One replica and its machine.
#[derive(Debug)]
pub(crate) struct Seat {
    /// The replica.
    pub(crate) replica: Replica,
    /// What it applies to.
    pub(crate) machine: Machine,
    waiting: VecDeque<(Rc<Asked>, Back)>,
    /// The entry under way.
    pub(super) flying: Option<Flying>,
    pub(super) since_snapshot: u64,
}

/// An entry under way, and who waits for it.
#[derive(Debug)]
pub(super) struct Flying {
    pub(super) index: u64,
    pub(super) term: u64,
    pub(super) backs: Vec<(Back, Option<RequestId>)>,
}

/// Who is to be answered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Back {
    /// A job of this node, on this try.
    Here(u64, u32),
    /// Another node's call.
    There(usize, (u64, u32, u64)),
}

impl Seat {
    pub(super) fn new(replica: Replica, machine: Machine) -> Self {
        Self { replica, machine, waiting: VecDeque::new(), flying: None, since_snapshot: 0 }
    }
}

impl Node {
    /// Somebody takes this node for a group's leader.
    pub(crate) fn serve(&mut self, group: usize, asked: Rc<Asked>, back: Back, ctx: &mut Ctx) {
        if let Some(outcome) = self.look_up(group, &asked, ctx) {
            return self.answer(group, back, id_of(&asked), outcome, ctx);
        }
        let Some(seat) = self.seats.get_mut(&group) else { return };
        if seat.waiting.len() >= WAITING_MAX {
            return self.answer(group, back, None, Outcome::Overloaded, ctx);
        }
        seat.waiting.push_back((asked, back));
        self.pump(group, ctx);
    }

    /// The answer, if it needs no entry.
    fn look_up(&mut self, group: usize, asked: &Asked, ctx: &mut Ctx) -> Option<Outcome> {
        let hinted = self.hints.get(&group) == Some(&self.id);
        let Some(seat) = self.seats.get_mut(&group) else { return Some(Outcome::NotLeader(None)) };
        let term = seat.replica.term();
        if !seat.replica.serves() {
            if planted::is(Bug::FollowerGrants) || (planted::is(Bug::GossipPicksOwner) && hinted) {
                return granted_alone(seat, asked);
            }
            return Some(Outcome::NotLeader(seat.replica.leader().filter(|leader| *leader != self.id)));
        }
        if ctx.watch.is_deposed(group, term) {
            ctx.watch.reached.note(State::DeposedAsked);
        }
        let now = self.clocks.boot(ctx.now);
        if !seat.replica.holds_lease(now) {
            return None;
        }
        let stamp = seat.machine.stamp(term, &self.clocks, ctx.now);
        let What::Shard(command) = &asked.what else { return None };
        let shard = seat.machine.shard()?;
        let reply = match command {
            Command::Acquire(acquire) => shard.settled(&asked.limits, acquire, stamp),
            Command::Lease(lease) => shard.settled_lease(&asked.limits, lease, stamp),
            Command::Refund(_) | Command::Reset(_) => None,
        }?;
        ctx.watch.served(group, term, self.id, ctx.now);
        Some(Outcome::Reply(reply))
    }

    /// Puts what waits into an entry, when none is under way.
    pub(super) fn pump(&mut self, group: usize, ctx: &mut Ctx) {
        let Some(seat) = self.seats.get_mut(&group) else { return };
        if !seat.replica.is_leader() {
            // What is under way may still be committed: nobody knows.
            seat.flying = None;
            let leader = seat.replica.leader();
            for (_, back) in std::mem::take(&mut seat.waiting) {
                self.answer(group, back, None, Outcome::NotLeader(leader), ctx);
            }
            return;
        }
        if seat.flying.is_some() || seat.waiting.is_empty() || !seat.replica.serves() || seat.replica.full {
            return;
        }
        let taken = match group {
            0 => 1,
            _ => seat.waiting.len().min(COMMANDS_MAX),
        };
        let taken: Vec<(Rc<Asked>, Back)> = seat.waiting.drain(..taken).collect();
        let body = match &taken[0].0.what {
            What::Control(command) => Body::Control(command.clone()),
            What::Shard(_) => Body::Shard(gather(&taken, ctx)),
        };
        let backs = taken.into_iter().map(|(asked, back)| (back, id_of(&asked))).collect();
        self.propose(group, body, backs, ctx);
    }

    /// An idle shard forgets.
    pub(super) fn tick_shard(&mut self, group: usize, ctx: &mut Ctx) {
        let Some(seat) = self.seats.get_mut(&group) else { return };
        ctx.watch.look(&seat.machine, seat.replica.entries(), ctx.now);
        // At the end all replicas come to the same.
        let goes_on = ctx.now + SECOND < ctx.plan.end_at;
        if goes_on && group > 0 && seat.replica.serves() && seat.flying.is_none() && !seat.replica.full {
            let batch = Batch { bounds: Some(ctx.plan.bounds), ..Batch::default() };
            self.propose(group, Body::Shard(batch), Vec::new(), ctx);
        }
    }

    fn propose(&mut self, group: usize, body: Body, backs: Vec<(Back, Option<RequestId>)>, ctx: &mut Ctx) {
        let now = self.boot(ctx);
        let Some(seat) = self.seats.get_mut(&group) else { return };
        let term = seat.replica.term();
        let stamp = seat.machine.stamp(term, &self.clocks, ctx.now);
        let mut out = Out::default();
        let proposed = (ctx.now, self.id, self.life);
        if let Some(index) = seat.replica.propose(body, stamp, proposed, now, &mut out) {
            seat.flying = Some(Flying { index, term, backs });
        }
        self.absorb(group, out, ctx);
    }

    /// Answers somebody.
    pub(super) fn answer(
        &mut self,
        group: usize,
        back: Back,
        id: Option<RequestId>,
        outcome: Outcome,
        ctx: &mut Ctx,
    ) {
        if let (Some(id), Outcome::Reply(reply)) = (id, &outcome) {
            let restored = self.seats.get(&group).map_or(0, |seat| seat.machine.restored_at);
            ctx.watch.telling((group, self.id), id, reply, restored, ctx.now);
        }
        match back {
            Back::Here(job, attempt) => self.job_answered(job, attempt, outcome, ctx),
            Back::There(node, call) => {
                ctx.send(Place::Node(self.id), Place::Node(node), Message::Routed { call, outcome });
            }
        }
    }
}

/// The id of what is asked.
fn id_of(asked: &Asked) -> Option<RequestId> {
    match &asked.what {
        What::Shard(Command::Acquire(Acquire { id, .. }) | Command::Lease(LeaseCommand { id, .. })) => *id,
        What::Shard(Command::Refund(refund)) => Some(refund.id),
        What::Shard(Command::Reset(_)) | What::Control(_) => None,
    }
}

/// One batch of all that is asked.
fn gather(taken: &[(Rc<Asked>, Back)], ctx: &Ctx) -> Batch {
    let mut batch = Batch { bounds: Some(ctx.plan.bounds), ..Batch::default() };
    for (asked, _) in taken {
        let What::Shard(command) = &asked.what else { continue };
        let first = u32::try_from(batch.limits.len()).unwrap_or(u32::MAX);
        batch.limits.extend(asked.limits.iter().cloned());
        batch.settled.extend(asked.settled);
        let mut command = command.clone();
        match &mut command {
            Command::Acquire(acquire) => acquire.demands.iter_mut().for_each(|demand| demand.limit += first),
            Command::Lease(lease) => lease.limit += first,
            Command::Refund(_) | Command::Reset(_) => {}
        }
        batch.commands.push(command);
    }
    batch
}

/// What a replica would say that asks nobody: the bug, where it is planted.
fn granted_alone(seat: &Seat, asked: &Asked) -> Option<Outcome> {
    let What::Shard(Command::Acquire(acquire)) = &asked.what else {
        return Some(Outcome::NotLeader(seat.replica.leader()));
    };
    let limits: &[LimitSpec] = &asked.limits;
    let shard = seat.machine.shard()?;
    let reply = shard.preview(limits, acquire, shard.last());
    match reply {
        Reply::Acquired(Acquired { admitted: true, .. }) => Some(Outcome::Reply(reply)),
        Reply::Acquired(_) | Reply::Refunded(_) | Reply::Reset(_) | Reply::Refused(_) | Reply::Leased(_) => {
            Some(Outcome::NotLeader(None))
        }
    }
}
