//! JSON out: what the limits said, as the body of a decision.
//!
//! An allowed request is answered with 200 and
//!
//! ```json
//! {"verdict": "allowed", "allowed": true,
//!  "matched": [{"rule": "login", "limit": "5/min", "algorithm": "sliding_log", "n": 5, "period_ns": 60000000000,
//!               "allowed": true, "source": "owner", "remaining": 4, "reset_after_ms": 60000}],
//!  "shadow_denied": [], "degraded": false, "rules_version": 1}
//! ```
//!
//! - `verdict`: `allowed`, `over_limit` or `unavailable`; `allowed` says whether to go ahead. A peek adds `would_allow`.
//! - `wait_ms`: only with shapers, the time to wait before going ahead.
//! - `matched`: every rule that applied, in rule order; `descriptor` is there when the request had several. Buckets add
//!   `burst`, shapers `queue`; a refused one adds `retry_after_ms` and `retry_after_ns`, or `"retryable": false`.
//!   `source` says who decided: the counter's `owner`, an edge by a `lease` or its `deny_cache`, or, when the owner could
//!   not be asked, the `fallback` that is set aside for that. Instead `outcome` is there when nobody did: `unavailable` or
//!   `unidentified`.
//! - `shadow_denied`: shadow rules that would have refused.
//! - Milliseconds are rounded up; `_ns` members are exact.
//!
//! A refused request is answered with 429 (or 503 when it can't be decided) and a problem (RFC 9457) that has the members
//! above and `retry_after_ms` or `"retryable": false`, `max_cost`, `violated-policies`.

use std::fmt;

use axum::body::Body;
use axum::response::Response;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, StatusCode};
use leasehold_decide::headers::{self, status};
use leasehold_limit::check::{Answer, Outcome, RuleAnswer, Verdict};
use leasehold_limit::rules::{OnUnavailable, rate::describe};
use leasehold_limit::{Algorithm, Limit, RetryAfter, Window};
use leasehold_model::Nanos;
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::config::HttpConfig;
use super::problem::{PROBLEM_JSON, QUOTA_EXCEEDED, REDUCED_CAPACITY};

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Bytes that a body with one or two rules takes; a guess that saves growing the buffer.
const BODY_BYTES: usize = 512;

/// What a refused caller may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retry {
    /// Nothing: it was allowed.
    NoNeed,
    /// Come back after this long.
    After(Nanos),
    /// Not this request: send one that costs no more than this, or that names what the rule counts by.
    Never {
        /// The largest cost that every limit could ever admit, where cost was the reason.
        max_cost: Option<u64>,
    },
}

impl Retry {
    pub(super) fn of(answer: &Answer) -> Self {
        match answer.retry_after() {
            None => Self::NoNeed,
            Some(RetryAfter::In(wait)) => Self::After(wait),
            Some(RetryAfter::Never) => Self::Never { max_cost: max_cost(answer) },
        }
    }
}

/// What the limits that will never admit this request could admit at most; `None` if cost isn't their reason.
fn max_cost(answer: &Answer) -> Option<u64> {
    let never = |matched: &&RuleAnswer| {
        matched.decision().is_some_and(|decision| decision.retry_after == Some(RetryAfter::Never))
    };
    answer.violated().filter(never).map(|matched| matched.limit.cap()).min()
}

/// Adds what headers say of an answer.
pub(super) fn insert_headers(answer: &Answer, config: &HttpConfig, headers: &mut HeaderMap) {
    headers::insert(answer, config.rate_limit, &config.x_rate_limit, headers);
}

/// A whole response to a single check.
pub(super) fn respond(answer: &Answer, is_peek: bool, config: &HttpConfig) -> Response {
    let mut body = Vec::with_capacity(BODY_BYTES);
    let decision = DecisionBody::new(answer, is_peek);
    serde_json::to_writer(&mut body, &decision).expect("a decision has only text keys and writes to memory");
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status(answer.verdict);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, if answer.verdict == Verdict::Allowed { JSON } else { PROBLEM_JSON });
    insert_headers(answer, config, headers);
    response
}

