//! Who may change counters: a shard behind a lock, the leader of a key's shard, or leases of it.

use std::future::Future;
use std::time::Duration;

use leasehold_limit::check::Source;
use leasehold_limit::rules::{Lease, Matched, OnUnavailable, Scope};
use leasehold_limit::{Decision, Share};
use leasehold_shard::{Acquire, Batch, LimitSpec, Reply};
use tokio::time::Instant;

/// Decides commands in one order, and answers.
pub trait Authority: Send + Sync + 'static {
    /// How long a caller who names no time is kept waiting at most. `None`: nothing here makes anybody wait.
    fn patience(&self) -> Option<Duration>;

    /// Carries out the one command of a proposal. Nothing happens before the future is polled, and it ends by `deadline`.
    ///
    /// # Errors
    /// It could not be carried out, or it isn't known whether it was. A retry under the same request ids is safe.
    fn propose(
        &self,
        proposal: Proposal,
        deadline: Option<Instant>,
    ) -> impl Future<Output = Result<Proposed, ProposeError>> + Send;

    /// What an acquire would be answered now. Takes and records nothing, and ends by `deadline`. `terms[i]` belongs to
    /// `limits[i]`.
    ///
    /// # Errors
    /// Nobody who knows can be asked.
    fn preview(
        &self,
        limits: &[LimitSpec],
        terms: &[Terms],
        acquire: &Acquire,
        deadline: Option<Instant>,
    ) -> impl Future<Output = Result<Proposed, ProposeError>> + Send;

    /// Decides an acquire that was just answered with [`ProposeError::Unreachable`] by what was set aside here for that
    /// case. One for each demand, in order, `None` where nothing is set aside; or empty: nothing is, for any of them.
    ///
    /// All or none: where an enforced demand is refused, or has nothing set aside and its terms don't let it pass, nothing
    /// is taken.
    fn stand_in(&self, acquire: &Acquire, limits: &[LimitSpec], terms: &[Terms]) -> Vec<Option<Decision>> {
        let _ = (acquire, limits, terms);
        Vec::new()
    }

    /// Why traffic should not come here although the doors are open and the rules are known.
    ///
    /// # Errors
    /// The reason.
    fn health(&self) -> Result<(), String>;
}

/// One command for counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// Its limits and exactly one command.
    pub batch: Batch,
    /// `terms[i]` belongs to `batch.limits[i]`.
    pub terms: Vec<Terms>,
}

/// What a rule says of its limit besides numbers: who may decide it, and what stands in when nobody can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Whether edges may hold tokens.
    pub lease: Lease,
    /// Who counts together.
    pub scope: Scope,
    /// What happens when it can't be decided.
    pub on_unavailable: OnUnavailable,
    /// What each of `edges` may spend by itself while it can't reach the owner, as a part of what the owner decides by,
    /// which is the rest. `None`: nothing is set aside.
    pub local: Option<Share>,
    /// What each of `edges` may admit on top, as a part of what the owner decides by. `None`: the limit is never exceeded.
    pub overshoot: Option<Share>,
    /// Among how many edges these are shared out: those whose number is below it.
    pub edges: u16,
}

impl Terms {
    /// As a rule has them for its numbers.
    #[must_use]
    pub fn of(matched: &Matched) -> Self {
        let Matched { rule, escrow, .. } = matched;
        Self {
            lease: rule.lease,
            scope: rule.scope,
            on_unavailable: rule.on_unavailable,
            local: escrow.as_ref().map(|escrow| escrow.each),
            overshoot: rule.overshoot(),
            edges: rule.edges,
        }
    }

    /// Whether something may be set aside for when the counter can't be asked.
    #[must_use]
    pub fn sets_aside(&self) -> bool {
        self.local.is_some() || self.overshoot.is_some()
    }

    /// Whether what could not be asked, and has nothing set aside, lets the request pass.
    #[must_use]
    pub fn lets_pass(&self) -> bool {
        self.on_unavailable == OnUnavailable::Allow
    }
}

/// The answer to a [`Proposal`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposed {
    /// What the counters say.
    pub reply: Reply,
    /// Of an acquire: who decided each demand, in order. Empty: the owner, all of them.
    pub sources: Vec<Source>,
}

impl Proposed {
    /// By the owner alone.
    #[must_use]
    pub const fn by_owner(reply: Reply) -> Self {
        Self { reply, sources: Vec::new() }
    }
}

/// Why the counters have not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// Nobody answered in time: what is set aside or declared for each limit stands in.
    #[error("the counters cannot be reached")]
    Unreachable,
    /// Nothing was done, and the caller should come back: the declared behaviour would let everybody pass who sends
    /// enough.
    #[error("{0}")]
    Overloaded(&'static str),
}
