//! Decides requests: rules → demands → one acquire → an answer.
//!
//! Invariant: what a request is charged to is charged in one acquire, or nothing is. A limit that can't be asked is
//! answered by its own `on_unavailable`, marked degraded and counted, never by an error.

mod plan;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use leasehold_front::{CheckError, Decider, Readiness, ResetTarget, bounds};
use leasehold_limit::Decision;
use leasehold_limit::check::{Answer, RETRY_UNDECIDED, Request};
use leasehold_limit::rules::{Rule, RuleBook};
use leasehold_model::{Key, RequestId};
use leasehold_shard::{Acquire, Batch, Command, LimitSpec, Refusal, Reply, Reset};
use tokio::time::Instant;

use crate::authority::{Authority, ProposeError};
use crate::clock;
use crate::core::Core;
use plan::Plan;

/// How often a request is asked anew because the counters it found were dropped before it was charged. Counters are
/// dropped when they are fresh, so a second time is rare; beyond this it is refused as overload.
const ROUNDS_MAX: u32 = 3;

impl<A: Authority> Decider for Core<A> {
    async fn check<'a>(
        &'a self,
        request: &'a Request<'a>,
        budget: Option<Duration>,
    ) -> Result<Answer, CheckError> {
        let started = clock::boot();
        let active = self.rules.active().ok_or_else(|| self.without_rules())?;
        let deadline = Deadline::within(budget.or_else(|| self.authority.patience()));
        let planned = || Plan::new(&active.book, request, &active.secret, self.demands_max);
        let mut plan = planned()?;
        let mut rounds = 0;
        while self.settle(&mut plan, request.request_id, deadline).await? == Settled::KeysFull {
            self.fullness.note(request.domain);
            rounds += 1;
            if rounds > ROUNDS_MAX {
                return Err(overloaded("the domain holds as many counters as it may"));
            }
            plan = planned()?;
            self.leave_out_what_has_no_room(&mut plan, deadline).await?;
        }
        let answer = plan.into_answer();
        if answer.matched().next().is_none() {
            self.metrics.unmatched(active.book.domains.contains_key(request.domain));
        }
        // A peek is a look, not a decision.
        if request.descriptors.iter().any(|descriptor| descriptor.cost > 0) {
            self.metrics.decided(&active.meters, &answer, clock::boot().since(started));
        }
        tracing::trace!(
            domain = request.domain,
            verdict = ?answer.verdict,
            degraded = answer.degraded,
            matched = answer.matched().count(),
            "decided"
        );
        Ok(answer)
    }

    async fn reset<'a>(&'a self, target: ResetTarget<'a>) -> Result<u32, CheckError> {
        let active = self.rules.active().ok_or_else(|| self.without_rules())?;
        let keys = reset_keys(&active.book, target)?;
        let deadline = Deadline::within(self.authority.patience());
        let batch =
            Batch { limits: Vec::new(), commands: vec![Command::Reset(Reset { keys })], ..Batch::default() };
        match self.authority.propose(batch, deadline.0).await.as_deref() {
            Ok([Reply::Reset(held)]) => Ok(*held),
            Ok(_) => Err(bounds::invalid("attributes", "they match more rules than one reset may name")),
            Err(error) => Err(overloaded(error)),
        }
    }

    fn request_id(&self, domain: &str, text: &str) -> RequestId {
        let secret = self.rules.secret();
        RequestId { session: secret.session(text.as_bytes()), seq: secret.tenant(domain).0 }
    }

    fn readiness(&self) -> Readiness {
        Core::readiness(self)
    }
}

impl<A: Authority> Core<A> {
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
            self.look(plan, deadline).await?;
            return Ok(Settled::Done);
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
        let looked = self.preview(plan.limits(), plan.as_peeks(), deadline).await?;
        let Some(Reply::Acquired(looked)) = looked else { return Ok(()) };
        plan.let_go_of_new(&looked.decisions);
        let asked = self.preview(plan.limits(), plan.as_asked(), deadline).await?;
        if let Some(Reply::Refused(Refusal::KeysFull(_))) = asked {
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
        let asked = deadline.keep(self.authority.propose(plan.take_batch(id), deadline.0)).await?;
        match asked.and_then(|mut replies| replies.pop()) {
            Some(reply) => settle_by(plan, reply),
            None => Ok(Settled::Done),
        }
    }