/// An answer as JSON: a plain decision when it is allowed, a problem with the decision's members when not.
pub(super) struct DecisionBody<'a> {
    pub(super) answer: &'a Answer,
    pub(super) is_peek: bool,
    /// Items of a batch carry their status also when allowed.
    pub(super) in_batch: bool,
    /// What the problem gives as its status.
    pub(super) status: StatusCode,
}

impl<'a> DecisionBody<'a> {
    /// The body of a response of its own, with the verdict's status.
    pub(super) const fn new(answer: &'a Answer, is_peek: bool) -> Self {
        Self { answer, is_peek, in_batch: false, status: status(answer.verdict) }
    }

    fn problem<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let answer = self.answer;
        let over = answer.verdict == Verdict::OverLimit;
        let (kind, title) = if over {
            (QUOTA_EXCEEDED, "Over the limit")
        } else {
            (REDUCED_CAPACITY, "The limit can't be decided for now")
        };
        let retry = Retry::of(answer);
        map.serialize_entry("type", kind)?;
        map.serialize_entry("title", title)?;
        map.serialize_entry("status", &self.status.as_u16())?;
        map.serialize_entry("detail", &Text(Detail { answer, retry }))?;
        match retry {
            Retry::NoNeed => {}
            Retry::After(wait) => map.serialize_entry("retry_after_ms", &wait.millis_ceil())?,
            Retry::Never { max_cost } => {
                map.serialize_entry("retryable", &false)?;
                if let Some(max_cost) = max_cost {
                    map.serialize_entry("max_cost", &max_cost)?;
                }
            }
        }
        map.serialize_entry("violated-policies", &Names { answer, of: RuleAnswer::violated })
    }
}

impl Serialize for DecisionBody<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let answer = self.answer;
        let allowed = answer.verdict == Verdict::Allowed;
        let mut map = serializer.serialize_map(None)?;
        if !allowed {
            self.problem(&mut map)?;
        } else if self.in_batch {
            map.serialize_entry("status", &self.status.as_u16())?;
        }
        map.serialize_entry("verdict", answer.verdict.name())?;
        map.serialize_entry("allowed", &allowed)?;
        if self.is_peek {
            map.serialize_entry("would_allow", &allowed)?;
        }
        if let Some(wait) = wait(answer) {
            map.serialize_entry("wait_ms", &wait.millis_ceil())?;
        }
        map.serialize_entry("matched", &Matched(answer))?;
        map.serialize_entry("shadow_denied", &Names { answer, of: |m| m.rule.shadow && m.refused() })?;
        map.serialize_entry("degraded", &answer.degraded)?;
        map.serialize_entry("rules_version", &answer.rules_version.0)?;
        map.end()
    }
}

/// How long an allowed request must wait for its turn: the longest of all shapers.
fn wait(answer: &Answer) -> Option<Nanos> {
    let enforced = answer.matched().filter(|matched| !matched.rule.shadow);
    enforced.filter_map(RuleAnswer::decision).filter_map(|decision| decision.wait).max()
}

/// Names of the rules that a condition holds for, each once.
struct Names<'a> {
    answer: &'a Answer,
    of: fn(&RuleAnswer) -> bool,
}

impl<'a> Names<'a> {
    fn iter(&self) -> impl Iterator<Item = &'a str> {
        let matched = || self.answer.matched().filter(|matched| (self.of)(matched));
        matched()
            .enumerate()
            .filter(move |(index, this)| {
                !matched().take(*index).any(|earlier| earlier.rule.name == this.rule.name)
            })
            .map(|(_, matched)| &*matched.rule.name)
    }
}

impl Serialize for Names<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

struct Matched<'a>(&'a Answer);

impl Serialize for Matched<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let several = self.0.descriptors.len() > 1;
        serializer.collect_seq(self.0.descriptors.iter().enumerate().flat_map(|(index, descriptor)| {
            descriptor
                .matched
                .iter()
                .map(move |matched| Rule { matched, descriptor: several.then_some(index) })
        }))
    }
}

