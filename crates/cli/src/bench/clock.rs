//! The one place where the load generator reads a clock: it measures real time, and decides nothing by it.

use std::time::Instant;

/// The present moment.
#[expect(clippy::disallowed_methods, reason = "a load generator measures elapsed real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
