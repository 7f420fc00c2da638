//! The numbers of a rule as written, and the limit they make.
//!
//! Invariant: a [`Spec`] keeps what was written apart from what follows from it, so that an override can replace one
//! number and the rest follows anew (no `burst` written: the burst is the new rate). Every limit made here can admit.

use super::error::{Report, quoted};
use super::fields::{Fields, choice, count, text};
use super::rate::{self, Period, Rate};
use super::yaml::Node;
use crate::{Algorithm, Limit, LimitError, Window, Zone};

/// Largest n of a sliding log. A counter holds at most n entries of 16 bytes, so it stays within 160 kB, and one that is
/// full is passed over in microseconds. Beyond: a mistake in the rule.
pub(super) const SLIDING_LOG_MAX: u64 = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    TokenBucket,
    LeakyBucket,
    Shaper,
    FixedWindow,
    SlidingLog,
    SlidingCounter,
}

const KINDS: [(&str, Kind); 6] = [
    ("token_bucket", Kind::TokenBucket),
    ("leaky_bucket", Kind::LeakyBucket),
    ("shaper", Kind::Shaper),
    ("fixed_window", Kind::FixedWindow),
    ("sliding_log", Kind::SlidingLog),
    ("sliding_counter", Kind::SlidingCounter),
];

impl Kind {
    fn name(self) -> &'static str {
        KINDS.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    fn has_burst(self) -> bool {
        matches!(self, Self::TokenBucket | Self::LeakyBucket)
    }
}

/// A rule's numbers as written.
#[derive(Clone, Debug)]
pub(super) struct Spec {
    kind: Kind,
    rate: Rate,
    burst: Option<u64>,
    queue: Option<u64>,
    zone: Option<Zone>,
}

impl Spec {
    /// Reads `limit`, `algorithm`, `burst`, `queue` and `zone` of a rule.
    pub(super) fn read(rule: &Fields<'_>, report: &mut Report<'_>) -> Option<Self> {
        let rate = rule.require("limit", "write limit: units per time, such as limit: 5/min", report);
        let rate = rate.map(|_| read_rate(rule, report));
        let kind = match rule.get("algorithm") {
            Some(node) => choice(node, &rule.path("algorithm"), &KINDS, report),
            None => Some(Kind::TokenBucket),
        };
        let burst = rule.get("burst").map(|node| read_count(node, rule, "burst", report));
        let queue = rule.get("queue").map(|node| read_count(node, rule, "queue", report));
        let zone = rule.get("zone").map(|_| read_zone(rule, report));
        // A field that is there and wrong ends it here: what follows from it would only be noise.
        let (burst, queue, zone) = (all_or_none(burst)?, all_or_none(queue)?, all_or_none(zone)?);
        Some(Self { kind: kind?, rate: rate??, burst, queue, zone })
    }

    /// This with the numbers that an override sets.
    pub(super) fn with(&self, set: &Fields<'_>, report: &mut Report<'_>) -> Option<Self> {
        let mut spec = self.clone();
        let rate = set.get("limit").map(|_| read_rate(set, report));
        let burst = set.get("burst").map(|node| read_count(node, set, "burst", report));
        let queue = set.get("queue").map(|node| read_count(node, set, "queue", report));
        let (rate, burst, queue) = (all_or_none(rate)?, all_or_none(burst)?, all_or_none(queue)?);
        spec.rate = rate.unwrap_or(spec.rate);
        spec.burst = burst.or(spec.burst);
        spec.queue = queue.or(spec.queue);
        Some(spec)
    }

    /// The limit. `from` is the map that the numbers (or the last of them) come from, for the places of mistakes.
    pub(super) fn limit(&self, from: &Fields<'_>, report: &mut Report<'_>) -> Option<Limit> {
        let fits = [
            self.check_rate(from, report),
            self.check_burst(from, report),
            self.check_queue(from, report),
            self.check_zone(from, report),
        ];
        if fits.contains(&false) {
            return None;
        }
        let n = self.rate.n;
        let algorithm = match self.kind {
            Kind::TokenBucket => Algorithm::TokenBucket { burst: self.burst.unwrap_or(n) },
            Kind::LeakyBucket => Algorithm::LeakyBucket { burst: self.burst.unwrap_or(n) },
            Kind::Shaper => Algorithm::Shaper { queue: self.queue? },
            Kind::FixedWindow => Algorithm::FixedWindow(self.window()),
            Kind::SlidingLog => Algorithm::SlidingLog,
            Kind::SlidingCounter => Algorithm::SlidingCounter,
        };
        match Limit::new(algorithm, n, self.rate.per.length()) {
            Ok(limit) => Some(limit),
            Err(error) => {
                let field = self.field_of(&error, from);
                report.add(from.place(field), &from.path(field), error.to_string(), "");
                None
            }
        }
    }

    fn window(&self) -> Window {
        match self.rate.per {
            Period::Calendar(unit) => {
                Window::Calendar { unit, zone: self.zone.clone().unwrap_or_else(Zone::utc) }
            }
            Period::Second | Period::Length(_) => Window::Epoch,
        }
    }

