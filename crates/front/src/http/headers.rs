//! Rate limits in response headers: `RateLimit` and `RateLimit-Policy` (IETF draft, RFC 9651 lists), and the older
//! `X-RateLimit-*` habit.
//!
//! Enforced limits that a counter answered for appear, one item a rule; shadow rules never do. It writes what an answer
//! says and decides nothing.

use http::{HeaderMap, HeaderName, HeaderValue};
use leasehold_limit::check::{Answer, RuleAnswer};
use leasehold_limit::{Algorithm, Decision, Limit, RetryAfter};
use leasehold_model::Nanos;

use super::config::{RateLimitFields, XRateLimit};

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// The largest integer that a structured field may hold (RFC 9651 §3.3.1): 15 digits. Larger numbers are sent as this.
const SF_INTEGER_MAX: u64 = 999_999_999_999_999;

/// Items of one header, so that it stays below what clients and proxies take. Further rules are in the body only.
const ITEMS_MAX: usize = 64;

/// Bytes that one policy usually takes; a guess that saves growing the buffer.
const ITEM_BYTES: usize = 48;

/// A limit as headers put it: `quota` units in each `window`.
///
/// For buckets and shapers that is what they hold and how long they take to refill it, not the rate's own numbers: a
/// client that spends `quota` a `window` is never refused, and what remains never exceeds `quota`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) quota: u64,
    pub(super) window: Nanos,
}

impl Policy {
    pub(super) fn of(limit: &Limit) -> Self {
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

/// Adds the headers that the configuration asks for.
pub(super) fn insert(answer: &Answer, fields: RateLimitFields, x: &XRateLimit, headers: &mut HeaderMap) {
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
