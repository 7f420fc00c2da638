//! What the edge of a process did so far, in numbers.
//!
//! Every decision is counted, so the counters that all of them touch are spread over lanes, a thread using one of them.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use leasehold_lease::Totals;
use leasehold_limit::check::Source;
use leasehold_model::Nanos;

/// Lanes of a spread counter. More threads than this share some.
const LANES: usize = 16;

thread_local! {
    static LANE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Counts since the start. They only rise, but for [`Counts::keys`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Decisions by the counters' owners, asked for by one request or for several that waited.
    pub by_owner: u64,
    /// Decisions by leases held here.
    pub by_lease: u64,
    /// Refusals that were known from before.
    pub by_deny_cache: u64,
    /// Decisions by what is set aside for when nobody can be asked.
    pub by_fallback: u64,
    /// Demands that nobody decided.
    pub undecided: u64,
    /// Asks of owners, lease asks and exact ones: a message's part each.
    pub hops: u64,
    /// Requests that waited for an answer.
    pub waited: u64,
    /// How long they did, in all.
    pub waited_for: Nanos,
    /// Units put back because another limit of the request refused.
    pub put_back: u64,
    /// Keys held now.
    pub keys: u64,
    /// What the wallets say.
    pub wallet: Totals,
}

impl Counts {
    /// Decisions, whoever took them.
    #[must_use]
    pub const fn decisions(&self) -> u64 {
        self.by_owner
            .saturating_add(self.by_lease)
            .saturating_add(self.by_deny_cache)
            .saturating_add(self.by_fallback)
    }
}

/// See [`Counts`].
#[derive(Debug, Default)]
pub(crate) struct Meters {
    lanes: [Lane; LANES],
    undecided: AtomicU64,
    exact: AtomicU64,
    waited: AtomicU64,
    waited_for_ns: AtomicU64,
    put_back: AtomicU64,
}

/// On cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Lane {
    sources: [AtomicU64; 4],
}

impl Meters {
    /// A demand was decided.
    #[inline]
    pub(crate) fn decided(&self, source: Source) {
        let source = match source {
            Source::Owner => 0,
            Source::Lease => 1,
            Source::DenyCache => 2,
            Source::Fallback => 3,
        };
        self.lanes[lane()].sources[source].fetch_add(1, Ordering::Relaxed);
    }

    /// So many demands were decided by nobody.
    pub(crate) fn undecided(&self, demands: usize) {
        self.undecided.fetch_add(u64::try_from(demands).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// An owner was asked for one request.
    pub(crate) fn exact(&self) {
        self.exact.fetch_add(1, Ordering::Relaxed);
    }

    /// A request waited.
    pub(crate) fn waited(&self, time: Nanos) {
        self.waited.fetch_add(1, Ordering::Relaxed);
        self.waited_for_ns.fetch_add(time.0, Ordering::Relaxed);
    }

    /// Units were put back.
    pub(crate) fn put_back(&self, units: u64) {
        self.put_back.fetch_add(units, Ordering::Relaxed);
    }

    pub(crate) fn read(&self, wallet: Totals, keys: usize) -> Counts {
        let source = |index: usize| {
            self.lanes.iter().map(|lane| lane.sources[index].load(Ordering::Relaxed)).sum::<u64>()
        };
        Counts {
            by_owner: source(0),
            by_lease: source(1),
            by_deny_cache: source(2),
            by_fallback: source(3),
            undecided: self.undecided.load(Ordering::Relaxed),
            hops: self.exact.load(Ordering::Relaxed) + wallet.asks + wallet.resends,
            waited: self.waited.load(Ordering::Relaxed),
            waited_for: Nanos(self.waited_for_ns.load(Ordering::Relaxed)),
            put_back: self.put_back.load(Ordering::Relaxed),
            keys: u64::try_from(keys).unwrap_or(u64::MAX),
            wallet,
        }
    }
}

/// The lane of this thread.
#[inline]
fn lane() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    LANE.with(|lane| {
        lane.get().unwrap_or_else(|| {
            let next = NEXT.fetch_add(1, Ordering::Relaxed) % LANES;
            lane.set(Some(next));
            next
        })
    })
}
