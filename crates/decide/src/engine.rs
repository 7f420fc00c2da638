//! Decides requests: rules → demands → one acquire → an answer.
//!
//! Invariant: what a request is charged to is charged in one acquire, or nothing is. A limit that can't be asked is
//! answered by what is set aside for that or by its own `on_unavailable`, marked degraded and counted, never by an error.

use std::sync::Arc;
use std::time::Duration;

use leasehold_limit::Decision;
use leasehold_limit::check::{Answer, RETRY_UNDECIDED, Request};
use leasehold_limit::rules::{Rule, RuleBook};
use leasehold_model::{Key, Nanos, RequestId};
use leasehold_shard::{Acquire, Batch, Command, Refusal, Reply, Reset};
use tokio::time::Instant;

use crate::deadline::{Asked, Deadline};
use crate::plan::{Plan, Told};
use crate::region::counter;
use crate::{
    Authority, CheckError, Decider, Host, Proposal, Proposed, Readiness, Region, ResetTarget, bounds,
};

/// How often a request is asked anew because the counters it found were dropped before it was charged. Counters are
/// dropped when they are fresh, so a second time is rare; beyond this it is refused as overload.
const ROUNDS_MAX: u32 = 3;

/// Decides by the rules of a host over an authority.
#[derive(Debug)]
pub struct Engine<A, H> {
    host: H,
    authority: Arc<A>,
    demands_max: usize,
}

impl<A: Authority, H: Host> Engine<A, H> {
    /// An engine whose requests may be charged to `demands_max` counters each; more are refused as invalid.
    pub const fn new(host: H, authority: Arc<A>, demands_max: usize) -> Self {
        Self { host, authority, demands_max }
    }

    /// What it decides in.
    pub const fn host(&self) -> &H {
        &self.host
    }

    /// Whom it asks.
    pub const fn authority(&self) -> &Arc<A> {
        &self.authority
    }
}

impl<A: Authority, H: Host> Decider for Engine<A, H> {
    async fn check<'a>(
        &'a self,
        request: &'a Request<'a>,
        budget: Option<Duration>,
    ) -> Result<Answer, CheckError> {
        let started = Instant::now();
        let active = self.host.active().ok_or_else(|| self.without_rules())?;
        let deadline = Deadline::within(started, budget.or_else(|| self.authority.patience()));
        let planned =
            || Plan::new(&active.book, active.region.as_ref(), request, &active.secret, self.demands_max);
        let mut plan = planned()?;
        let mut settled = self.settle(&mut plan, request.request_id, deadline).await?;
        let mut rounds = 0;
        while settled == Settled::KeysFull {
            self.host.full(request.domain);
            rounds += 1;
            if rounds > ROUNDS_MAX {
                return Err(overloaded("the domain holds as many counters as it may"));
            }
            plan = planned()?;
            self.leave_out_what_has_no_room(&mut plan, deadline).await?;
            settled = self.settle(&mut plan, request.request_id, deadline).await?;
        }
        if settled == Settled::Unreached && plan.sets_aside() {
            // What was asked went with the asking.
            plan = planned()?;
            let stands_in = self.authority.stand_in(&plan.as_asked(), plan.limits(), plan.terms());
            plan.stood_in(&stands_in);
        }
        let answer = plan.into_answer();
        if answer.matched().next().is_none() {
            self.host.unmatched(active.book.domains.contains_key(request.domain));
        }
        // A peek is a look, not a decision.
        if request.descriptors.iter().any(|descriptor| descriptor.cost > 0) {
            self.host.decided(&active.meters, &answer, since(started));
            self.host.asked(&active, request, &answer);
        }
        tracing::trace!(
            domain = request.domain,
            verdict = ?answer.verdict,
            degraded = answer.degraded,
            source = ?answer.matched().filter(|one| one.decision().is_some()).map(|one| one.source).collect::<Vec<_>>(),
            matched = answer.matched().count(),
            "decided"
        );
        Ok(answer)
    }

    async fn reset<'a>(&'a self, target: ResetTarget<'a>) -> Result<u32, CheckError> {
        let active = self.host.active().ok_or_else(|| self.without_rules())?;
        let keys = reset_keys(&active.book, active.region.as_ref(), target)?;
        let deadline = Deadline::within(Instant::now(), self.authority.patience());
        let batch = Batch { commands: vec![Command::Reset(Reset { keys })], ..Batch::default() };
        let proposal = Proposal { batch, terms: Vec::new() };
        match self.authority.propose(proposal, deadline.0).await {
            Ok(Proposed { reply: Reply::Reset(held), .. }) => Ok(held),
            Ok(_) => Err(bounds::invalid("attributes", "they match more rules than one reset may name")),
            Err(error) => Err(overloaded(error)),
        }
    }

    fn request_id(&self, domain: &str, text: &str) -> RequestId {
        let secret = self.host.secret();
        RequestId { session: secret.session(text.as_bytes()), seq: secret.tenant(domain).0 }
    }

    fn readiness(&self) -> Readiness {
        match self.host.readiness() {
            Readiness::Ready => {
                self.authority.health().map_or_else(Readiness::NotReady, |()| Readiness::Ready)
            }
            closed @ Readiness::NotReady(_) => closed,
        }
    }
}

