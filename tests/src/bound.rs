//! Whether what was admitted keeps within b + r·w in every interval, as seen from outside.
//!
//! A check was charged at some moment between its call and its answer. Only what must have been charged inside an interval is
//! counted to it: checks called at its beginning or later and answered by its end. So an excess found here is one whatever
//! the true moments were, and a correct server is never accused. An interval is worth looking at only when it begins with a
//! call and ends with an answer; the ends are swept in order over a tree of the beginnings, in O(n log n).

use std::fmt;
use std::time::Duration;

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
}

impl Bound {
    /// A token bucket of `units` each `period` that holds as many.
    #[must_use]
    pub const fn bucket(units: u64, period: Duration) -> Self {
        Self { burst: units, units, period, fast_ppm: 0 }
    }

    /// Ticks that make one unit. In ticks everything below is whole numbers.
    fn ticks_per_unit(&self) -> i128 {
        i128::try_from(self.period.as_nanos()).expect("a test's period is short").saturating_mul(1_000_000)
    }

    /// Ticks that come with every nanosecond.
    fn ticks_per_ns(&self) -> i128 {
        i128::from(self.units) * (1_000_000 + i128::from(self.fast_ppm))
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
    let mut by_end = operations.to_vec();
    by_end.sort_unstable_by_key(|operation| operation.returned);
    let mut starts: Vec<u64> = operations.iter().map(|operation| operation.invoked).collect();
    starts.sort_unstable();
    starts.dedup();

    let (per_unit, per_ns) = (bound.ticks_per_unit(), bound.ticks_per_ns());
    let burst = i128::from(bound.burst) * per_unit;
    let mut tree = Starts::new(starts.len());
    let mut begun = 0;
    let mut worst: Option<(i128, u64, u64)> = None;
    for operation in &by_end {
        let end = operation.returned;
        assert!(operation.invoked <= end, "answered before it was asked: {operation:?}");
        // A beginning after the end is no interval: it joins when the sweep has come to it.
        while let Some(start) = starts.get(begun).filter(|start| **start <= end) {
            tree.begin(begun, i128::from(*start) * per_ns);
            begun += 1;
        }
        let place = starts.binary_search(&operation.invoked).expect("every beginning is there");
        tree.charge(place, i128::from(operation.cost) * per_unit);
        let Some((level, start)) = tree.highest() else { continue };
        let beyond = level - burst - i128::from(end) * per_ns;
        if beyond > 0 && worst.is_none_or(|(most, ..)| beyond > most) {
            worst = Some((beyond, starts[start], end));
        }
    }
    worst.map(|(beyond, from, to)| Excess {
        from,
        to,
        admitted: charged_within(operations, from, to),
        beyond: u64::try_from(beyond.div_euclid(per_unit) + i128::from(beyond.rem_euclid(per_unit) > 0))
            .unwrap_or(u64::MAX),
    })
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
