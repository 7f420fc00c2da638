//! One list of events under several limits, side by side, and its totals.

use leasehold_limit::Limit;
use serde::Serialize;

use super::answer::Step;
use super::events::Event;
use super::replay;

/// One limit's answers to all events.
pub(crate) struct Lane {
    /// How the lane is called.
    pub(crate) title: String,
    /// One step an event.
    pub(crate) steps: Vec<Step>,
    /// The steps, counted.
    pub(crate) totals: Totals,
}

/// A replay in numbers. Looks (cost 0) are in none of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Totals {
    /// As policies spell it.
    pub(crate) algorithm: String,
    /// Requests admitted.
    pub(crate) allowed: u64,
    /// Requests refused.
    pub(crate) denied: u64,
    /// Units admitted.
    pub(crate) allowed_units: u64,
    /// Units refused.
    pub(crate) denied_units: u64,
    /// The longest that an admitted request was told to wait for its turn; only a shaper makes anybody wait.
    pub(crate) wait_ns_max: u64,
}

impl Lane {
    /// Replays `events` under `limit`.
    pub(crate) fn new(limit: &Limit, events: &[Event]) -> Self {
        let steps = replay(limit, events);
        let totals = count(limit.algorithm().name(), &steps);
        Self { title: totals.algorithm.replace('_', " "), steps, totals }
    }
}

fn count(algorithm: &str, steps: &[Step]) -> Totals {
    let mut totals = Totals { algorithm: algorithm.to_owned(), ..Totals::default() };
    for step in steps {
        if let Some(units) = step.answer.taken() {
            totals.allowed += 1;
            totals.allowed_units = totals.allowed_units.saturating_add(units);
        }
        if let Some(units) = step.answer.refused() {
            totals.denied += 1;
            totals.denied_units = totals.denied_units.saturating_add(units);
        }
        let wait = step.answer.decision().and_then(|decision| decision.wait).map_or(0, |wait| wait.0);
        totals.wait_ns_max = totals.wait_ns_max.max(wait);
    }
    totals
}
