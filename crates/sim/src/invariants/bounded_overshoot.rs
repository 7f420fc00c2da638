//! P1, bound: of no key, over no interval, more is admitted than its limit says, to the unit; leases, retries, failovers and
//! changed rules and all.
//!
//! A bucket stands beside each counter and is charged with what was consumed, when it was: exact checks and units for
//! requests that wait when their entry was proposed, units of leases when they were spent. It refills as fast as clocks may
//! run: its own rate, a thousandth for their drift, a thousandth for the lean toward wall time. All intervals are so looked at
//! at once: it goes below zero exactly if there is one of too much. Windows and logs are summed up as they are defined.

use std::collections::BTreeMap;

use leasehold_limit::{Algorithm, Limit};
use leasehold_model::{RequestId, Stamp};

use super::Findings;
use crate::clocks::{SECOND, Time};

/// How much faster than true time a shard's line may run, in 1/10,000: drift and lean, both a thousandth, multiplied.
const FASTEST: i128 = 10_021;
/// Leases that were granted under other numbers are over after so long.
pub(super) const GRACE: Time = 6 * SECOND;

/// What a unit was consumed by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Consumed {
    /// When, in true time.
    pub(crate) at: Time,
    /// How many.
    pub(crate) units: u64,
    /// When it was charged, on the shard's line.
    pub(crate) line: Stamp,
    /// The part of a request that it was for: it doesn't count if it came back.
    pub(crate) of: Option<(usize, RequestId)>,
}

/// Numbers take hold of a counter.
#[derive(Clone, Debug)]
struct Switch {
    at: Time,
    line: Stamp,
    limit: Limit,
    out: u64,
    /// When the counter was touched last before.
    touched: Time,
}

#[derive(Debug)]
struct Metered {
    limit: Limit,
    touched: Time,
    switched: Time,
    consumed: Vec<Consumed>,
    switches: Vec<Switch>,
    /// What the counter itself had in use, clipped after rules were lowered, at some moments.
    clips: Vec<(Time, u64)>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct BoundedOvershoot {
    keys: Vec<Metered>,
    /// Units beyond a limit that are allowed, in quarters of it: 3 where an edge's clock is broken, as the most that is lent.
    quarters: u64,
    /// Largest overshoot of any counter, in thousandths of its capacity.
    pub(crate) per_mille: u64,
}

impl BoundedOvershoot {
    /// Of counters that begin under these limits.
    #[must_use]
    pub(crate) fn new(limits: Vec<Limit>, broken_clocks: bool) -> Self {
        let metered = |limit| Metered {
            limit,
            touched: 0,
            switched: 0,
            consumed: Vec::new(),
            switches: Vec::new(),
            clips: Vec::new(),
        };
        let keys = limits.into_iter().map(metered).collect();
        Self { keys, quarters: if broken_clocks { 3 } else { 0 }, per_mille: 0 }
    }

    /// Units are consumed.
    pub(crate) fn consumed(&mut self, key: usize, consumed: Consumed) {
        self.keys[key].consumed.push(consumed);
    }

    /// An entry of a moment touched a counter, which has since these numbers, so many units out and so many used besides.
    /// Says whether a limit was lowered to what is used or below.
    pub(crate) fn touched(
        &mut self,
        key: usize,
        at: (Time, Stamp),
        limit: &Limit,
        out: u64,
        used: u64,
    ) -> bool {
        let metered = &mut self.keys[key];
        let mut lowered = false;
        if metered.limit != *limit {
            lowered = limit.cap() < metered.limit.cap() && used + out >= limit.cap();
            let touched = metered.touched;
            metered.switches.push(Switch { at: at.0, line: at.1, limit: limit.clone(), out, touched });
            metered.limit = limit.clone();
            metered.switched = at.0;
        }
        if at.0 < metered.switched + GRACE && metered.switched > 0 {
            metered.clips.push((at.0, used));
        }
        metered.touched = metered.touched.max(at.0);
        lowered
    }

