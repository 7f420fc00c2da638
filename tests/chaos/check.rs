//! A history against every promise: one pure function a promise, from what happened to what was broken.
//!
//! A finding must be a breach whatever happened between the moments that the history knows; what could have been right isn't
//! one. An operation happened at some moment between its call and its answer; one of unknown outcome counts for nobody until
//! the owners' log says what became of it.

mod acked_survives;
mod all_or_none;
mod bounded_overshoot;
mod bounded_resources;
pub(crate) mod charges;
mod conservation;
mod epoch_monotonic;
mod equal_prefix_equal_hash;
mod heals;
mod isolation;
mod lease_once;
mod monotonic;
mod one_granter;
mod quota;
pub(crate) mod reached;
mod rules_monotonic;
pub(crate) mod spans;
mod stops_first;

use std::fmt;
use std::time::Duration;

use crate::history::History;

pub(crate) use bounded_overshoot::{Reach, reach};
pub(crate) use heals::{regrants, unserved_when_calm};

/// What a history holds against a promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// When, where that is known.
    pub(crate) at: Option<u64>,
    pub(crate) what: String,
}

impl Finding {
    fn at(at: u64, what: impl Into<String>) -> Self {
        Self { at: Some(at), what: what.into() }
    }

    fn anywhen(what: impl Into<String>) -> Self {
        Self { at: None, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(at) => write!(f, "at {}: {}", seconds(at), self.what),
            None => write!(f, "{}", self.what),
        }
    }
}

/// A moment or a length of a run, as people read it.
pub(crate) fn seconds(ns: u64) -> String {
    format!("{:.3} s", Duration::from_nanos(ns).as_secs_f64())
}

/// One promise, and who looks whether it was kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Invariant {
    pub(crate) name: &'static str,
    /// As the README numbers them.
    pub(crate) promise: &'static str,
    findings: fn(&History) -> Vec<Finding>,
}

/// All of them, in the order of the table.
pub(crate) const INVARIANTS: &[Invariant] = &[
    Invariant { name: "bounded_overshoot", promise: "P1", findings: bounded_overshoot::findings },
    Invariant { name: "conservation", promise: "P2", findings: conservation::findings },
    Invariant { name: "one_granter", promise: "P2", findings: one_granter::findings },
    Invariant { name: "epoch_monotonic", promise: "P2", findings: epoch_monotonic::findings },
    Invariant { name: "lease_once", promise: "P3", findings: lease_once::findings },
    Invariant { name: "acked_survives", promise: "P4", findings: acked_survives::findings },
    Invariant { name: "equal_prefix_equal_hash", promise: "P4", findings: equal_prefix_equal_hash::findings },
    Invariant { name: "heals", promise: "P5", findings: heals::findings },
    Invariant { name: "stops_first", promise: "P6", findings: stops_first::findings },
    Invariant { name: "all_or_none", promise: "P7", findings: all_or_none::findings },
    Invariant { name: "rules_monotonic", promise: "P8", findings: rules_monotonic::findings },
    Invariant { name: "bounded_resources", promise: "P9", findings: bounded_resources::findings },
];

/// What came of every promise.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    /// As [`INVARIANTS`].
    pub(crate) findings: Vec<(Invariant, Vec<Finding>)>,
    /// States that the run was for and that it wasn't in.
    pub(crate) missed: Vec<String>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    Kept,
    /// It never was where it would have shown.
    NoResult,
    Broken,
}

impl Checked {
    /// Holds a history against everything.
    pub(crate) fn of(history: &History) -> Self {
        let findings = INVARIANTS.iter().map(|invariant| (*invariant, (invariant.findings)(history)));
        Self { findings: findings.collect(), missed: reached::missed(history) }
    }

    pub(crate) fn verdict(&self) -> Verdict {
        match (self.count(), self.missed.is_empty()) {
            (0, true) => Verdict::Kept,
            (0, false) => Verdict::NoResult,
            (1.., _) => Verdict::Broken,
        }
    }

    /// Findings of all promises.
    pub(crate) fn count(&self) -> usize {
        self.findings.iter().map(|(_, findings)| findings.len()).sum()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kept => "kept",
            Self::NoResult => "no result",
            Self::Broken => "broken",
        })
    }
}

/// Most findings of one promise that are written out.
const SHOWN_MAX: usize = 10;

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (invariant, findings) in &self.findings {
            let verdict = if findings.is_empty() { "kept" } else { "BROKEN" };
            writeln!(f, "{} {:<24} {verdict}", invariant.promise, invariant.name)?;
            for finding in findings.iter().take(SHOWN_MAX) {
                writeln!(f, "     {finding}")?;
            }
            if findings.len() > SHOWN_MAX {
                writeln!(f, "     and {} more", findings.len() - SHOWN_MAX)?;
            }
        }
        for missed in &self.missed {
            writeln!(f, "never reached: {missed}")?;
        }
        write!(f, "{}", self.verdict())
    }
}

/// For the tests of each promise: a history and how many findings it has, all of which mention `what`.
#[cfg(test)]
#[track_caller]
fn expect(findings: &[Finding], count: usize, what: &str) {
    assert_eq!(findings.len(), count, "{findings:#?}");
    for finding in findings {
        assert!(finding.to_string().contains(what), "{finding} doesn't mention {what:?}");
    }
}
