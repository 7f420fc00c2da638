//! What a front door needs of the process behind it, and how a request can fail that isn't over any limit.

use std::future::Future;
use std::time::Duration;

use leasehold_limit::check::{Answer, Attribute, Request};
use leasehold_model::{Nanos, RequestId};

/// Decides requests.
pub trait Decider: Send + Sync + 'static {
    /// Decides one request within `budget` (what is left of the caller's deadline; `None` = the server's own bound).
    fn check<'a>(
        &'a self,
        request: &'a Request<'a>,
        budget: Option<Duration>,
    ) -> impl Future<Output = Result<Answer, CheckError>> + Send + 'a;

    /// Makes counters fresh again; returns how many held anything.
    fn reset<'a>(
        &'a self,
        target: ResetTarget<'a>,
    ) -> impl Future<Output = Result<u32, CheckError>> + Send + 'a;

    /// The id for text that a caller chose, scoped to its domain.
    fn request_id(&self, domain: &str, text: &str) -> RequestId;

    /// Whether traffic should come here.
    fn readiness(&self) -> Readiness;
}

/// Which counters to make fresh.
#[derive(Clone, Copy, Debug)]
pub struct ResetTarget<'a> {
    /// The domain.
    pub domain: &'a str,
    /// Attributes as a check would carry them: every counter that such a check would be charged to is reset.
    pub attributes: &'a [Attribute<'a>],
    /// Only this rule's counter.
    pub rule: Option<&'a str>,
}

/// Whether traffic should come here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Yes.
    Ready,
    /// Not now: starting, draining, or broken, in words for the answer.
    NotReady(String),
}

/// A request that was not decided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// The caller can mend it: the field and the fix.
    #[error("{field}: {message}")]
    Invalid {
        /// The field.
        field: String,
        /// What is wrong and what to send instead.
        message: String,
    },
    /// The request id belongs to a different request. Send a new id.
    #[error("request_id: it was used for a different request within the retry window; send a new one")]
    RequestIdReused,
    /// Too much is going on. Retry after the given time.
    #[error("overloaded: {reason}")]
    Overloaded {
        /// What is full.
        reason: String,
        /// When to come back.
        retry_after: Nanos,
    },
}
