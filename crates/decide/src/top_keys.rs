//! The keys that a process is asked for most often of late, by rule, from a random sample of its requests.
//!
//! Invariant: memory is bounded whatever is asked. What a key is the hash of is kept only where that was said; else nothing
//! here knows it. A request that isn't drawn costs a look at a number of its own thread.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_limit::check::{Answer, Attribute, Descriptor, Request, RuleAnswer};
use leasehold_limit::rules::Rule;
use leasehold_model::{BootTime, Key, Nanos};

use crate::Region;
use crate::region::counter;
use crate::sketch::{Entry, Sketch};

/// One of so many requests is looked at, on average: few enough to cost nothing, and of a key that is worth knowing
/// hundreds are seen.
pub const SAMPLED_ONE_IN: u32 = 64;
/// A window. What is told is of the one under way and the one before it.
const WINDOW: Nanos = Nanos::from_secs(60);
/// Rules that keys are kept of, at some 20 KiB each. At the bound the keys of further rules are not kept.
const RULES_MAX: usize = 512;
/// Bytes of a value that are kept.
const VALUE_BYTES_MAX: usize = 128;

thread_local! {
    static DRAW: Cell<Draw> = const { Cell::new(Draw { left: 0, chance: 0 }) };
}

/// See the module.
#[derive(Debug)]
pub struct TopKeys {
    keep_values: bool,
    recent: Mutex<Recent>,
}

/// A key of a rule. Counts are of requests in the window, estimated from the sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeavyKey {
    /// The rule's domain.
    pub domain: Arc<str>,
    /// The rule.
    pub rule: Arc<str>,
    /// The counter.
    pub key: Key,
    /// What it is the hash of, names and values; empty unless values are kept.
    pub values: Values,
    /// Requests.
    pub requests: u64,
    /// Of those, as many as this may be another key's.
    pub error: u64,
    /// Of the requests, those that the rule refused.
    pub refused: u64,
    /// Requests that the rule applied to, all keys together.
    pub rule_requests: u64,
    /// Requests of a key of the rule that isn't told of, at most.
    pub unlisted_max: u64,
}

/// Names and values.
pub type Values = Arc<[(Arc<str>, Box<str>)]>;

/// Two windows.
#[derive(Debug, Default)]
struct Recent {
    /// When the window under way began. `None`: nothing was ever seen.
    began: Option<BootTime>,
    /// How long the one before it was.
    before: Nanos,
    rules: BTreeMap<(Arc<str>, Arc<str>), Windows>,
}

#[derive(Debug, Default)]
struct Windows {
    now: Sketch<Values>,
    before: Sketch<Values>,
}

/// Which requests a thread draws.
#[derive(Clone, Copy)]
struct Draw {
    /// Requests until the next one.
    left: u32,
    /// Where chance stands; 0: it was never asked.
    chance: u64,
}

impl TopKeys {
    /// Nothing was seen. `keep_values`: whether to keep what keys are hashes of.
    #[must_use]
    pub fn new(keep_values: bool) -> Self {
        Self { keep_values, recent: Mutex::default() }
    }

    /// Whether what keys are hashes of is kept.
    #[must_use]
    pub const fn keeps_values(&self) -> bool {
        self.keep_values
    }

    /// Whether to look at this request.
    #[inline]
    #[must_use]
    pub fn draws(&self) -> bool {
        DRAW.with(|draw| {
            let Draw { left, chance } = draw.get();
            if let Some(left) = left.checked_sub(1) {
                draw.set(Draw { left, chance });
                return false;
            }
            draw.set(Draw::next(chance));
            chance != 0
        })
    }

    /// Looks at a request that was drawn. Limits that came with a request are nobody's rule, and left out.
    pub fn see(&self, now: BootTime, region: Option<&Region>, request: &Request<'_>, answer: &Answer) {
        let mut recent = self.lock();
        recent.turn(now);
        for (descriptor, answered) in request.descriptors.iter().zip(&answer.descriptors) {
            for answered in answered.matched.iter().filter(|_| descriptor.cost > 0) {
                let Some(key) = asked(region, descriptor, answered) else { continue };
                let values = || self.values(&answered.rule, descriptor);
                recent.see(&answered.rule, key, answered.refused(), values);
            }
        }
    }

