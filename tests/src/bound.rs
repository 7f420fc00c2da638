//! Whether what was admitted keeps within (1 + x)(b + r·w) in every interval, as seen from outside.
//!
//! A check was charged at some moment between its call and its answer. Only what must have been charged inside an interval is
//! counted to it: checks called at its beginning or later and answered by its end. So an excess found here is one whatever
//! the true moments were, and a correct server is never accused. An interval is worth looking at only when it begins with a
//! call and ends with an answer; the ends are swept in order over a tree of the beginnings, in O(n log n).

use std::fmt;
use std::time::Duration;

const MILLION: i128 = 1_000_000;

/// One admitted check, on the tester's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// When it was first sent, in ns.
    pub invoked: u64,
    /// When its answer came, in ns.
    pub returned: u64,
    /// Units that it took.
    pub cost: u64,
}

/// How much may be admitted: `burst` at once and `units` more each `period`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// b, in units.
    pub burst: u64,
    /// Numerator of r.
    pub units: u64,
    /// Its denominator.
    pub period: Duration,
    /// By how many millionths the servers' clock may be faster than the tester's.
    pub fast_ppm: u64,
    /// x, in millionths: what a rule lets everything be exceeded by.
    pub over_ppm: u64,
}

/// Ticks of a unit, and of what comes with time. In ticks everything is whole numbers.
#[derive(Clone, Copy, Debug)]
struct Ticks {
    per_unit: i128,
    burst: i128,
    per_ns: i128,
}

impl Bound {
    /// A token bucket of `units` each `period` that holds as many.
    #[must_use]
    pub const fn bucket(units: u64, period: Duration) -> Self {
        Self { burst: units, units, period, fast_ppm: 0, over_ppm: 0 }
    }

    /// A bound that neither of two is below, at any length.
    #[must_use]
    pub fn loosest(self, other: Self) -> Self {
        let faster = |bound: Self, than: Self| {
            u128::from(bound.units) * than.period.as_nanos()
                > u128::from(than.units) * bound.period.as_nanos()
        };
        let rate = if faster(other, self) { other } else { self };
        Self {
            burst: self.burst.max(other.burst),
            fast_ppm: self.fast_ppm.max(other.fast_ppm),
            over_ppm: self.over_ppm.max(other.over_ppm),
            ..rate
        }
    }

    fn ticks(&self) -> Ticks {
        let period = i128::try_from(self.period.as_nanos()).expect("a test's period is short");
        let over = MILLION + i128::from(self.over_ppm);
        Ticks {
            per_unit: period * MILLION * MILLION,
            burst: i128::from(self.burst) * over * period * MILLION,
            per_ns: i128::from(self.units) * over * (MILLION + i128::from(self.fast_ppm)),
        }
    }
}

impl Ticks {
    /// Rounded up; nothing below nothing.
    fn units(&self, ticks: i128) -> u64 {
        let ticks = ticks.max(0);
        let units = ticks.div_euclid(self.per_unit) + i128::from(ticks.rem_euclid(self.per_unit) > 0);
        u64::try_from(units).unwrap_or(u64::MAX)
    }
}

/// An interval in which more was admitted than may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Excess {
    /// Its beginning on the tester's clock, in ns.
    pub from: u64,
    /// Its end, in ns.
    pub to: u64,
    /// Units that were charged in it for sure.
    pub admitted: u64,
    /// Units beyond the bound, rounded up.
    pub beyond: u64,
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = Duration::from_nanos(self.to - self.from);
        let Self { admitted, beyond, from, to } = self;
        write!(f, "{admitted} units admitted within {length:?} ({from}..{to} ns), {beyond} beyond the bound")
    }
}

/// The interval that exceeds the bound by most; `None` when none does.
///
/// # Panics
/// When an operation returned before it was invoked: then the recording is broken.
#[must_use]
pub fn worst_excess(operations: &[Operation], bound: Bound) -> Option<Excess> {
    worst(operations, bound.ticks(), u64::MAX)
}

/// The interval shorter than `length` in which most more than `units` were admitted; `None` when none had more.
///
/// # Panics
/// As [`worst_excess`].
#[must_use]
pub fn worst_span(operations: &[Operation], units: u64, length: Duration) -> Option<Excess> {
    let ticks = Ticks { per_unit: 1, burst: i128::from(units), per_ns: 0 };
    worst(operations, ticks, u64::try_from(length.as_nanos()).unwrap_or(u64::MAX))
}

