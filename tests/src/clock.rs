//! The tests' clock: real time, read in this one place.

use std::time::{Duration, Instant, SystemTime};

/// What the machine's calendar says, in ms since 1970: to be held against what a node's says.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "only the calendar tells whether a node's was moved")]
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Counts nanoseconds from its making, for what several tasks record together.
#[derive(Clone, Copy, Debug)]
pub struct Timeline(Instant);

impl Timeline {
    /// Begins now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "a load on real processes is timed in real time")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Time since its beginning.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// The same in ns.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// A moment to give up at.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    start: Instant,
    within: Duration,
}

impl Deadline {
    /// From now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "real processes are waited for in real time")]
    pub fn after(within: Duration) -> Self {
        Self { start: Instant::now(), within }
    }

    /// Whether it is over.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.start.elapsed() >= self.within
    }

    /// Time since it was set.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// What is left of it.
    #[must_use]
    pub fn left(&self) -> Duration {
        self.within.saturating_sub(self.start.elapsed())
    }

    /// Asks again and again until there is an answer or the deadline is over.
    pub fn poll<T>(&self, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
        loop {
            if let Some(answer) = ask() {
                return Some(answer);
            }
            if self.passed() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
