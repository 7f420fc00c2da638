//! What must hold in every world, each in a file of its own, and the watch that tells them what really happened.
//!
//! Invariant: nothing here influences a world. What is known here nobody in the world knows: true time, what was committed,
//! what was spent of which lease when.

mod acked_survives;
mod all_or_none;
mod bounded_overshoot;
mod bounded_resources;
mod conservation;
mod epoch_monotonic;
mod equal_prefix_equal_hash;
mod heals;
mod lease_once;
mod one_granter;
mod rules_monotonic;
mod stops_first;
mod watch;

pub(crate) use all_or_none::RETURN_SALT;
pub(crate) use watch::{Applied, Watch};

use crate::clocks::Time;

/// All invariants, with the promises that they defend.
pub const ALL: [(&str, &str); 12] = [
    ("conservation", "P2"),
    ("bounded_overshoot", "P1"),
    ("lease_once", "P3"),
    ("stops_first", "P6"),
    ("epoch_monotonic", "P5"),
    ("one_granter", "P2"),
    ("equal_prefix_equal_hash", "P4"),
    ("acked_survives", "P4"),
    ("all_or_none", "P7"),
    ("rules_monotonic", "P1"),
    ("bounded_resources", "P9"),
    ("heals", "P5"),
];

/// Findings of one world that are kept: one tells as much as a thousand.
const FINDINGS_MAX: usize = 20;

/// Something that doesn't hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which invariant.
    pub invariant: &'static str,
    /// When.
    pub at: Time,
    /// What happened.
    pub what: String,
}

/// What was found in one world.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings(Vec<Finding>);

impl Findings {
    /// One more.
    pub(crate) fn add(&mut self, invariant: &'static str, at: Time, what: impl FnOnce() -> String) {
        if self.0.len() < FINDINGS_MAX {
            self.0.push(Finding { invariant, at, what: what() });
        }
    }

    /// All of them.
    #[must_use]
    pub(crate) fn all(&self) -> &[Finding] {
        &self.0
    }
}
