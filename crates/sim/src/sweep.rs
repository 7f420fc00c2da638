//! Many worlds, each by itself, on all cores; what they found, in the order of their seeds.
//!
//! Invariant: how many threads there are changes nothing but how long it takes. A world that panics is a finding.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::reached::{Reached, State};
use crate::{Finding, Outcome};

/// What many worlds found.
#[derive(Debug, Default)]
pub struct Swept {
    /// Worlds that were run.
    pub worlds: u64,
    /// Those with findings, by seed.
    pub failed: Vec<Outcome>,
    /// In how many worlds each state was visited.
    pub reached: Reached,
    /// Things that happened.
    pub events: u64,
    /// Units admitted.
    pub units: u64,
    /// All worlds' hashes as one.
    pub hash: u64,
}

impl Swept {
    /// States that no world visited.
    #[must_use]
    pub fn missed(&self) -> Vec<State> {
        State::ALL.into_iter().filter(|state| self.reached.times(*state) == 0).collect()
    }
}

/// Runs a world; a panic in it is what it found.
#[must_use]
pub fn run_caught(seed: u64, seconds: u64) -> Outcome {
    catch_unwind(AssertUnwindSafe(|| crate::run(seed, seconds))).unwrap_or_else(|panic| {
        // Which assertion it was is told by its message.
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Outcome {
            seed,
            findings: vec![Finding { invariant: "assertion", at: 0, what: text.unwrap_or_default() }],
            reached: Reached::default(),
            hash: 0,
            events: 0,
            units: 0,
            overshoot_per_mille: 0,
            story: Vec::new(),
        }
    })
}

/// Runs the worlds of `count` seeds. With `stop_at_first`, ends soon after one has found something.
#[must_use]
pub fn sweep(first: u64, count: u64, seconds: u64, threads: usize, stop_at_first: bool) -> Swept {
    let next = AtomicU64::new(first);
    let outcomes = Mutex::new(Vec::new());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                return;
            }
            let outcome = run_caught(seed, seconds);
            if stop_at_first && !outcome.findings.is_empty() {
                next.store(first + count, Ordering::Relaxed);
            }
            outcomes.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(outcome);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(work);
        }
    });
    let mut outcomes = outcomes.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    outcomes.sort_by_key(|outcome| outcome.seed);
    let mut swept = Swept::default();
    for outcome in outcomes {
        swept.worlds += 1;
        swept.reached.add_world(&outcome.reached);
        swept.events += outcome.events;
        swept.units += outcome.units;
        swept.hash = swept.hash.rotate_left(5) ^ outcome.hash;
        if !outcome.findings.is_empty() {
            swept.failed.push(outcome);
        }
    }
    swept
}
