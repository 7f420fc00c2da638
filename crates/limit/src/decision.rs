//! What is asked of one counter and what it answers. Over the limit is a value, never an error.

use leasehold_model::Nanos;

/// A request for tokens of one counter: anything from `min` to `max` units, the more the better.
///
/// An exact check asks `min == max == cost`. `max == 0` is a peek: it is decided as one unit would be and takes nothing.
/// Any numbers are an ask: a `min` of 0 counts as 1, since a grant of nothing is a refusal, and a `max` below `min` as `min`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ask {
    /// Fewest units worth having.
    pub min: u64,
    /// Most units wanted.
    pub max: u64,
}

impl Ask {
    /// Exactly `cost` units or none; 0 peeks.
    #[must_use]
    pub const fn exactly(cost: u64) -> Self {
        Self { min: cost, max: cost }
    }

    /// A look that takes nothing.
    pub const PEEK: Self = Self::exactly(0);

    /// Whether this only looks.
    #[must_use]
    pub const fn is_peek(self) -> bool {
        self.max == 0
    }
}

/// When an ask that was refused would be admitted, if nobody else takes anything meanwhile. Ordered by length; never is
/// longer than any wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RetryAfter {
    /// After exactly this long; one nanosecond earlier it is still refused.
    In(Nanos),
    /// At no time: it asks for more than the limit can ever hold.
    Never,
}

/// One counter's answer to one ask.
///
/// Lengths are exact; one that doesn't fit 64 bits (a window longer than the time line) saturates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether at least `min` units could be taken (for a peek: whether one unit could).
    pub allowed: bool,
    /// Units taken: `min..=max` when allowed, 0 when refused and for a peek.
    pub granted: u64,
    /// Whole units left after this ask: the largest cost that would be admitted now.
    pub remaining: u64,
    /// `None` exactly when allowed.
    pub retry_after: Option<RetryAfter>,
    /// Time until the counter equals a fresh one.
    pub reset_after: Nanos,
    /// Time until one unit is admitted: zero while `remaining > 0`. `Nanos::MAX` when the limit admits nothing ever.
    pub next_unit_after: Nanos,
    /// Shaper only: how long the caller must wait before going ahead. `None` when refused and for other algorithms.
    pub wait: Option<Nanos>,
}
