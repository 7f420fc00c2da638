//! What a policy costs and how far it goes: every request is counted, none is sampled.
//!
//! Two exact limiters stand beside it for each key. One is fed every arrival and says what should have been admitted; the
//! other is charged with what was spent, when it was, and goes below zero where a limiter would have refused.

use std::fmt;

use leasehold_limit::{Algorithm, Ask, Limit, State};
use leasehold_model::{Nanos, Stamp};

use super::traffic::{Arrival, Workload};

/// What a report prints, for the head of a table.
pub(crate) const COLUMNS: &str =
    "| calls/1000 | WAN | WAN messages | undershoot | overshoot | waited | mean ms | p99 ms |";

const PERIOD: Nanos = Nanos::from_secs(1);

/// What was measured of one policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// Requests decided.
    pub(crate) decisions: u64,
    /// Of them, those that passed.
    pub(crate) admitted: u64,
    /// Those that the exact limiter lets pass.
    pub(crate) exact: u64,
    /// Requests that passed and had to wait for it.
    pub(crate) waited: u64,
    /// Asks of one key each, whomever they went to.
    pub(crate) calls: u64,
    /// Of them, those to another region.
    pub(crate) wan_calls: u64,
    /// Messages to another region, each with all that its sender asked of that peer within a millisecond.
    pub(crate) wan_messages: u64,
    /// Timers that rang.
    pub(crate) wakes: u64,
    /// The deepest that any key's bucket went below zero, in millionths of its burst.
    pub(crate) overshoot_ppm: u64,
    /// Time that requests waited, all together.
    pub(crate) added_nanos: u64,
    /// The longest wait of all but the hundredth that waited longest.
    pub(crate) added_p99_nanos: u64,
}

impl Report {
    /// Calls to other regions for each 1,000 decisions.
    pub(crate) fn wan_per_1000(&self) -> f64 {
        ratio(self.wan_calls * 1_000, self.decisions)
    }

    /// Calls, whomever they went to, for each 1,000 decisions.
    fn calls_per_1000(&self) -> f64 {
        ratio(self.calls * 1_000, self.decisions)
    }

    /// Messages to other regions for each 1,000 decisions.
    fn messages_per_1000(&self) -> f64 {
        ratio(self.wan_messages * 1_000, self.decisions)
    }

    /// What the exact limiter admitted more, in percent of it. Net: of a key over its limit, which requests pass is anybody's
    /// luck, and even asking for each refuses a tenth of those that the exact limiter lets pass.
    pub(crate) fn undershoot_percent(&self) -> f64 {
        100.0 - ratio(self.admitted * 100, self.exact)
    }

    /// The deepest that a bucket was overdrawn, in percent of its burst.
    fn overshoot_percent(&self) -> f64 {
        ratio(self.overshoot_ppm, 10_000)
    }

    /// Requests that waited, in percent of those that passed.
    fn waited_percent(&self) -> f64 {
        ratio(self.waited * 100, self.admitted)
    }

    /// Milliseconds that a request waited on average.
    pub(crate) fn added_ms(&self) -> f64 {
        ratio(self.added_nanos, self.decisions) / 1e6
    }

    /// Milliseconds that all but one in a hundred waited at most.
    fn added_p99_ms(&self) -> f64 {
        ratio(self.added_p99_nanos, 1_000_000)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "| {:.1} | {:.1} | {:.1} | {:.2} % | {:.1} % | {:.1} % | {:.2} | {:.1} |",
            self.calls_per_1000(),
            self.wan_per_1000(),
            self.messages_per_1000(),
            self.undershoot_percent(),
            self.overshoot_percent(),
            self.waited_percent(),
            self.added_ms(),
            self.added_p99_ms(),
        )
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures to be read, of runs far below 2^52")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// A bucket that lends what it doesn't have.
#[derive(Clone, Copy)]
struct Shadow {
    /// In units × nanoseconds of the period.
    level: i128,
    at: u64,
}

/// Counts while a policy runs.
pub(crate) struct Meter {
    limit: Limit,
    exact: Vec<State>,
    shadows: Vec<Shadow>,
    deepest: i128,
    waits: Vec<u64>,
    report: Report,
}

impl Meter {
    pub(crate) fn new(workload: Workload) -> Self {
        let limit = limit_of(workload);
        let full = i128::from(limit.cap()) * i128::from(PERIOD.0);
        Self {
            exact: vec![limit.fresh(); workload.keys],
            shadows: vec![Shadow { level: full, at: 0 }; workload.keys],
            deepest: 0,
            waits: Vec::new(),
            report: Report::default(),
            limit,
        }
    }

    /// A request came: what the exact limiter says at once.
    pub(crate) fn arrived(&mut self, arrival: Arrival) {
        let state = &mut self.exact[arrival.key];
        let decision = self.limit.acquire(state, Stamp(arrival.at), Ask::exactly(1));
        self.report.exact += decision.granted;
    }

    pub(super) fn admitted(&mut self, arrival: Arrival, now: u64) {
        self.report.admitted += 1;
        self.report.waited += u64::from(now > arrival.at);
        self.decided(now - arrival.at);
    }

    pub(super) fn refused(&mut self, arrival: Arrival, now: u64) {
        self.decided(now - arrival.at);
    }

    fn decided(&mut self, wait: u64) {
        self.report.decisions += 1;
        self.report.added_nanos += wait;
        self.waits.push(wait);
    }

    pub(super) fn spent(&mut self, key: usize, units: u64, now: u64) {
        let (per_unit, full) = (i128::from(PERIOD.0), i128::from(self.limit.cap()) * i128::from(PERIOD.0));
        let shadow = &mut self.shadows[key];
        let refilled = i128::from(now - shadow.at) * i128::from(self.limit.n());
        shadow.level = (shadow.level + refilled).min(full) - i128::from(units) * per_unit;
        shadow.at = now;
        self.deepest = self.deepest.min(shadow.level);
    }

    pub(super) fn called(&mut self, wan: bool, gathered: bool) {
        self.report.calls += 1;
        self.report.wan_calls += u64::from(wan);
        self.report.wan_messages += u64::from(wan && !gathered);
    }

    pub(super) fn woken(&mut self) {
        self.report.wakes += 1;
    }

    /// What was measured, once every request is decided.
    pub(crate) fn report(mut self) -> Report {
        let full = i128::from(self.limit.cap()) * i128::from(PERIOD.0);
        // Rounded up: the least overdraft shows.
        let overdrawn = (-self.deepest * 1_000_000 + full - 1) / full;
        self.waits.sort_unstable();
        let at = self.waits.len() * 99 / 100;
        Report {
            overshoot_ppm: u64::try_from(overdrawn).expect("never above zero"),
            added_p99_nanos: self.waits.get(at).copied().unwrap_or(0),
            ..self.report
        }
    }
}

/// The limit of every key of a workload.
pub(crate) fn limit_of(workload: Workload) -> Limit {
    let bucket = Algorithm::TokenBucket { burst: workload.limit_burst };
    Limit::new(bucket, workload.limit_per_second, PERIOD).expect("a benchmark's limit is valid")
}