impl<A: Authority, H: Host> Engine<A, H> {
    /// Without rules nothing can be decided, not even that nothing applies.
    fn without_rules(&self) -> CheckError {
        match self.readiness() {
            Readiness::NotReady(reason) => overloaded(reason),
            Readiness::Ready => overloaded("the rules are not known yet"),
        }
    }

    /// Asks the counters. What stays unasked in the plan has its declared failure behaviour stand in.
    async fn settle(
        &self,
        plan: &mut Plan,
        id: Option<RequestId>,
        deadline: Deadline,
    ) -> Result<Settled, CheckError> {
        if plan.demands().is_empty() {
            return Ok(Settled::Done);
        }
        if plan.is_refused() || plan.only_peeks() {
            return self.look(plan, deadline).await;
        }
        self.take(plan, id, deadline).await
    }

    /// A flood of new counters must not switch off the limits whose counters are there: only the demands that need a
    /// new counter count as unavailable, and the rest is charged, unless one of them declares that to be a refusal.
    async fn leave_out_what_has_no_room(
        &self,
        plan: &mut Plan,
        deadline: Deadline,
    ) -> Result<(), CheckError> {
        let looked = told(self.preview(plan, plan.as_peeks(), deadline).await?);
        let Some(Told { acquired: looked, .. }) = looked else { return Ok(()) };
        plan.let_go_of_new(&looked.decisions);
        let asked = self.preview(plan, plan.as_asked(), deadline).await?;
        if has_no_room(&asked) {
            plan.give_up_new(&looked.decisions);
        }
        Ok(())
    }

    /// Takes what is planned, and the demands out of the plan.
    async fn take(
        &self,
        plan: &mut Plan,
        id: Option<RequestId>,
        deadline: Deadline,
    ) -> Result<Settled, CheckError> {
        match deadline.keep(self.authority.propose(plan.take_proposal(id), deadline.0)).await? {
            Asked::Answered(proposed) => settle_by(plan, proposed),
            Asked::Unreached => Ok(Settled::Unreached),
            Asked::Late => Ok(Settled::Done),
        }
    }

    /// Asks without taking: for peeks, and for a request that is refused whatever the counters say.
    async fn look(&self, plan: &mut Plan, deadline: Deadline) -> Result<Settled, CheckError> {
        let asked = self.preview(plan, plan.as_asked(), deadline).await?;
        // Of a request that is refused anyway nothing is set against what is set aside.
        if matches!(asked, Asked::Unreached) && plan.only_peeks() {
            return Ok(Settled::Unreached);
        }
        let Some(mut looked) = told(asked) else { return Ok(Settled::Done) };
        if plan.only_peeks() {
            let no_room = self.without_room(plan, &looked.acquired.decisions, deadline).await?;
            plan.decided(&looked);
            plan.no_room_for(&no_room);
            return Ok(Settled::Done);
        }
        if looked.acquired.admitted {
            // What would be taken isn't: the counters as they are now.
            let seen = told(self.preview(plan, plan.as_peeks(), deadline).await?);
            let Some(seen) = seen else { return Ok(Settled::Done) };
            looked.see(&seen);
        }
        plan.decided(&looked);
        Ok(Settled::Done)
    }