    /// The field to blame: the capacity if it is written there, else the rate.
    fn field_of(&self, error: &LimitError, from: &Fields<'_>) -> &'static str {
        let capacity = if self.kind == Kind::Shaper { "queue" } else { "burst" };
        match error {
            LimitError::TooSlow { .. } | LimitError::ZeroBurst | LimitError::ZeroQueue
                if from.get(capacity).is_some() =>
            {
                capacity
            }
            LimitError::TooSlow { .. }
            | LimitError::ZeroBurst
            | LimitError::ZeroQueue
            | LimitError::ZeroPeriod
            | LimitError::ZeroRate => "limit",
            LimitError::UnknownZone(_) => "zone",
        }
    }

    fn check_rate(&self, from: &Fields<'_>, report: &mut Report<'_>) -> bool {
        let (at, path) = (from.place("limit"), from.path("limit"));
        if self.rate.n == 0 {
            let fix =
                "write at least 1; to block requests for good, refuse them in the proxy or the application";
            report.add(at, &path, "a limit of 0 can never admit", fix);
            return false;
        }
        if self.kind == Kind::SlidingLog && self.rate.n > SLIDING_LOG_MAX {
            let message =
                format!("sliding_log remembers every unit: {} is more than {SLIDING_LOG_MAX}", self.rate.n);
            let fix =
                "use algorithm: sliding_counter or token_bucket, whose counters don't grow with the limit";
            report.add(at, &path, message, fix);
            return false;
        }
        true
    }

    fn check_burst(&self, from: &Fields<'_>, report: &mut Report<'_>) -> bool {
        let (at, path) = (from.place("burst"), from.path("burst"));
        match self.burst {
            Some(_) if !self.kind.has_burst() => {
                let message = format!("{} has no burst", self.kind.name());
                let fix = if self.kind == Kind::Shaper {
                    "use queue for the units that may wait"
                } else {
                    "leave it out, or use algorithm: token_bucket"
                };
                report.add(at, &path, message, fix);
                false
            }
            Some(0) => {
                let fix = "leave it out for burst = rate, or write at least 1";
                report.add(at, &path, "a burst of 0 can never admit", fix);
                false
            }
            Some(_) | None => true,
        }
    }

    fn check_queue(&self, from: &Fields<'_>, report: &mut Report<'_>) -> bool {
        let (at, path) = (from.place("queue"), from.path("queue"));
        match (self.kind, self.queue) {
            (Kind::Shaper, None) => {
                let fix = "write queue: the units that may wait their turn, such as queue: 20";
                report.add(from.at, &path, "a shaper needs a queue", fix);
                false
            }
            (Kind::Shaper, Some(0)) => {
                report.add(at, &path, "a queue of 0 can never admit", "write at least 1");
                false
            }
            (Kind::Shaper, Some(_)) | (_, None) => true,
            (_, Some(_)) => {
                let message = format!("{} has no queue", self.kind.name());
                report.add(at, &path, message, "leave it out, or use algorithm: shaper");
                false
            }
        }
    }

    fn check_zone(&self, from: &Fields<'_>, report: &mut Report<'_>) -> bool {
        let message = match (&self.zone, self.kind, self.rate.per) {
            (None, _, _) | (Some(_), Kind::FixedWindow, Period::Calendar(_)) => return true,
            (Some(_), Kind::FixedWindow, Period::Second) => "a second is the same in every zone",
            (Some(_), Kind::FixedWindow, Period::Length(_)) => {
                "windows of a duration begin at multiples of it since 1970 and follow no zone"
            }
            (Some(_), _, _) => "only calendar windows follow a zone",
        };
        let fix = "leave it out, or use algorithm: fixed_window with minute, hour, day, week, month or year";
        // An override inherits the zone: what doesn't go with it is the rate it sets.
        let field = if from.get("zone").is_some() { "zone" } else { "limit" };
        report.add(from.place(field), &from.path(field), message, fix);
        false
    }
}

/// Turns "absent, wrong or right" into "wrong, or what there is".
fn all_or_none<T>(field: Option<Option<T>>) -> Option<Option<T>> {
    match field {
        Some(None) => None,
        Some(Some(value)) => Some(Some(value)),
        None => Some(None),
    }
}

fn read_count(node: &Node, from: &Fields<'_>, field: &str, report: &mut Report<'_>) -> Option<u64> {
    count(node, &from.path(field), report)
}

fn read_rate(from: &Fields<'_>, report: &mut Report<'_>) -> Option<Rate> {
    let (node, path) = (from.get("limit")?, from.path("limit"));
    match rate::parse(text(node, &path, "units per time, such as 5/min", report)?) {
        Ok(rate) => Some(rate),
        Err(error) => {
            report.add(node.at, &path, error.to_string(), error.fix());
            None
        }
    }
}

fn read_zone(from: &Fields<'_>, report: &mut Report<'_>) -> Option<Zone> {
    let (node, path) = (from.get("zone")?, from.path("zone"));
    let given = text(node, &path, "an IANA name such as Europe/Berlin", report)?;
    let zone = Zone::new(given).ok();
    if zone.is_none() {
        let fix = "use an IANA name such as UTC or Europe/Berlin";
        report.add(node.at, &path, format!("unknown time zone {}", quoted(given)), fix);
    }
    zone
}

/// A share such as 0.05 in parts per million, exactly.
pub(super) fn read_share(node: &Node, path: &str, report: &mut Report<'_>) -> Option<u32> {
    let given = text(node, path, "a share such as 0.05", report)?;
    let share = parse_share(given);
    if share.is_none() {
        let fix = "write a number from 0 to 1 with at most six decimals, such as 0.05 for five percent";
        report.add(node.at, path, format!("{} is no share", quoted(given)), fix);
    }
    share
}

const PPM: u32 = 1_000_000;

fn parse_share(text: &str) -> Option<u32> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(decimals) {
        return None;
    }
    let decimals = decimals.trim_end_matches('0');
    if decimals.len() > 6 {
        return None;
    }
    let whole: u32 = whole.parse().ok()?;
    let fraction: u32 = format!("{decimals:0<6}").parse().ok()?;
    whole.checked_mul(PPM)?.checked_add(fraction).filter(|ppm| *ppm <= PPM)
}

#[cfg(test)]
mod tests;
