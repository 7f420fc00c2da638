//! How many datagrams one source may have opened: a token bucket for each address.
//!
//! Opening costs a few microseconds, so the budget is far above what any member sends; it keeps a flood from taking
//! the processor. A source address can be forged: who floods in a member's name uses up that member's budget, and
//! gossip about it gets late. That is why liveness here is a hint.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;

/// Datagrams a second that one source may have opened. A member of 20 sends some fifty.
pub(crate) const RATE_PER_SECOND: u64 = 2_000;

/// Datagrams that one source may have opened at once.
pub(crate) const BURST: u64 = 2_000;

/// Sources that have a bucket of their own. Beyond it the ones at rest are forgotten; when none is, all further
/// sources share one bucket.
pub(crate) const SOURCES_MAX: usize = 1_024;

const COST_NANOS: u64 = 1_000_000_000 / RATE_PER_SECOND;
const CREDIT_MAX_NANOS: u64 = BURST * COST_NANOS;

/// How often at most the table is searched for sources at rest, so that a full table costs nothing more.
const SWEEP_EVERY_NANOS: u64 = 100_000_000;

/// Buckets by source. Time is nanoseconds since any fixed point.
#[derive(Debug)]
pub(crate) struct Budget {
    sources: BTreeMap<IpAddr, Bucket>,
    shared: Bucket,
    swept_at: Option<u64>,
}

#[derive(Debug)]
struct Bucket {
    credit_nanos: u64,
    at: u64,
}

impl Budget {
    pub(crate) fn new() -> Self {
        Self { sources: BTreeMap::new(), shared: Bucket::full(0), swept_at: None }
    }

    /// Takes one datagram from the source's budget; false when there is none left.
    pub(crate) fn take(&mut self, source: IpAddr, now: u64) -> bool {
        let source = bucketed(source);
        if let Some(bucket) = self.sources.get_mut(&source) {
            return bucket.take(now);
        }
        if self.sources.len() >= SOURCES_MAX {
            self.sweep(now);
        }
        if self.sources.len() >= SOURCES_MAX {
            return self.shared.take(now);
        }
        self.sources.entry(source).or_insert_with(|| Bucket::full(now)).take(now)
    }

    fn sweep(&mut self, now: u64) {
        if self.swept_at.is_some_and(|at| now < at.saturating_add(SWEEP_EVERY_NANOS)) {
            return;
        }
        self.swept_at = Some(now);
        self.sources.retain(|_, bucket| bucket.credit_at(now) < CREDIT_MAX_NANOS);
    }
}

impl Bucket {
    const fn full(at: u64) -> Self {
        Self { credit_nanos: CREDIT_MAX_NANOS, at }
    }

    fn credit_at(&self, now: u64) -> u64 {
        self.credit_nanos.saturating_add(now.saturating_sub(self.at)).min(CREDIT_MAX_NANOS)
    }

    fn take(&mut self, now: u64) -> bool {
        self.credit_nanos = self.credit_at(now);
        self.at = self.at.max(now);
        let left = self.credit_nanos.checked_sub(COST_NANOS);
        self.credit_nanos = left.unwrap_or(self.credit_nanos);
        left.is_some()
    }
}

/// Whose budget it is: an IPv4 address, or the 64-bit network of an IPv6 one, whose owner has all addresses in it.
fn bucketed(source: IpAddr) -> IpAddr {
    match source.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() & !u128::from(u64::MAX)).into()),
    }
}
