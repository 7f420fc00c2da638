//! What became of the requests: counted, and timed in histograms.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

/// Longest latency that is told apart, a minute; what took longer is counted as that.
const LATENCY_NS_MAX: u64 = 60_000_000_000;
/// Significant decimal digits of a latency.
const DIGITS: u8 = 3;
/// Kinds of errors told apart; the rest are counted together.
const ERROR_KINDS_MAX: usize = 16;

/// What one answer held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Checks admitted.
    pub(super) allowed: u64,
    /// Checks over their limit.
    pub(super) denied: u64,
    /// Of the admitted, those that no rule applied to.
    pub(super) unmatched: u64,
    /// Checks that were answered with an error of their own.
    pub(super) failed: u64,
}

/// A request that got no answer.
#[derive(Clone, Debug)]
pub(super) struct CallError {
    /// Few kinds in all; no addresses, no keys.
    pub(super) kind: String,
    /// Whether the connection is of no more use.
    pub(super) fatal: bool,
}

/// One request's three moments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// When it was to be sent.
    pub(super) due: Instant,
    /// When it was sent.
    pub(super) sent: Instant,
    /// When its answer was complete.
    pub(super) done: Instant,
}

/// Everything counted since the warm-up.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    pub(super) requests: u64,
    pub(super) counts: Counts,
    pub(super) errors: BTreeMap<String, u64>,
    /// From when a request was due.
    pub(super) latency: Histogram<u64>,
    /// From when it was sent.
    pub(super) service: Histogram<u64>,
    /// When the last answer came.
    pub(super) last: Option<Instant>,
}

impl Default for Tally {
    fn default() -> Self {
        let histogram = || {
            Histogram::new_with_bounds(1, LATENCY_NS_MAX, DIGITS).expect("the bounds are constants in range")
        };
        Self {
            requests: 0,
            counts: Counts::default(),
            errors: BTreeMap::new(),
            latency: histogram(),
            service: histogram(),
            last: None,
        }
    }
}

impl Tally {
    /// Counts one request.
    pub(super) fn record(&mut self, times: Times, result: &Result<Counts, CallError>) {
        self.requests += 1;
        self.last = self.last.max(Some(times.done));
        match result {
            Ok(counts) => {
                self.counts.add(*counts);
                self.latency.saturating_record(nanos(times.done.saturating_duration_since(times.due)));
                self.service.saturating_record(nanos(times.done.saturating_duration_since(times.sent)));
            }
            Err(error) => self.count_error(&error.kind, 1),
        }
    }

    /// Counts requests that failed for one reason.
    pub(super) fn count_error(&mut self, kind: &str, count: u64) {
        let known = self.errors.contains_key(kind) || self.errors.len() < ERROR_KINDS_MAX;
        *self.errors.entry(if known { kind } else { "other" }.to_owned()).or_default() += count;
    }

    /// Adds what another worker counted.
    pub(super) fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.counts.add(other.counts);
        self.latency.add(&other.latency).expect("equal bounds");
        self.service.add(&other.service).expect("equal bounds");
        self.last = self.last.max(other.last);
        for (kind, count) in &other.errors {
            self.count_error(kind, *count);
        }
    }

    /// Decisions taken: checks, not messages.
    pub(super) fn decisions(&self) -> u64 {
        self.counts.allowed + self.counts.denied
    }
}

impl Counts {
    pub(super) fn add(&mut self, other: Self) {
        self.allowed += other.allowed;
        self.denied += other.denied;
        self.unmatched += other.unmatched;
        self.failed += other.failed;
    }
}

fn nanos(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX).max(1)
}