    /// The `most` keys that were asked for most often, and the time that was looked at; of one domain, if one is named.
    #[must_use]
    pub fn read(&self, now: BootTime, domain: Option<&str>, most: usize) -> (Vec<HeavyKey>, Nanos) {
        let mut recent = self.lock();
        recent.turn(now);
        let rules = recent.rules.iter().filter(|((of, _), _)| domain.is_none_or(|domain| **of == *domain));
        let mut keys: Vec<_> = rules.flat_map(|(rule, windows)| windows.keys(rule)).collect();
        let window = recent.window(now);
        drop(recent);
        keys.sort_by(|a, b| {
            let rank = |key: &HeavyKey| (u64::MAX - key.requests, Arc::clone(&key.rule), key.key);
            rank(a).cmp(&rank(b))
        });
        keys.truncate(most);
        (keys, window)
    }

    fn values(&self, rule: &Rule, descriptor: &Descriptor<'_>) -> Values {
        if !self.keep_values {
            return Values::default();
        }
        let names = rule.per.iter().map(|dimension| &dimension.attribute);
        names.filter_map(|name| Some((Arc::from(&**name), shown(value(descriptor, name)?)))).collect()
    }

    /// Nothing under the lock leaves a sketch half done.
    fn lock(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The counter that a rule asked for a descriptor.
fn asked(region: Option<&Region>, descriptor: &Descriptor<'_>, answered: &RuleAnswer) -> Option<Key> {
    let rule = &answered.rule;
    if rule.name.is_empty() {
        return None;
    }
    Some(counter(region, rule, Rule::matched(rule, &descriptor.attributes)?.key?))
}

fn value<'a>(descriptor: &Descriptor<'a>, name: &str) -> Option<&'a [u8]> {
    let named = |attribute: &&Attribute<'a>| attribute.name == name;
    descriptor.attributes.iter().find(named).map(|attribute| attribute.value)
}

/// A value as text, cut where it is long.
fn shown(value: &[u8]) -> Box<str> {
    let kept = value.get(..VALUE_BYTES_MAX);
    let text = String::from_utf8_lossy(kept.unwrap_or(value));
    if kept.is_some_and(|kept| kept.len() < value.len()) { format!("{text}...").into() } else { text.into() }
}

impl Recent {
    /// Begins another window if the one under way is over.
    fn turn(&mut self, now: BootTime) {
        let began = *self.began.get_or_insert(now);
        let passed = now.since(began);
        if passed < WINDOW {
            return;
        }
        let idle = passed.0 >= 2 * WINDOW.0;
        for windows in self.rules.values_mut() {
            windows.before = if idle { Sketch::default() } else { mem::take(&mut windows.now) };
            windows.now = Sketch::default();
        }
        self.rules.retain(|_, windows| windows.before.total() > 0);
        self.before = if idle { Nanos::ZERO } else { passed };
        self.began = Some(now);
    }

    fn see(&mut self, rule: &Rule, key: Key, refused: bool, values: impl FnOnce() -> Values) {
        let name = (Arc::clone(&rule.domain), Arc::clone(&rule.name));
        if self.rules.len() >= RULES_MAX && !self.rules.contains_key(&name) {
            return;
        }
        self.rules.entry(name).or_default().now.see(key, refused, values);
    }

    fn window(&self, now: BootTime) -> Nanos {
        let began = self.began.unwrap_or(now);
        Nanos(self.before.0.saturating_add(now.since(began).0))
    }
}

impl Windows {
    fn keys(&self, (domain, rule): &(Arc<str>, Arc<str>)) -> Vec<HeavyKey> {
        let estimated = |seen: u64| seen.saturating_mul(SAMPLED_ONE_IN.into());
        let rule_requests = estimated(self.now.total() + self.before.total());
        let unlisted_max = estimated(self.now.unlisted_max() + self.before.unlisted_max());
        let heavy = |Entry { key, count, error, refused, value }| HeavyKey {
            domain: Arc::clone(domain),
            rule: Arc::clone(rule),
            key,
            values: value,
            requests: estimated(count),
            error: estimated(error),
            refused: estimated(refused),
            rule_requests,
            unlisted_max,
        };
        self.now.and(&self.before).into_iter().map(heavy).collect()
    }
}

impl Draw {
    /// How many requests to let pass is drawn evenly, so that no rhythm of requests hides any. A thread's first request
    /// isn't looked at: threads may be many and short.
    fn next(chance: u64) -> Self {
        let mut chance = if chance == 0 { RandomState::new().hash_one(0) | 1 } else { chance };
        // Xorshift (Marsaglia 2003).
        chance ^= chance << 13;
        chance ^= chance >> 7;
        chance ^= chance << 17;
        let span = u64::from(2 * SAMPLED_ONE_IN - 1);
        let left = u32::try_from((chance >> 33) % span).expect("it is below the span");
        Self { left, chance }
    }
}

#[cfg(test)]
mod tests;
