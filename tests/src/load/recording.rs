//! What became of every check of a load, and the questions that tests ask of it.

use std::fmt;
use std::time::Duration;

use crate::bound::{Bound, Operation, worst_excess};

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Charged.
    Admitted,
    /// Over the limit.
    Denied,
    /// Nobody answered: charged or not.
    Unknown,
}

/// One check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Which of the load's values.
    pub value: usize,
    /// Units.
    pub cost: u64,
    /// When it was first sent, in ns on the load's clock.
    pub invoked_ns: u64,
    /// When its answer came, or when it was given up.
    pub returned_ns: u64,
    /// How often it was sent.
    pub tries: u32,
    /// How it ended.
    pub fate: Fate,
}

/// A whole load, by the moments at which checks were first sent.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Every check.
    pub checks: Vec<Recorded>,
}

impl Recording {
    /// How many ended so.
    #[must_use]
    pub fn count(&self, fate: Fate) -> usize {
        self.checks.iter().filter(|check| check.fate == fate).count()
    }

    /// Units that were admitted for sure.
    #[must_use]
    pub fn admitted_units(&self) -> u64 {
        self.of(Fate::Admitted).map(|check| check.cost).sum()
    }

    /// Checks that were sent more than once.
    #[must_use]
    pub fn retried(&self) -> usize {
        self.checks.iter().filter(|check| check.tries > 1).count()
    }

    /// The admitted checks of one of the load's values, for [`crate::bound`].
    #[must_use]
    pub fn operations(&self, value: usize) -> Vec<Operation> {
        self.of(Fate::Admitted)
            .filter(|check| check.value == value)
            .map(|check| Operation {
                invoked: check.invoked_ns,
                returned: check.returned_ns,
                cost: check.cost,
            })
            .collect()
    }

    /// Fails when any of the load's counters was granted more than the bound in any interval.
    ///
    /// # Panics
    /// Then, and says where.
    pub fn assert_within(&self, bound: Bound) {
        let values = self.checks.iter().map(|check| check.value + 1).max().unwrap_or(0);
        for value in 0..values {
            if let Some(excess) = worst_excess(&self.operations(value), bound) {
                panic!("counter {value}: {excess}; {bound:?}; {self}");
            }
        }
    }

    /// From a moment on: how long until a check that was first sent then or later was admitted.
    #[must_use]
    pub fn granted_after(&self, moment_ns: u64) -> Option<Duration> {
        let later = self.of(Fate::Admitted).filter(|check| check.invoked_ns >= moment_ns);
        let first = later.map(|check| check.returned_ns).min()?;
        Some(Duration::from_nanos(first - moment_ns))
    }

    /// The longest time without a decision, admitted or denied, between the first and the last one.
    #[must_use]
    pub fn longest_silence(&self) -> Duration {
        let mut ends: Vec<u64> = self
            .checks
            .iter()
            .filter(|check| check.fate != Fate::Unknown)
            .map(|check| check.returned_ns)
            .collect();
        ends.sort_unstable();
        let longest = ends.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        Duration::from_nanos(longest)
    }

    /// The longest that a check took.
    #[must_use]
    pub fn slowest(&self) -> Duration {
        let longest = self.checks.iter().map(|check| check.returned_ns - check.invoked_ns).max().unwrap_or(0);
        Duration::from_nanos(longest)
    }

    fn of(&self, fate: Fate) -> impl Iterator<Item = &Recorded> {
        self.checks.iter().filter(move |check| check.fate == fate)
    }
}

impl fmt::Display for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} checks: {} admitted, {} denied, {} unknown, {} retried; slowest {:?}, longest silence {:?}",
            self.checks.len(),
            self.count(Fate::Admitted),
            self.count(Fate::Denied),
            self.count(Fate::Unknown),
            self.retried(),
            self.slowest(),
            self.longest_silence()
        )
    }
}