    /// The demands, by place, that a check instead of this peek would find no room for. `looks` are the counters as they
    /// are.
    async fn without_room(
        &self,
        plan: &Plan,
        looks: &[Decision],
        deadline: Deadline,
    ) -> Result<Vec<usize>, CheckError> {
        let new: Vec<_> = (0..looks.len()).filter(|&place| plan.is_new(place, &looks[place])).collect();
        if new.is_empty() {
            return Ok(new);
        }
        let mut checks = plan.as_checks();
        let asked = self.preview(plan, checks.clone(), deadline).await?;
        if !has_no_room(&asked) {
            return Ok(Vec::new());
        }
        plan.let_go_of_new_among(&mut checks, looks);
        Ok(match told(self.preview(plan, checks, deadline).await?) {
            Some(Told { acquired, .. }) if acquired.admitted => {
                new.into_iter().filter(|&place| acquired.decisions[place].granted == 0).collect()
            }
            // Refused by a counter that is there: each says what it holds.
            Some(_) => Vec::new(),
            // Refused by those that declare it: the others aren't charged, and say what they hold.
            None => new.into_iter().filter(|&place| !plan.may_go_uncharged(place)).collect(),
        })
    }

    async fn preview(
        &self,
        plan: &Plan,
        acquire: Acquire,
        deadline: Deadline,
    ) -> Result<Asked<Proposed>, CheckError> {
        deadline.keep(self.authority.preview(plan.limits(), plan.terms(), &acquire, deadline.0)).await
    }
}

/// How far asking the counters got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settled {
    /// What was answered is in the plan.
    Done,
    /// Nothing was charged: some demand needs a new counter, and there is no room for one.
    KeysFull,
    /// Nobody could be asked, or it isn't known what was answered.
    Unreached,
}

/// What was answered of every demand, if that is what was answered.
fn told(asked: Asked<Proposed>) -> Option<Told> {
    match asked {
        Asked::Answered(Proposed { reply: Reply::Acquired(acquired), sources }) => {
            Some(Told { acquired, sources })
        }
        Asked::Answered(_) | Asked::Unreached | Asked::Late => None,
    }
}

const fn has_no_room(asked: &Asked<Proposed>) -> bool {
    matches!(asked, Asked::Answered(Proposed { reply: Reply::Refused(Refusal::KeysFull(_)), .. }))
}

fn settle_by(plan: &mut Plan, Proposed { reply, sources }: Proposed) -> Result<Settled, CheckError> {
    match reply {
        Reply::Acquired(acquired) => plan.taken(&Told { acquired, sources }),
        Reply::Refused(Refusal::RequestIdReused) => return Err(CheckError::RequestIdReused),
        Reply::Refused(Refusal::KeysFull(_)) => return Ok(Settled::KeysFull),
        // To let it pass would be to let everybody pass who makes up enough ids.
        Reply::Refused(refusal @ Refusal::RepliesFull(_)) => return Err(overloaded(refusal)),
        Reply::Refused(Refusal::Malformed) | Reply::Refunded(_) | Reply::Reset(_) | Reply::Leased(_) => {
            tracing::error!(?reply, "an acquire was answered with this: please report it");
        }
    }
    Ok(Settled::Done)
}

/// Time since then, as far as it can be told.
fn since(started: Instant) -> Nanos {
    Nanos(u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

pub(crate) fn overloaded(reason: impl ToString) -> CheckError {
    CheckError::Overloaded { reason: reason.to_string(), retry_after: RETRY_UNDECIDED }
}

fn reset_keys(
    book: &RuleBook,
    region: Option<&Region>,
    target: ResetTarget<'_>,
) -> Result<Vec<Key>, CheckError> {
    let Some(domain) = book.domains.get(target.domain) else {
        return Err(bounds::invalid("domain", "no rules are loaded for it"));
    };
    if let Some(name) = target.rule
        && !domain.rules.iter().any(|rule| *rule.name == *name)
    {
        return Err(bounds::invalid("rule", "the domain has no rule of this name"));
    }
    let named = |rule: &&Arc<Rule>| target.rule.is_none_or(|name| *rule.name == *name);
    let matched = domain.rules.iter().filter(named).filter_map(|rule| Rule::matched(rule, target.attributes));
    Ok(matched.filter_map(|matched| Some(counter(region, &matched.rule, matched.key?))).collect())
}

#[cfg(test)]
mod tests;