/// For each answer, in order: its moment, and the units that were admitted beyond what came back in the fullest interval that
/// ends there. At most b of a server that keeps the bound.
///
/// # Panics
/// As [`worst_excess`].
#[must_use]
pub fn at_once(operations: &[Operation], bound: Bound) -> Vec<(u64, u64)> {
    let ticks = Ticks { burst: 0, ..bound.ticks() };
    let mut levels = Vec::with_capacity(operations.len());
    sweep(operations, ticks, u64::MAX, |end, _, beyond| levels.push((end, ticks.units(beyond))));
    levels
}

/// Of the intervals shorter than `length`, the one that is furthest above `ticks`.
fn worst(operations: &[Operation], ticks: Ticks, length: u64) -> Option<Excess> {
    let mut worst: Option<(i128, u64, u64)> = None;
    sweep(operations, ticks, length, |to, from, beyond| {
        if beyond > 0 && worst.is_none_or(|(most, ..)| beyond > most) {
            worst = Some((beyond, from, to));
        }
    });
    worst.map(|(beyond, from, to)| Excess {
        from,
        to,
        admitted: charged_within(operations, from, to),
        beyond: ticks.units(beyond),
    })
}

/// Tells for each answer, in order, of the intervals shorter than `length` that end there the one that is furthest above
/// `ticks`: its end, its beginning and by how much.
fn sweep(operations: &[Operation], ticks: Ticks, length: u64, mut tell: impl FnMut(u64, u64, i128)) {
    let mut by_end = operations.to_vec();
    by_end.sort_unstable_by_key(|operation| operation.returned);
    let mut starts: Vec<u64> = operations.iter().map(|operation| operation.invoked).collect();
    starts.sort_unstable();
    starts.dedup();

    let mut tree = Starts::new(starts.len());
    let (mut begun, mut over) = (0, 0);
    for operation in &by_end {
        let end = operation.returned;
        assert!(operation.invoked <= end, "answered before it was asked: {operation:?}");
        // A beginning after the end is no interval: it joins when the sweep has come to it.
        while let Some(start) = starts.get(begun).filter(|start| **start <= end) {
            tree.begin(begun, i128::from(*start) * ticks.per_ns);
            begun += 1;
        }
        while starts.get(over).is_some_and(|start| *start <= end && end - start >= length) {
            tree.end(over);
            over += 1;
        }
        let place = starts.binary_search(&operation.invoked).expect("every beginning is there");
        tree.charge(place, i128::from(operation.cost) * ticks.per_unit);
        if let Some((level, start)) = tree.highest() {
            tell(end, starts[start], level - ticks.burst - i128::from(end) * ticks.per_ns);
        }
    }
}

/// Units that were charged between two moments for sure.
#[must_use]
pub fn charged_within(operations: &[Operation], from: u64, to: u64) -> u64 {
    operations
        .iter()
        .filter(|operation| from <= operation.invoked && operation.returned <= to)
        .map(|operation| operation.cost)
        .sum()
}

/// The beginnings of intervals: for each, what it stands at is its own ticks and those of every charge at it or after it.
#[derive(Debug)]
struct Starts {
    /// A binary tree in one row: the children of `i` are `2i` and `2i + 1`, leaves are the last half.
    nodes: Vec<Node>,
    leaves: usize,
}

/// A stretch of beginnings.
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    /// Charges within.
    charged: i128,
    /// The highest of those that have begun, without charges after the stretch, and which it is.
    highest: Option<(i128, usize)>,
}

impl Starts {
    fn new(count: usize) -> Self {
        let leaves = count.next_power_of_two();
        Self { nodes: vec![Node::default(); 2 * leaves], leaves }
    }

    fn begin(&mut self, place: usize, ticks: i128) {
        let leaf = &mut self.nodes[self.leaves + place];
        leaf.highest = Some((ticks + leaf.charged, place));
        self.renew_above(place);
    }

    fn end(&mut self, place: usize) {
        self.nodes[self.leaves + place].highest = None;
        self.renew_above(place);
    }

    fn charge(&mut self, place: usize, ticks: i128) {
        let leaf = &mut self.nodes[self.leaves + place];
        leaf.charged += ticks;
        leaf.highest = leaf.highest.map(|(level, place)| (level + ticks, place));
        self.renew_above(place);
    }

    fn highest(&self) -> Option<(i128, usize)> {
        self.nodes[1].highest
    }

    fn renew_above(&mut self, place: usize) {
        let mut node = (self.leaves + place) / 2;
        while node > 0 {
            let (left, right) = (self.nodes[2 * node], self.nodes[2 * node + 1]);
            let before = left.highest.map(|(level, place)| (level + right.charged, place));
            self.nodes[node] =
                Node { charged: left.charged + right.charged, highest: before.max(right.highest) };
            node /= 2;
        }
    }
}

#[cfg(test)]
mod tests;
