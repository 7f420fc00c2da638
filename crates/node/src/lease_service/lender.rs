//! Who answers asks for tokens in place of their owners: a node that holds tokens itself and lends them on.

use std::future::Future;

use leasehold_lease::LeaseAsk;
use leasehold_limit::rules::Scope;
use leasehold_model::{Key, RequestId};
use leasehold_shard::{LimitSpec, Settled};
use leasehold_wire::lease::Outcome;
use tokio::time::Instant;

/// Lends what the node holds of counters whose owners are far.
pub(crate) trait Lender: Send + Sync + 'static {
    /// Whether asks for that counter are answered here, rather than by its owner.
    fn lends(&self, key: Key, scope: Scope) -> bool;

    /// Answers an ask, by `deadline`. The same ask gets the same answer.
    fn lend(&self, ask: ChildAsk, deadline: Instant) -> impl Future<Output = Outcome> + Send;

    /// A session asks none of its sequences below a number again.
    fn settled(&self, settled: Settled);
}

/// What an edge asks of a node in its owner's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChildAsk {
    /// Under this it is carried out once.
    pub(crate) id: RequestId,
    /// The limit.
    pub(crate) spec: LimitSpec,
    /// What is asked.
    pub(crate) ask: LeaseAsk,
}

/// Every ask goes to its owner.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NoLender;

impl Lender for NoLender {
    fn lends(&self, _: Key, _: Scope) -> bool {
        false
    }

    async fn lend(&self, _: ChildAsk, _: Instant) -> Outcome {
        Outcome::Unanswered(leasehold_wire::lease::Unanswered::Unreachable)
    }

    fn settled(&self, _: Settled) {}
}
