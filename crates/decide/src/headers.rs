//! An answer in response headers, the same from a node's door and from a service's own: `RateLimit` and
//! `RateLimit-Policy` (IETF draft, RFC 9651 lists), the older `X-RateLimit-*` habit, `Retry-After`.
//!
//! Enforced limits that a counter answered for appear, one item a rule; shadow rules never do. It writes what an answer
//! says and decides nothing.

use std::fmt;
use std::sync::Arc;

use http::header::{CACHE_CONTROL, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use leasehold_limit::check::{Answer, RuleAnswer, Verdict};
use leasehold_limit::{Algorithm, Decision, Limit, RetryAfter};
use leasehold_model::Nanos;

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const DEGRADED: HeaderName = HeaderName::from_static("x-leasehold-degraded");
const TRUE: HeaderValue = HeaderValue::from_static("true");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// The largest integer that a structured field may hold (RFC 9651 §3.3.1): 15 digits. Larger numbers are sent as this.
const SF_INTEGER_MAX: u64 = 999_999_999_999_999;

/// Items of one header, so that it stays below what clients and proxies take. Further rules are in the body only.
const ITEMS_MAX: usize = 64;

/// Bytes that one policy usually takes; a guess that saves growing the buffer.
const ITEM_BYTES: usize = 48;

/// Which revision of the IETF draft `RateLimit` and `RateLimit-Policy` follow. It is a draft and may still change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RateLimitFields {
    /// Neither is sent.
    Off,
    /// Revision 11, the same on the wire since 08.
    #[default]
    Draft11,
}

/// How `X-RateLimit-*` are sent. There is no standard: what `-Reset` counts differs between services.
#[derive(Clone, Default)]
pub enum XRateLimit {
    /// Not at all.
    #[default]
    Off,
    /// `-Reset` is in seconds from now.
    DeltaSeconds,
    /// `-Reset` is a Unix time; the function returns the current one in seconds.
    EpochSeconds(Arc<dyn Fn() -> u64 + Send + Sync>),
}

impl fmt::Debug for XRateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "Off",
            Self::DeltaSeconds => "DeltaSeconds",
            Self::EpochSeconds(_) => "EpochSeconds",
        })
    }
}

/// A limit as headers put it: `quota` units in each `window`.
///
/// For buckets and shapers that is what they hold and how long they take to refill it, not the rate's own numbers: a
/// client that spends `quota` a `window` is never refused, and what remains never exceeds `quota`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Policy {
    quota: u64,
    window: Nanos,
}

impl Policy {
    fn of(limit: &Limit) -> Self {
        let quota = limit.cap();
        let window = match limit.algorithm() {
            Algorithm::TokenBucket { .. } | Algorithm::LeakyBucket { .. } | Algorithm::Shaper { .. } => {
                let nanos = u128::from(quota) * u128::from(limit.period().0);
                let refill = nanos.div_ceil(u128::from(limit.n().max(1)));
                Nanos(u64::try_from(refill).unwrap_or(u64::MAX))
            }
            Algorithm::FixedWindow(_) | Algorithm::SlidingLog | Algorithm::SlidingCounter => limit.period(),
        };
        Self { quota, window }
    }
}

