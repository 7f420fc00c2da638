//! Shares of a limit that an edge may spend alone, while its owner can't be reached.
//!
//! Invariant: over all edges that hold a number below N, shares sum to no more than what the owner keeps back (or, with
//! `max_overshoot`, to no more than what a limit may be overshot by): every part is rounded down. A share begins empty and
//! fills at its own rate, so whoever held the number before has no bearing on it. It has no say in how the owner counts.
//!
//! An edge can't tell where the owner's windows begin. So a window's share is kept as a log over at least as long a span:
//! what fits into *every* span of a window's length fits into each window.

use std::collections::BTreeMap;

use leasehold_limit::{Algorithm, Ask, CalendarUnit, Decision, Limit, Share, State, Window};
use leasehold_model::{BootTime, Key, Nanos, Stamp};

use crate::{SLOT_LIFETIME, edge_lifetime};

/// Entries of a window's log: spends are kept as of the end of their part of the span, in so many parts.
const PARTS: u64 = 64;

/// A share of a limit as an edge counts it by itself.
fn local(limit: &Limit, share: Share) -> Option<Limit> {
    let scaled = share.scale(limit)?;
    let spans = match scaled.algorithm() {
        Algorithm::TokenBucket { .. } | Algorithm::LeakyBucket { .. } => return Some(scaled),
        Algorithm::Shaper { .. } => return None,
        Algorithm::FixedWindow(Window::Calendar { unit, .. }) => longest(*unit),
        Algorithm::FixedWindow(Window::Epoch) | Algorithm::SlidingLog => scaled.period(),
        // Its estimate weighs two windows.
        Algorithm::SlidingCounter => Nanos(scaled.period().0.checked_mul(2)?),
    };
    let period = spans.0.checked_add(part_of(spans).0)?;
    Limit::new(Algorithm::SlidingLog, scaled.n(), Nanos(period)).ok()
}

/// The longest that a window of a calendar unit lasts anywhere.
fn longest(unit: CalendarUnit) -> Nanos {
    const DAY_SECS: u64 = 86_400;
    // No zone ever moved its clocks by more than a day.
    Nanos::from_secs(match unit {
        CalendarUnit::Minute => 2 * 60,
        CalendarUnit::Hour => 2 * 3_600,
        CalendarUnit::Day => 2 * DAY_SECS,
        CalendarUnit::Week => 8 * DAY_SECS,
        CalendarUnit::Month => 32 * DAY_SECS,
        CalendarUnit::Year => 367 * DAY_SECS,
    })
}

fn part_of(span: Nanos) -> Nanos {
    Nanos(span.0.div_ceil(PARTS).max(1))
}

/// What an edge may spend by itself of the keys of one shard, by virtue of its number there.
#[derive(Debug)]
pub struct Allowances {
    slot: Option<Slot>,
    keys: BTreeMap<Key, Allowance>,
    keys_max: usize,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    number: u16,
    /// It has been this edge's without a break since then.
    since: BootTime,
    until: BootTime,
}

#[derive(Debug)]
struct Allowance {
    of: (Limit, Share),
    limit: Limit,
    state: State,
}

impl Allowances {
    /// None yet. At `keys_max` keys a new key has no allowance until another's is full again.
    #[must_use]
    pub const fn new(keys_max: usize) -> Self {
        Self { slot: None, keys: BTreeMap::new(), keys_max }
    }

    /// An answer to an ask that was sent at `sent` gave this edge a number, or confirmed it.
    pub fn handle_slot(&mut self, number: u16, sent: BootTime) {
        let until = BootTime(sent.0.saturating_add(edge_lifetime(SLOT_LIFETIME).0));
        match &mut self.slot {
            Some(slot) if slot.number == number && sent <= slot.until => slot.until = slot.until.max(until),
            // An answer that was long under way.
            Some(slot) if sent < slot.since => {}
            Some(_) | None => {
                self.keys.clear();
                self.slot = Some(Slot { number, since: sent, until });
            }
        }
    }

    /// The number this edge holds at `now`.
    #[must_use]
    pub fn slot(&self, now: BootTime) -> Option<u16> {
        self.slot.filter(|slot| now < slot.until).map(|slot| slot.number)
    }

    /// Decides `cost` units by this edge's share of a limit, shared by `edges`. `None`: it has none, since it holds no
    /// number below `edges`, the share comes to nothing, or it keeps as many keys as it may.
    pub fn acquire(
        &mut self,
        key: Key,
        limit: &Limit,
        share: Share,
        edges: u32,
        cost: u64,
        now: BootTime,
    ) -> Option<Decision> {
        let slot = self.slot.filter(|slot| now < slot.until && u32::from(slot.number) < edges)?;
        let (keys, keys_max) = (&mut self.keys, self.keys_max);
        if keys.get(&key).is_none_or(|held| held.of.0 != *limit || held.of.1 != share) {
            if keys.len() >= keys_max && !keys.contains_key(&key) {
                Self::make_room(keys, slot, now);
            }
            if keys.len() >= keys_max && !keys.contains_key(&key) {
                return None;
            }
            let allowance = Allowance::new(limit, share, slot.since, keys.get(&key), now)?;
            keys.insert(key, allowance);
        }
        let allowance = keys.get_mut(&key)?;
        let at = allowance.stamp(now);
        Some(allowance.limit.acquire(&mut allowance.state, at, Ask::exactly(cost)))
    }

    /// Drops allowances that are as full as those of keys never seen.
    fn make_room(keys: &mut BTreeMap<Key, Allowance>, slot: Slot, now: BootTime) {
        keys.retain(|_, allowance| {
            let unseen = allowance.limit.fresh_at(&allowance.empty_at(slot.since));
            let full = unseen.max(allowance.limit.fresh_at(&allowance.state));
            allowance.stamp(now) < full
        });
    }
}

impl Allowance {
    /// Empty as of when the number became the edge's; of changed numbers, empty as of now.
    fn new(
        limit: &Limit,
        share: Share,
        since: BootTime,
        before: Option<&Self>,
        now: BootTime,
    ) -> Option<Self> {
        let scaled = local(limit, share)?;
        let mut allowance = Self { of: (limit.clone(), share), state: scaled.fresh(), limit: scaled };
        allowance.state = allowance.empty_at(if before.is_some() { now } else { since });
        Some(allowance)
    }

    fn empty_at(&self, at: BootTime) -> State {
        let mut state = self.limit.fresh();
        self.limit.charge(&mut state, self.stamp(at), self.limit.cap());
        state
    }

    /// Its time line is the edge's clock; a log's in whole parts, the begun one counted whole.
    fn stamp(&self, now: BootTime) -> Stamp {
        match self.limit.algorithm() {
            Algorithm::SlidingLog => {
                let part = Nanos((self.limit.period().0 / (PARTS + 1)).max(1)).0;
                Stamp(now.0.div_ceil(part).saturating_mul(part))
            }
            Algorithm::TokenBucket { .. }
            | Algorithm::LeakyBucket { .. }
            | Algorithm::Shaper { .. }
            | Algorithm::FixedWindow(_)
            | Algorithm::SlidingCounter => Stamp(now.0),
        }
    }
}

#[cfg(test)]
mod tests;
