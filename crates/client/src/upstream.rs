//! Whoever is asked when what is held can't answer.

use std::future::Future;
use std::sync::Arc;

use leasehold_decide::{Proposal, ProposeError, Terms};
use leasehold_lease::{EdgeId, LeaseAsk, Leased};
use leasehold_model::{Key, Nanos, RequestId, ShardId};
use leasehold_shard::{Acquire, LimitSpec, Refusal, Reply, Settled};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Asks the owners of counters. What it sends again after a loss it sends under the same id, so that an owner carries it
/// out once.
pub trait Upstream: Send + Sync + 'static {
    /// As whom leases are asked for: one life of this process.
    fn edge(&self) -> EdgeId;

    /// Has asks sent, and returns at once. Each one's answer goes into `answers` by itself as soon as it is there, so that
    /// a slow owner delays no other: one answer for each ask, by `deadline` at the latest, unless the receiving end is gone.
    /// An ask that is put again before it has its answer is answered once.
    ///
    /// An ask without an answer by the deadline may still be carried out. `settled` says what of the asks' session is asked
    /// no more.
    fn lease(&self, asks: Vec<UpstreamAsk>, settled: Settled, deadline: Instant, answers: &Answers);

    /// Has one command carried out by the owners of its counters. Nothing happens before the future is polled, and it ends
    /// by `deadline`.
    ///
    /// # Errors
    /// It could not be carried out, or it isn't known whether it was.
    fn propose(
        &self,
        proposal: Proposal,
        deadline: Instant,
    ) -> impl Future<Output = Result<Reply, ProposeError>> + Send;

    /// What the owners would answer an acquire now. Takes and records nothing, and ends by `deadline`. `terms[i]` belongs
    /// to `limits[i]`.
    ///
    /// # Errors
    /// Nobody who knows can be asked.
    fn preview(
        &self,
        limits: &[LimitSpec],
        terms: &[Terms],
        acquire: &Acquire,
        deadline: Instant,
    ) -> impl Future<Output = Result<Reply, ProposeError>> + Send;

    /// The shard that the counter is on: what edges are numbered by.
    fn shard(&self, key: Key) -> ShardId {
        let _ = key;
        ShardId(0)
    }

    /// Whether the counter's owner is so near that holding its tokens is pointless.
    fn is_here(&self, key: Key) -> bool {
        let _ = key;
        false
    }

    /// Why nobody can be asked now, if that is known: what stands in for an answer is used without waiting then.
    fn away(&self) -> Option<Away> {
        None
    }

    /// How long an answer has taken lately, from the sending of an ask.
    fn round_trip(&self) -> Nanos;
}

/// Takes the answers to leases' asks. Not bounded by itself: there is at most one answer for each ask under way.
pub type Answers = mpsc::UnboundedSender<UpstreamAnswer>;

/// One ask for tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamAsk {
    /// Under this it is carried out once.
    pub id: RequestId,
    /// The limit.
    pub spec: Arc<LimitSpec>,
    /// What its rule says besides.
    pub terms: Terms,
    /// What is asked, as [`Upstream::edge`].
    pub ask: LeaseAsk,
}

/// The answer to one [`UpstreamAsk`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamAnswer {
    /// The ask's.
    pub id: RequestId,
    /// What became of it.
    pub outcome: Result<Grant, NoGrant>,
}

/// What an owner, or a broker in its place, answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// What is lent, or why nothing is.
    pub leased: Leased,
    /// Into how many parts the share of [`Leased::slot`] is divided, this edge having one; at least 1.
    pub slot_parts: u32,
}

/// Why an ask has no grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoGrant {
    /// Nobody answered in time. Whether it was carried out isn't known.
    #[error("nobody answered in time")]
    Unreachable,
    /// Nothing was done: too much is going on.
    #[error("too much is going on")]
    Overloaded,
    /// The owner refuses it; the same again would be refused again.
    #[error("{0}")]
    Refused(Refusal),
}

/// Nobody can be asked at the moment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no node can be reached: {why}")]
pub struct Away {
    /// Since when.
    pub since: Instant,
    /// What the last attempt ended with.
    pub why: Arc<str>,
}