    /// Asks without taking: for peeks, and for a request that is refused whatever the counters say.
    async fn look(&self, plan: &mut Plan, deadline: Deadline) -> Result<(), CheckError> {
        let asked = self.preview(plan.limits(), plan.as_asked(), deadline).await?;
        let Some(Reply::Acquired(mut looked)) = asked else { return Ok(()) };
        if plan.only_peeks() {
            let no_room = self.without_room(plan, &looked.decisions, deadline).await?;
            plan.decided(&looked);
            plan.no_room_for(&no_room);
            return Ok(());
        }
        if looked.admitted {
            // What would be taken isn't: the counters as they are now.
            let seen = self.preview(plan.limits(), plan.as_peeks(), deadline).await?;
            let Some(Reply::Acquired(seen)) = seen else { return Ok(()) };
            for (asked, seen) in looked.decisions.iter_mut().zip(seen.decisions) {
                // A shadow's refusal stays one.
                if asked.allowed {
                    *asked = seen;
                }
            }
        }
        plan.decided(&looked);
        Ok(())
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
        let asked = self.preview(plan.limits(), checks.clone(), deadline).await?;
        let Some(Reply::Refused(Refusal::KeysFull(_))) = asked else { return Ok(Vec::new()) };
        plan.let_go_of_new_among(&mut checks, looks);
        Ok(match self.preview(plan.limits(), checks, deadline).await? {
            Some(Reply::Acquired(asked)) if asked.admitted => {
                new.into_iter().filter(|&place| asked.decisions[place].granted == 0).collect()
            }
            // Refused by a counter that is there: each says what it holds.
            Some(Reply::Acquired(_)) => Vec::new(),
            // Refused by those that declare it: the others aren't charged, and say what they hold.
            _ => new.into_iter().filter(|&place| !plan.may_go_uncharged(place)).collect(),
        })
    }

    async fn preview(
        &self,
        limits: &[LimitSpec],
        acquire: Acquire,
        deadline: Deadline,
    ) -> Result<Option<Reply>, CheckError> {
        deadline.keep(self.authority.preview(limits, &acquire, deadline.0)).await
    }
}

/// How far asking the counters got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settled {
    /// What was answered is in the plan.
    Done,
    /// Nothing was charged: some demand needs a new counter, and there is no room for one.
    KeysFull,
}

/// Until when the caller waits. `None`: as long as it takes.
#[derive(Clone, Copy, Debug)]
struct Deadline(Option<Instant>);

impl Deadline {
    fn within(budget: Option<Duration>) -> Self {
        // Beyond what the clock can tell is no deadline.
        Self(budget.and_then(|budget| Instant::now().checked_add(budget)))
    }

    /// What an authority answers in time. `None`: it didn't, and the declared failure behaviour stands in.
    async fn keep<T>(
        self,
        asked: impl Future<Output = Result<T, ProposeError>>,
    ) -> Result<Option<T>, CheckError> {
        // Not worth a counter's time. An answer that nobody waits for must not be charged, so it isn't even begun.
        if self.0.is_some_and(|deadline| deadline <= Instant::now()) {
            return Ok(None);
        }
        match asked.await {
            Ok(answer) => Ok(Some(answer)),
            Err(error @ ProposeError::Unreachable) => {
                tracing::debug!(%error, "not decided");
                Ok(None)
            }
            Err(error @ ProposeError::Overloaded(_)) => Err(overloaded(error)),
        }
    }
}

fn settle_by(plan: &mut Plan, reply: Reply) -> Result<Settled, CheckError> {
    match reply {
        Reply::Acquired(acquired) => plan.taken(&acquired),
        Reply::Refused(Refusal::RequestIdReused) => return Err(CheckError::RequestIdReused),
        Reply::Refused(Refusal::KeysFull(_)) => return Ok(Settled::KeysFull),
        // To let it pass would be to let everybody pass who makes up enough ids.
        Reply::Refused(refusal @ Refusal::RepliesFull(_)) => return Err(overloaded(refusal)),
        Reply::Refused(Refusal::Malformed) | Reply::Refunded(_) | Reply::Reset(_) => {
            tracing::error!(?reply, "an acquire was answered with this: please report it");
        }
    }
    Ok(Settled::Done)
}

fn overloaded(reason: impl ToString) -> CheckError {
    CheckError::Overloaded { reason: reason.to_string(), retry_after: RETRY_UNDECIDED }
}

fn reset_keys(book: &RuleBook, target: ResetTarget<'_>) -> Result<Vec<Key>, CheckError> {
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
    Ok(matched.filter_map(|matched| matched.key).collect())
}

#[cfg(test)]
mod tests;
