//! What a node wants of a group's leader, wherever that is: asked again under the same id until a leader answers or time is up.

use std::rc::Rc;

use leasehold_model::RequestId;
use leasehold_model::planted::{self, Bug};
use leasehold_shard::{Acquire, Command, LeaseCommand, Reply};

use super::{Back, Node};
use crate::clocks::{MILLI, Time};
use crate::ctx::{Asked, Ctx, Event, Message, Outcome, What};
use crate::net::Place;

/// A try has an answer within this, or it is tried again.
const PATIENCE: Time = 250 * MILLI;
/// A pause before somebody else is asked.
const PAUSE: Time = 20 * MILLI;

/// See the module.
#[derive(Debug)]
pub(crate) struct Job {
    group: usize,
    asked: Rc<Asked>,
    /// By the node's monotonic clock.
    deadline: u64,
    attempt: u32,
    /// An answer to this try is awaited.
    pending: bool,
    hint: Option<usize>,
    /// Whether a try may have been carried out.
    maybe: bool,
    cont: Cont,
}

/// What becomes of a job's answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cont {
    /// The next part of a request.
    Part(u64),
    /// A part of a request came back.
    Return(RequestId),
    /// An edge's ask.
    Ask(usize, RequestId),
    /// This node's own ask, as a broker.
    Own(RequestId),
    /// An operator's wish.
    Operator,
}

/// A job that came to nothing; whether anything may have been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    /// Whether it may have been.
    pub(crate) maybe: bool,
}

impl Node {
    /// Begins one.
    pub(crate) fn job(&mut self, group: usize, asked: Asked, budget: Time, cont: Cont, ctx: &mut Ctx) {
        self.next += 1;
        let deadline = self.clocks.monotonic(ctx.now) + budget;
        let asked = Rc::new(asked);
        let job = Job { group, asked, deadline, attempt: 0, pending: false, hint: None, maybe: false, cont };
        self.jobs.insert(self.next, job);
        self.try_job(self.next, ctx);
    }

    /// Whether an edge's ask is under way.
    pub(super) fn asks_for(&self, edge: usize, id: RequestId) -> bool {
        self.jobs.values().any(|job| matches!(job.cont, Cont::Ask(of, under) if of == edge && under == id))
    }

    /// Whether an ask of its own is under way.
    pub(super) fn asks_itself(&self, id: RequestId) -> bool {
        self.jobs.values().any(|job| matches!(job.cont, Cont::Own(under) if under == id))
    }

    fn try_job(&mut self, id: u64, ctx: &mut Ctx) {
        let Some(job) = self.jobs.get(&id) else { return };
        let (group, hint) = (job.group, job.hint);
        let peers = &self.groups[group];
        let to = hint.or_else(|| self.leader(group)).unwrap_or_else(|| *ctx.chance.pick(peers));
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.attempt += 1;
        job.pending = true;
        job.hint = None;
        if job.attempt > 1 && job.maybe && planted::is(Bug::RetryUnderNewId) {
            job.asked = Rc::new(renumbered(&job.asked, ctx));
        }
        let (asked, attempt) = (Rc::clone(&job.asked), job.attempt);
        ctx.at(ctx.now + PATIENCE, Event::Job { node: self.id, life: self.life, job: id, attempt });
        if to == self.id {
            self.serve(group, asked, Back::Here(id, attempt), ctx);
        } else {
            let call = (id, attempt, self.life);
            ctx.send(Place::Node(self.id), Place::Node(to), Message::Route { call, group, asked });
        }
    }

    /// A try was answered.
    pub(crate) fn job_answered(&mut self, id: u64, attempt: u32, outcome: Outcome, ctx: &mut Ctx) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        match outcome {
            // Whichever try it answers, it is the answer to the ask.
            Outcome::Reply(reply) => self.end_job(id, Ok(Some(reply)), ctx),
            Outcome::Control(_) => self.end_job(id, Ok(None), ctx),
            Outcome::NotLeader(leader) if attempt == job.attempt => {
                job.hint = leader;
                job.pending = false;
                // Two that take each other for the leader are asked less and less often.
                let known = MILLI << attempt.min(6);
                self.pause(id, if leader.is_some() { known } else { PAUSE.max(known) }, ctx);
            }
            Outcome::Overloaded if attempt == job.attempt => {
                job.pending = false;
                self.pause(id, 5 * PAUSE, ctx);
            }
            Outcome::NotLeader(_) | Outcome::Overloaded => {}
        }
    }

    fn pause(&mut self, id: u64, pause: Time, ctx: &mut Ctx) {
        let Some(job) = self.jobs.get(&id) else { return };
        let at = ctx.now + pause + ctx.chance.below(pause);
        ctx.at(at, Event::Job { node: self.id, life: self.life, job: id, attempt: job.attempt });
    }

    /// A try has waited long enough, or a pause is over.
    pub(crate) fn job_due(&mut self, id: u64, attempt: u32, ctx: &mut Ctx) {
        let now = self.clocks.monotonic(ctx.now);
        let Some(job) = self.jobs.get_mut(&id).filter(|job| job.attempt == attempt) else { return };
        job.maybe |= job.pending;
        if now < job.deadline {
            return self.try_job(id, ctx);
        }
        let failed = Failed { maybe: job.maybe };
        self.end_job(id, Err(failed), ctx);
    }

    fn end_job(&mut self, id: u64, answer: Result<Option<Reply>, Failed>, ctx: &mut Ctx) {
        let Some(job) = self.jobs.remove(&id) else { return };
        match job.cont {
            Cont::Part(check) => self.part_done(check, answer, ctx),
            Cont::Return(request) => {
                if !matches!(answer, Ok(Some(Reply::Refunded(_)))) {
                    ctx.watch.lost_return(request);
                }
            }
            Cont::Ask(edge, ask) => self.ask_done(edge, ask, answer, ctx),
            Cont::Own(ask) => self.own_done(ask, answer, ctx),
            Cont::Operator => {}
        }
    }

    /// Requests whose returns are under way here.
    pub(crate) fn returns(&self) -> impl Iterator<Item = RequestId> {
        self.jobs.values().filter_map(|job| match job.cont {
            Cont::Return(id) => Some(id),
            Cont::Part(_) | Cont::Ask(..) | Cont::Own(_) | Cont::Operator => None,
        })
    }
}

/// The same under another id: the bug, where it is planted.
fn renumbered(asked: &Asked, ctx: &mut Ctx) -> Asked {
    let mut asked = asked.clone();
    let new = RequestId { session: ctx.chance.session(), seq: 0 };
    match &mut asked.what {
        What::Shard(Command::Acquire(Acquire { id, .. }) | Command::Lease(LeaseCommand { id, .. })) => {
            *id = Some(new)
        }
        What::Shard(Command::Refund(_) | Command::Reset(_)) | What::Control(_) => {}
    }
    asked
}
