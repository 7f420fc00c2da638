//! Virtual time: one counter, a list of events, and the code that decides in production. Nothing here reads a clock.
//!
//! The same inputs give the same answers to the nanosecond, so a policy can be tried before it is put in force.

pub(crate) mod answer;
pub(crate) mod compare;
pub(crate) mod events;
pub(crate) mod policy;
pub(crate) mod svg;

use leasehold_limit::{Ask, Limit, State};
use leasehold_model::{Stamp, TimeLine};

use answer::{Answer, Step};
use events::{Event, What};

#[cfg(test)]
mod tests;

/// Replays `events` against one fresh counter; one step an event, in their order.
///
/// Time never runs backwards: an event stamped before the latest one is decided at the latest.
pub(crate) fn replay(limit: &Limit, events: &[Event]) -> Vec<Step> {
    let mut counter = Counter { limit: limit.clone(), state: limit.fresh(), line: TimeLine::default() };
    events.iter().map(|event| counter.step(event)).collect()
}

/// One counter on its own time line.
struct Counter {
    limit: Limit,
    state: State,
    line: TimeLine,
}

impl Counter {
    fn step(&mut self, event: &Event) -> Step {
        let answer = match &event.what {
            What::Take(cost) => self.take(event.at, *cost),
            What::SetPolicy(limit) => self.set_policy(event.at, limit),
        };
        Step { at: event.at, answer }
    }

    fn take(&mut self, at: Stamp, cost: i128) -> Answer {
        let Ok(cost) = u64::try_from(cost) else { return Answer::InvalidCost { cost } };
        let at = self.line.advance(at);
        let decision = self.limit.acquire(&mut self.state, at, Ask::exactly(cost));
        let shaper = matches!(self.limit.algorithm(), leasehold_limit::Algorithm::Shaper { .. });
        Answer::Decided { cost, decision, shaper }
    }

    fn set_policy(&mut self, at: Stamp, limit: &Limit) -> Answer {
        let at = self.line.advance(at);
        limit.carry_over(&self.limit, &mut self.state, at);
        self.limit = limit.clone();
        Answer::PolicySet
    }
}
