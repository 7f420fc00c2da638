//! From faults and a seed to what happens when: the same for the same seed, whatever the processes do.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::Scenario;

/// One fault at its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    /// Which of the scenario's faults.
    pub(crate) fault: usize,
    /// After the trouble has begun.
    pub(crate) at: Duration,
    /// Until it ends.
    pub(crate) lasts: Duration,
    /// Draws its parameters, and its target among those that it may have.
    pub(crate) seed: u64,
}

/// All that happens in a time of trouble, in order. Nothing begins that can't end in it.
pub(crate) fn plan(scenario: &Scenario, seed: u64, trouble: Duration) -> Vec<Planned> {
    let mut planned = Vec::new();
    for (number, fault) in scenario.faults.iter().enumerate() {
        // Each has a chance of its own: one more fault changes no other.
        let mut chance = SmallRng::seed_from_u64(seed ^ u64::try_from(number).unwrap_or(0).rotate_right(16));
        let mut at = fault.at_s.draw_seconds(&mut chance);
        loop {
            let lasts = fault.for_s.map_or(Duration::ZERO, |lasts| lasts.draw_seconds(&mut chance));
            if at + lasts > trouble {
                break;
            }
            planned.push(Planned { fault: number, at, lasts, seed: chance.random() });
            let Some(every) = fault.every_s else { break };
            at += every.draw_seconds(&mut chance).max(lasts);
        }
    }
    planned.sort_by_key(|one| one.at);
    planned
}
