//! Units in exact fractions: a unit is `period` parts, and one nanosecond drains `n` of them.
//!
//! Invariant: nothing is ever rounded but by the two divisions that leave this file, each in the direction its name
//! says. Buckets and shapers share it; whatever counts whole units in windows has no use for it.

use leasehold_model::planted::{self, Bug};
use leasehold_model::{Nanos, Stamp};

use crate::Out;

/// `n` units a `period`, as a speed of parts. `n` and `period` are at least 1 (see [`crate::Limit::new`]).
#[derive(Clone, Copy)]
pub(super) struct Rate {
    pub(super) n: u64,
    pub(super) period: u64,
}

impl Rate {
    /// Whole units in parts.
    pub(super) fn parts(self, units: u64) -> u128 {
        u128::from(units) * u128::from(self.period)
    }

    /// What is left of `parts` after draining `over` some time.
    pub(super) fn drained(self, parts: u128, over: Nanos) -> u128 {
        parts.saturating_sub(self.drain(over))
    }

    /// How many parts drain in this time.
    pub(super) fn drain(self, over: Nanos) -> u128 {
        let whole = u128::from(over.0) * u128::from(self.n);
        if planted::is(Bug::RefillDropped) { whole - whole / 8 } else { whole }
    }

    /// The first whole nanosecond by which `parts` have drained.
    pub(super) fn time_to_drain(self, parts: u128) -> Nanos {
        Nanos(div_ceil(parts, self.n))
    }

    /// The first whole nanosecond by which at most `target` of `parts` are left, when they drain down to what is out and
    /// no further. What is out lapses lease by lease; parts beyond it and `capacity` are forgiven then.
    pub(super) fn time_to_reach(
        self,
        target: u128,
        (mut parts, capacity): (u128, u128),
        at: Stamp,
        out: Out<'_>,
    ) -> Nanos {
        let (mut now, mut units) = (at, out.units());
        for due in out.due() {
            if self.parts(units) <= target {
                break;
            }
            parts = self.drained(parts, due.at.since(now)).max(self.parts(units));
            now = now.max(due.at);
            units = units.saturating_sub(due.units);
            parts = parts.min(capacity.max(self.parts(units)));
        }
        let waited = now.since(at);
        Nanos(waited.0.saturating_add(self.time_to_drain(parts.saturating_sub(target)).0))
    }

    /// Whole units in `parts`.
    pub(super) fn units_floor(self, parts: u128) -> u64 {
        div_floor(parts, self.period)
    }

    /// Units that `parts` belong to, a begun one counted whole.
    pub(super) fn units_ceil(self, parts: u128) -> u64 {
        div_ceil(parts, self.period)
    }
}

/// `a / b`, saturating. Most amounts fit 64 bits, where a division costs a fraction of the 128-bit one.
pub(super) fn div_floor(a: u128, b: u64) -> u64 {
    match u64::try_from(a) {
        Ok(small) => small / b,
        Err(_) => saturate(a / u128::from(b)),
    }
}

/// `a / b` rounded up, saturating.
pub(super) fn div_ceil(a: u128, b: u64) -> u64 {
    match u64::try_from(a) {
        Ok(small) => small.div_ceil(b),
        Err(_) => saturate(a.div_ceil(u128::from(b))),
    }
}

/// `parts · to / from` rounded up: the same amount when the denominator changes. Exact without a wider type, because
/// the whole quotient and the remainder are scaled apart.
pub(super) fn rescale_ceil(parts: u128, from: u64, to: u64) -> u128 {
    let (from, to) = (u128::from(from), u128::from(to));
    let (whole, rest) = (parts / from, parts % from);
    whole.saturating_mul(to).saturating_add((rest * to).div_ceil(from))
}

fn saturate(wide: u128) -> u64 {
    u64::try_from(wide).unwrap_or(u64::MAX)
}
