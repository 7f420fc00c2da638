//! What a counter remembers. Plain data: the algorithms are in `algorithm/`, compact storage is the shard's business.

use std::collections::VecDeque;

use leasehold_model::Stamp;

/// The memory of one counter. Which variant it is follows from the limit's algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Token and leaky bucket.
    Bucket(BucketState),
    /// Shaper.
    Queue(QueueState),
    /// Fixed window.
    Window(WindowState),
    /// Sliding log.
    Log(LogState),
    /// Sliding counter.
    Counter(CounterState),
}

/// A bucket by what is used, so that a changed limit keeps it used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketState {
    /// Units used and not refilled yet, at `at`, in (1/period ns)-ths of a unit: exact, since a refill of dt ns is dt·n of them.
    pub used: u128,
    /// When `used` was true.
    pub at: Stamp,
}

/// A shaper's queue by the time that its next free slot departs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueState {
    /// Whole nanoseconds until the next free slot, counted from `at`, times n (so that a slot of period/n is exactly `period`).
    pub ahead: u128,
    /// When `ahead` was true.
    pub at: Stamp,
}

/// Units counted in one window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowState {
    /// The window's first stamp.
    pub start: Stamp,
    /// Units taken in it.
    pub count: u64,
}

/// Every admitted cost of the last period, oldest first; costs at one stamp are one entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogState {
    entries: VecDeque<(Stamp, u64)>,
    /// Units of all entries together, so that a look needn't add them up.
    sum: u128,
}

impl LogState {
    /// (stamp, units), stamps strictly ascending.
    #[must_use]
    pub fn entries(&self) -> &VecDeque<(Stamp, u64)> {
        &self.entries
    }

    pub(crate) const fn sum(&self) -> u128 {
        self.sum
    }

    /// Adds units at a stamp that isn't before the youngest entry's.
    pub(crate) fn add(&mut self, at: Stamp, units: u64) {
        match self.entries.back_mut() {
            Some((youngest, held)) if *youngest == at => {
                let before = *held;
                *held = held.saturating_add(units);
                self.sum += u128::from(*held - before);
            }
            Some(_) | None if units > 0 => {
                self.entries.push_back((at, units));
                self.sum += u128::from(units);
            }
            Some(_) | None => {}
        }
    }

    /// Takes up to `units` out of an entry, and the entry away when none are left. Returns how many it took.
    pub(crate) fn take(&mut self, index: usize, units: u64) -> u64 {
        let Some((_, held)) = self.entries.get_mut(index) else { return 0 };
        let taken = units.min(*held);
        *held -= taken;
        self.sum -= u128::from(taken);
        if *held == 0 {
            self.entries.remove(index);
        }
        taken
    }

    pub(crate) fn drop_oldest(&mut self) {
        if let Some((_, units)) = self.entries.pop_front() {
            self.sum -= u128::from(units);
        }
    }
}

impl FromIterator<(Stamp, u64)> for LogState {
    /// The entries as they come; stamps must ascend strictly.
    fn from_iter<I: IntoIterator<Item = (Stamp, u64)>>(entries: I) -> Self {
        let entries: VecDeque<_> = entries.into_iter().collect();
        let sum = entries.iter().map(|&(_, units)| u128::from(units)).sum();
        Self { entries, sum }
    }
}

/// Two neighbouring windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterState {
    /// Index of the current window: stamp / period.
    pub window: u64,
    /// Units in the window before it.
    pub previous: u64,
    /// Units in it.
    pub current: u64,
}