    /// At the end. `came_back` says which parts of requests were returned.
    pub(crate) fn finish(
        &mut self,
        first: &[Limit],
        came_back: impl Fn(usize, RequestId) -> bool,
        findings: &mut Findings,
    ) {
        for (key, metered) in self.keys.iter_mut().enumerate() {
            metered.consumed.retain(|consumed| !consumed.of.is_some_and(|(group, id)| came_back(group, id)));
            metered.consumed.sort_by_key(|consumed| consumed.at);
            metered.switches.sort_by_key(|switch| switch.at);
            metered.clips.sort_unstable();
            let deepest = match first[key].algorithm() {
                Algorithm::TokenBucket { .. } | Algorithm::LeakyBucket { .. } | Algorithm::Shaper { .. } => {
                    metered.bucket(&first[key])
                }
                Algorithm::FixedWindow(_) | Algorithm::SlidingCounter => metered.windows(&first[key]),
                Algorithm::SlidingLog => metered.log(&first[key]),
            };
            let Some((at, beyond, cap)) = deepest else { continue };
            self.per_mille = self.per_mille.max(beyond * 1_000 / cap.max(1));
            if beyond > cap * self.quarters / 4 {
                findings.add("bounded_overshoot", at, || {
                    format!("key {key} is {beyond} units over its limit of {cap}")
                });
            }
        }
    }
}

/// Where a counter was furthest over its limit, by how much, of how much.
type Deepest = Option<(Time, u64, u64)>;

fn deeper(deepest: &mut Deepest, at: Time, beyond: u64, cap: u64) {
    if beyond > deepest.map_or(0, |(_, known, _)| known) {
        *deepest = Some((at, beyond, cap));
    }
}

impl Metered {
    fn bucket(&self, first: &Limit) -> Deepest {
        let unit = i128::from(first.period().0) * 10_000;
        let (mut limit, mut used, mut now) = (first, 0_i128, 0);
        let (mut cap_until, mut cap_then) = (0, 0);
        let (mut switches, mut clips) = (self.switches.iter().peekable(), self.clips.iter().peekable());
        let mut deepest = None;
        let drain = |used: &mut i128, now: &mut Time, to: Time, limit: &Limit| {
            let drained = i128::from(to.saturating_sub(*now)) * i128::from(limit.n()) * FASTEST;
            *used = (*used - drained).max(0);
            *now = (*now).max(to);
        };
        for consumed in &self.consumed {
            loop {
                let switch = switches.peek().map(|switch| switch.at).filter(|at| *at <= consumed.at);
                let clip = clips.peek().map(|(at, _)| *at).filter(|at| *at <= consumed.at);
                match (switch, clip) {
                    (Some(at), clip) if clip.is_none_or(|clip| at <= clip) => {
                        drain(&mut used, &mut now, at, limit);
                        let Some(switch) = switches.next() else { break };
                        // The counter went by the new numbers from when it was touched last, at the earliest.
                        let faster = i128::from(switch.limit.n()) - i128::from(limit.n());
                        let more = i128::from(at.saturating_sub(switch.touched)) * faster.max(0) * FASTEST;
                        used = (used - more).max(0);
                        limit = &switch.limit;
                        (cap_until, cap_then) = (at + GRACE, switch.out);
                    }
                    (_, Some(at)) => {
                        drain(&mut used, &mut now, at, limit);
                        let Some((_, clip)) = clips.next() else { break };
                        used = used.min(i128::from(*clip) * unit);
                    }
                    (_, None) => break,
                }
            }
            drain(&mut used, &mut now, consumed.at, limit);
            used += i128::from(consumed.units) * unit;
            let cap = if consumed.at < cap_until { limit.cap().max(cap_then) } else { limit.cap() };
            let beyond = used - i128::from(cap) * unit;
            if beyond > 0 {
                let units = u64::try_from((beyond + unit - 1) / unit).unwrap_or(u64::MAX);
                deeper(&mut deepest, consumed.at, units, cap);
            }
        }
        deepest
    }

    fn windows(&self, first: &Limit) -> Deepest {
        let period = first.period().0;
        let mut sums: BTreeMap<u64, (u64, Time)> = BTreeMap::new();
        for consumed in &self.consumed {
            let (sum, at) = sums.entry(consumed.line.0 / period).or_default();
            (*sum, *at) = (*sum + consumed.units, consumed.at);
        }
        let mut deepest = None;
        for (window, (sum, at)) in sums {
            let (begin, end) = (window * period, (window + 1) * period);
            let cap = self.cap_between(first, |switch| switch.line.0 < begin, |switch| switch.line.0 < end);
            deeper(&mut deepest, at, sum.saturating_sub(cap), cap);
        }
        deepest.filter(|(_, beyond, _)| *beyond > 0)
    }

    fn log(&self, first: &Limit) -> Deepest {
        let span = first.period().0 - first.period().0 / 1_000 * 3;
        let (mut sum, mut from) = (0, 0);
        let mut deepest = None;
        for consumed in &self.consumed {
            sum += consumed.units;
            while self.consumed[from].at + span <= consumed.at {
                sum -= self.consumed[from].units;
                from += 1;
            }
            let begin = consumed.at.saturating_sub(span + GRACE);
            let cap = self.cap_between(first, |switch| switch.at < begin, |switch| switch.at <= consumed.at);
            deeper(&mut deepest, consumed.at, u64::saturating_sub(sum, cap), cap);
        }
        deepest
    }

    /// The largest limit that held at the end of what is `before`, or took hold within.
    fn cap_between(
        &self,
        first: &Limit,
        before: impl Fn(&Switch) -> bool,
        within: impl Fn(&Switch) -> bool,
    ) -> u64 {
        let held =
            self.switches.iter().rev().find(|switch| before(switch)).map_or(first, |switch| &switch.limit);
        let more = self.switches.iter().filter(|switch| !before(switch) && within(switch));
        more.map(|switch| switch.limit.cap()).max().unwrap_or(0).max(held.cap())
    }
}