/// The status of an answer.
#[must_use]
pub const fn status(verdict: Verdict) -> StatusCode {
    match verdict {
        Verdict::Allowed => StatusCode::OK,
        Verdict::OverLimit => StatusCode::TOO_MANY_REQUESTS,
        Verdict::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// Adds what headers say of an answer: limits as asked for, when to retry, whether it is degraded, and that no cache may
/// keep a refusal.
pub fn insert(answer: &Answer, fields: RateLimitFields, x: &XRateLimit, headers: &mut HeaderMap) {
    insert_limits(answer, fields, x, headers);
    if let Some(RetryAfter::In(wait)) = answer.retry_after() {
        insert_retry_after(headers, wait);
    }
    if answer.verdict != Verdict::Allowed {
        headers.insert(CACHE_CONTROL, NO_STORE);
    }
    if answer.degraded {
        headers.insert(DEGRADED, TRUE);
    }
}

/// `Retry-After` in whole seconds, rounded up and never 0: that would invite an immediate retry.
pub fn insert_retry_after(headers: &mut HeaderMap, retry_after: Nanos) {
    headers.insert(RETRY_AFTER, HeaderValue::from(retry_after.secs_ceil().max(1)));
}

fn insert_limits(answer: &Answer, fields: RateLimitFields, x: &XRateLimit, headers: &mut HeaderMap) {
    match fields {
        RateLimitFields::Off => {}
        RateLimitFields::Draft11 => insert_draft(answer, headers),
    }
    match x {
        XRateLimit::Off => {}
        XRateLimit::DeltaSeconds => insert_x(answer, |t| t, headers),
        XRateLimit::EpochSeconds(now_secs) => insert_x(answer, |t| now_secs().saturating_add(t), headers),
    }
}

/// One enforced limit with its counter's answer, and when the request as a whole may be retried.
struct Item<'a> {
    matched: &'a RuleAnswer,
    decision: &'a Decision,
    retry_after: Option<RetryAfter>,
}

/// One item a rule: of several counters of one rule (several descriptors) the one that a caller should mind most.
fn items(answer: &Answer) -> Vec<Item<'_>> {
    let (several, retry_after) = (answer.descriptors.len() > 1, answer.retry_after());
    let mut items: Vec<Item<'_>> =
        Vec::with_capacity(answer.descriptors.first().map_or(0, |d| d.matched.len()));
    for matched in answer.matched() {
        let Some(decision) = matched.decision().filter(|_| !matched.rule.shadow) else { continue };
        let item = Item { matched, decision, retry_after };
        match items.iter().position(|other| several && other.matched.rule.name == matched.rule.name) {
            Some(index) if matched.rank() < items[index].matched.rank() => items[index] = item,
            Some(_) => {}
            None if items.len() < ITEMS_MAX => items.push(item),
            None => {}
        }
    }
    items
}

impl Item<'_> {
    /// Seconds until more quota: until the next unit when none is left, until full otherwise. `None`: there will never be
    /// any.
    ///
    /// It exceeds neither the time at which this limit admits the request nor the whole's `Retry-After`: whoever waits as
    /// long as `t` says would wait too long otherwise.
    fn t(&self) -> Option<u64> {
        let decision = self.decision;
        let natural = if decision.remaining > 0 { decision.reset_after } else { decision.next_unit_after };
        let retries = [decision.retry_after, self.retry_after].into_iter().flatten();
        let t = retries.fold(natural, |t, retry| match retry {
            RetryAfter::In(wait) => t.min(wait),
            RetryAfter::Never => t,
        });
        (t != Nanos::MAX).then(|| t.secs_ceil())
    }
}

fn insert_draft(answer: &Answer, headers: &mut HeaderMap) {
    let items = items(answer);
    if items.is_empty() {
        return;
    }
    let mut text = String::with_capacity(items.len() * ITEM_BYTES);
    for item in &items {
        let policy = Policy::of(&item.matched.limit);
        push_name(&mut text, &item.matched.rule.name);
        push_parameter(&mut text, ";q=", policy.quota);
        push_parameter(&mut text, ";w=", policy.window.secs_ceil().max(1));
    }
    insert_text(headers, RATE_LIMIT_POLICY, &text);
    text.clear();
    for item in &items {
        push_name(&mut text, &item.matched.rule.name);
        push_parameter(&mut text, ";r=", item.decision.remaining);
        if let Some(t) = item.t() {
            push_parameter(&mut text, ";t=", t);
        }
    }
    insert_text(headers, RATE_LIMIT, &text);
}

/// Begins an item: a separator unless it is the first, then the name as a structured string.
fn push_name(list: &mut String, name: &str) {
    if !list.is_empty() {
        list.push_str(", ");
    }
    list.push('"');
    if name.contains(['"', '\\']) {
        list.push_str(&name.replace('\\', r"\\").replace('"', r#"\""#));
    } else {
        list.push_str(name);
    }
    list.push('"');
}

fn push_parameter(list: &mut String, name: &str, value: u64) {
    list.push_str(name);
    list.push_str(itoa::Buffer::new().format(value.min(SF_INTEGER_MAX)));
}

/// Rule names are ASCII, so the text is a valid header; were it not, no header is better than a broken answer.
fn insert_text(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(name, value);
    }
}

/// The old headers know one limit: the one that a caller should mind most. Where no counter answered for it there are no
/// numbers to send.
fn insert_x(answer: &Answer, reset: impl Fn(u64) -> u64, headers: &mut HeaderMap) {
    let Some(matched) = answer.binding() else { return };
    let Some(decision) = matched.decision() else { return };
    let item = Item { matched, decision, retry_after: answer.retry_after() };
    headers.insert(X_LIMIT, HeaderValue::from(Policy::of(&matched.limit).quota));
    headers.insert(X_REMAINING, HeaderValue::from(decision.remaining));
    if let Some(t) = item.t() {
        headers.insert(X_RESET, HeaderValue::from(reset(t)));
    }
}
