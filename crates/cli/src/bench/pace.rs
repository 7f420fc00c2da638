//! When each request is due.
//!
//! Open loop, a thread of its own wakes every fraction of a millisecond and releases what has fallen due: the network
//! runtime's timers are too coarse. A stream that is late takes the next due request at once; nothing is skipped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::clock::now;

/// How long the releasing thread sleeps: the precision of a due moment. Shorter costs more of a core.
const RELEASE_EVERY: Duration = Duration::from_micros(100);

/// The moments of a run, the same for all workers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    pub(super) begin: Instant,
    /// What was due before is not counted.
    pub(super) measure_from: Instant,
    /// Nothing is sent that is due from here on.
    pub(super) end: Instant,
}

/// A request to be sent now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
    pub(super) due: Instant,
    pub(super) measured: bool,
}

/// Hands out tickets to one worker's streams.
pub(super) struct Pace {
    schedule: Schedule,
    mode: Mode,
    /// Measured requests left to send in all; `None` while time is the bound.
    budget: Option<Arc<AtomicU64>>,
    stop: Arc<AtomicBool>,
}

enum Mode {
    Closed,
    Open {
        /// Requests a second of this worker.
        rate: f64,
        due: Semaphore,
        taken: AtomicU64,
    },
}

impl Pace {
    /// A pace of `rate` requests a second, or, without one, as fast as answers come.
    pub(super) fn new(schedule: Schedule, rate: Option<f64>, budget: Option<Arc<AtomicU64>>) -> Arc<Self> {
        let mode = rate.map_or(Mode::Closed, |rate| Mode::Open {
            rate,
            due: Semaphore::new(0),
            taken: AtomicU64::new(0),
        });
        Arc::new(Self { schedule, mode, budget, stop: Arc::default() })
    }

    /// When the first request may be sent.
    pub(super) fn begin(&self) -> Instant {
        self.schedule.begin
    }

    /// Waits until a request is due. `None`: the run is over.
    pub(super) async fn next(&self) -> Option<Ticket> {
        let due = match &self.mode {
            Mode::Closed => now(),
            Mode::Open { rate, due, taken } => {
                due.acquire().await.ok()?.forget();
                let index = taken.fetch_add(1, Ordering::Relaxed);
                self.schedule.begin + Duration::from_secs_f64(index as f64 / rate)
            }
        };
        let measured = due >= self.schedule.measure_from;
        let over =
            due >= self.schedule.end || self.stop.load(Ordering::Relaxed) || (measured && !self.spend());
        // An open loop that fell behind stops at the end too: what was due by then and not sent is reported.
        (!over && now() < self.schedule.end).then_some(Ticket { due, measured })
    }

    fn spend(&self) -> bool {
        let Some(budget) = &self.budget else { return true };
        budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    /// Releases requests as they fall due, until the end. Runs on a thread of its own; returns at once for a closed loop.
    pub(super) fn release(&self) {
        let Mode::Open { rate, due, .. } = &self.mode else { return };
        let mut released = 0_u64;
        loop {
            let at = now().min(self.schedule.end);
            let elapsed = at.saturating_duration_since(self.schedule.begin);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "at most 50 M/s for hours"
            )]
            let total = (elapsed.as_secs_f64() * rate) as u64;
            let fresh = usize::try_from(total.saturating_sub(released)).unwrap_or(usize::MAX);
            due.add_permits(fresh.min(Semaphore::MAX_PERMITS / 2));
            released = released.max(total);
            if at >= self.schedule.end || self.stop.load(Ordering::Relaxed) {
                break;
            }
            std::thread::sleep(RELEASE_EVERY);
        }
    }

    /// Ends the run for this worker's streams; returns how many requests were due and not sent.
    pub(super) fn close(&self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        match &self.mode {
            Mode::Closed => 0,
            Mode::Open { due, .. } => {
                due.close();
                u64::try_from(due.available_permits()).unwrap_or(u64::MAX)
            }
        }
    }
}