/// One matched rule.
struct Rule<'a> {
    matched: &'a RuleAnswer,
    descriptor: Option<usize>,
}

impl Serialize for Rule<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let RuleAnswer { rule, limit, outcome, source } = self.matched;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("rule", &*rule.name)?;
        if let Some(descriptor) = self.descriptor {
            map.serialize_entry("descriptor", &descriptor)?;
        }
        numbers(&mut map, limit)?;
        map.serialize_entry("allowed", &!self.matched.refused())?;
        match outcome {
            Outcome::Decided(decision) => {
                map.serialize_entry("source", source.name())?;
                decided(&mut map, decision)?;
            }
            Outcome::Unavailable => {
                map.serialize_entry("outcome", "unavailable")?;
                map.serialize_entry("on_unavailable", on_unavailable(rule.on_unavailable))?;
            }
            Outcome::Unidentified => map.serialize_entry("outcome", "unidentified")?,
        }
        if rule.shadow {
            map.serialize_entry("shadow", &true)?;
        }
        map.end()
    }
}

fn numbers<M: SerializeMap>(map: &mut M, limit: &Limit) -> Result<(), M::Error> {
    map.serialize_entry("limit", &describe(limit))?;
    map.serialize_entry("algorithm", limit.algorithm().name())?;
    map.serialize_entry("n", &limit.n())?;
    map.serialize_entry("period_ns", &limit.period().0)?;
    match limit.algorithm() {
        Algorithm::TokenBucket { burst } | Algorithm::LeakyBucket { burst } => {
            map.serialize_entry("burst", burst)
        }
        Algorithm::Shaper { queue } => map.serialize_entry("queue", queue),
        Algorithm::FixedWindow(Window::Calendar { zone, .. }) => map.serialize_entry("zone", zone.name()),
        Algorithm::FixedWindow(Window::Epoch) | Algorithm::SlidingLog | Algorithm::SlidingCounter => Ok(()),
    }
}

fn decided<M: SerializeMap>(map: &mut M, decision: &leasehold_limit::Decision) -> Result<(), M::Error> {
    map.serialize_entry("remaining", &decision.remaining)?;
    match decision.retry_after {
        None => {}
        Some(RetryAfter::In(wait)) => {
            map.serialize_entry("retry_after_ms", &wait.millis_ceil())?;
            map.serialize_entry("retry_after_ns", &wait.0)?;
        }
        Some(RetryAfter::Never) => map.serialize_entry("retryable", &false)?,
    }
    map.serialize_entry("reset_after_ms", &decision.reset_after.millis_ceil())?;
    if let Some(wait) = decision.wait {
        map.serialize_entry("wait_ms", &wait.millis_ceil())?;
        map.serialize_entry("wait_ns", &wait.0)?;
    }
    Ok(())
}

const fn on_unavailable(declared: OnUnavailable) -> &'static str {
    match declared {
        OnUnavailable::Allow => "allow",
        OnUnavailable::Deny => "deny",
        OnUnavailable::Local => "local",
    }
}

/// Anything that prints, as a JSON string.
struct Text<T>(T);

impl<T: fmt::Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// A refusal in words.
struct Detail<'a> {
    answer: &'a Answer,
    retry: Retry,
}

impl fmt::Display for Detail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.answer.verdict {
            Verdict::Unavailable => "the owner of a counter can't be reached and its rule refuses then: ",
            Verdict::Allowed | Verdict::OverLimit => "over the limit of ",
        })?;
        let names = Names { answer: self.answer, of: RuleAnswer::violated };
        for (index, name) in names.iter().enumerate() {
            write!(f, "{}{name}", if index == 0 { "" } else { ", " })?;
        }
        match self.retry {
            Retry::NoNeed => Ok(()),
            Retry::After(wait) => write!(f, "; retry in {} ms", wait.millis_ceil()),
            Retry::Never { max_cost: Some(max) } => {
                write!(f, "; it costs more than the limit ever admits, at most {max}")
            }
            Retry::Never { max_cost: None } => {
                f.write_str("; an attribute that the rule counts by is absent, send it")
            }
        }
    }
}
