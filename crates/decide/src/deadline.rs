//! Until when a caller waits, and what an authority answers by then.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

use crate::engine::overloaded;
use crate::{CheckError, ProposeError};

/// Until when the caller waits. `None`: as long as it takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(pub(crate) Option<Instant>);

/// What came of asking an authority.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asked<T> {
    Answered(T),
    /// It could not be reached.
    Unreached,
    /// It was not asked, as nobody waits for the answer any more.
    Late,
}

impl Deadline {
    pub(crate) fn within(now: Instant, budget: Option<Duration>) -> Self {
        // Beyond what the clock can tell is no deadline.
        Self(budget.and_then(|budget| now.checked_add(budget)))
    }

    /// What an authority answers in time. Overload is an error: to let pass by it would be to let everybody pass who sends
    /// enough.
    pub(crate) async fn keep<T>(
        self,
        asked: impl Future<Output = Result<T, ProposeError>>,
    ) -> Result<Asked<T>, CheckError> {
        // Not worth a counter's time. An answer that nobody waits for must not be charged, so it isn't even begun.
        if self.0.is_some_and(|deadline| deadline <= Instant::now()) {
            return Ok(Asked::Late);
        }
        match asked.await {
            Ok(answer) => Ok(Asked::Answered(answer)),
            Err(error @ ProposeError::Unreachable) => {
                tracing::debug!(%error, "not decided");
                Ok(Asked::Unreached)
            }
            Err(error @ ProposeError::Overloaded(_)) => Err(overloaded(error)),
        }
    }
}
