//! Decides requests: rules → demands → one acquire → an answer.
//!
//! Invariant: what a request is charged to is charged in one acquire, or nothing is. A limit that can't be asked is
//! answered by its own `on_unavailable`, marked degraded and counted, never by an error.

mod plan;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use leasehold_front::{CheckError, Decider, Readiness, ResetTarget, bounds};
use leasehold_limit::check::{Answer, Request};
use leasehold_limit::rules::{Rule, RuleBook};
use leasehold_model::{Key, Nanos, RequestId};
use leasehold_shard::{Acquire, Batch, Command, LimitSpec, Refusal, Reply, Reset};

use crate::authority::{Authority, ProposeError};
use crate::clock::BootTime;
use crate::core::Core;
use plan::Plan;

/// When to try a reset again that nobody could carry out.
const RESET_RETRY_AFTER: Nanos = Nanos::from_secs(1);

impl<A: Authority> Decider for Core<A> {
    async fn check<'a>(
        &'a self,
        request: &'a Request<'a>,
        budget: Option<Duration>,
    ) -> Result<Answer, CheckError> {
        let started = BootTime::now();
        let active = self.rules.active();
        let planned = || Plan::new(&active.book, request, self.rules.secret(), self.demands_max);
        let mut plan = planned()?;
        // A peek is a look, not a decision.
        let counted = request.descriptors.iter().any(|descriptor| descriptor.cost > 0);
        if self.settle(&mut plan, request.request_id, budget).await != Settled::Done {
            // A retry of what was charged in part, for want of room, comes as a different request under its id.
            plan = planned()?;
            let settled = self.take_what_is_held(&mut plan, request.request_id, budget).await;
            if settled == Settled::RequestIdReused {
                return Err(CheckError::RequestIdReused);
            }
        }
        let answer = plan.into_answer();
        if answer.matched().next().is_none() {
            self.metrics.unmatched(active.book.domains.contains_key(request.domain));
        }
        if counted {
            self.metrics.decided(&active.meters, &answer, BootTime::now().since(started));
        }
        Ok(answer)
    }

    async fn reset<'a>(&'a self, target: ResetTarget<'a>) -> Result<u32, CheckError> {
        let active = self.rules.active();
        let keys = reset_keys(&active.book, target)?;
        let batch = Batch { limits: Vec::new(), commands: vec![Command::Reset(Reset { keys })] };
        match self.authority.propose(batch).await.as_deref() {
            Ok([Reply::Reset(held)]) => Ok(*held),
            Ok(_) => Err(bounds::invalid("attributes", "they match more rules than one reset may name")),
            Err(ProposeError) => Err(CheckError::Overloaded {
                reason: "the counters cannot be reached".to_owned(),
                retry_after: RESET_RETRY_AFTER,
            }),
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
    /// Asks the counters. What stays unasked in the plan has its declared failure behaviour stand in.
    async fn settle(&self, plan: &mut Plan, id: Option<RequestId>, budget: Option<Duration>) -> Settled {
        if plan.demands().is_empty() {
            return Settled::Done;
        }
        if plan.is_refused() || plan.only_peeks() {
            self.look(plan, budget).await;
            return Settled::Done;
        }
        self.take(plan, id, budget).await
    }

    /// A flood of new counters must not switch off the limits whose counters are there: only the demands that need a
    /// new counter count as unavailable, and the rest is charged, unless one of them declares that to be a refusal.
    async fn take_what_is_held(
        &self,
        plan: &mut Plan,
        id: Option<RequestId>,
        budget: Option<Duration>,
    ) -> Settled {
        let mut held = Vec::with_capacity(plan.demands().len());
        for demand in plan.demands() {
            let alone = Acquire { id: None, demands: vec![*demand] };
            let reply = within(budget, self.authority.preview(plan.limits(), &alone)).await;
            held.push(matches!(reply, Some(Reply::Acquired(_))));
        }
        plan.give_up_all_but(&held);
        self.settle(plan, id, budget).await
    }

    /// Takes what is planned, and the demands out of the plan.
    async fn take(&self, plan: &mut Plan, id: Option<RequestId>, budget: Option<Duration>) -> Settled {
        let asked = within(budget, self.authority.propose(plan.take_batch(id))).await;
        match asked.and_then(|mut replies| replies.pop()) {
            Some(reply) => settle_by(plan, reply),
            None => Settled::Done,
        }
    }

    /// Asks without taking: for peeks, and for a request that is refused whatever the counters say.
    async fn look(&self, plan: &mut Plan, budget: Option<Duration>) {
        let asked = self.preview(plan.limits(), plan.as_asked(), budget).await;
        let looked = match asked {
            // What would be taken isn't: the counters as they are now.
            Some(Reply::Acquired(acquired)) if acquired.admitted && !plan.only_peeks() => {
                self.preview(plan.limits(), plan.as_peeks(), budget).await
            }
            other => other,
        };
        if let Some(Reply::Acquired(acquired)) = looked {
            plan.decided(&acquired.decisions);
        }
    }

    async fn preview(
        &self,
        limits: &[LimitSpec],
        acquire: Acquire,
        budget: Option<Duration>,
    ) -> Option<Reply> {
        within(budget, self.authority.preview(limits, &acquire)).await
    }
}

/// How far asking the counters got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settled {
    /// What was answered is in the plan.
    Done,
    /// Nothing was charged: some demand needs a new counter, and there is no room for one.
    KeysFull,
    /// Nothing was charged: the id was used for other demands.
    RequestIdReused,
}

/// What an authority answers within the budget. `None`: it didn't, and the declared failure behaviour stands in.
async fn within<T>(
    budget: Option<Duration>,
    asked: impl Future<Output = Result<T, ProposeError>>,
) -> Option<T> {
    let answered = match budget {
        None => asked.await,
        // A deadline that has passed is not worth a counter's time, nor is it certain to be seen by a timer.
        Some(Duration::ZERO) => return None,
        Some(budget) => tokio::time::timeout(budget, asked).await.unwrap_or(Err(ProposeError)),
    };
    answered.inspect_err(|error| tracing::debug!(%error, "not decided")).ok()
}

fn settle_by(plan: &mut Plan, reply: Reply) -> Settled {
    match reply {
        Reply::Acquired(acquired) => {
            plan.decided(&acquired.decisions);
            Settled::Done
        }
        Reply::Refused(Refusal::RequestIdReused) => Settled::RequestIdReused,
        Reply::Refused(Refusal::KeysFull(_)) => Settled::KeysFull,
        Reply::Refused(refusal @ Refusal::RepliesFull(_)) => {
            tracing::debug!(%refusal, "not decided");
            Settled::Done
        }
        Reply::Refused(Refusal::Malformed) | Reply::Refunded(_) | Reply::Reset(_) => {
            tracing::error!(?reply, "an acquire was answered with this: please report it");
            Settled::Done
        }
    }
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
