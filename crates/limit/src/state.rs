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
    /// (stamp, units), stamps strictly ascending.
    pub entries: VecDeque<(Stamp, u64)>,
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
