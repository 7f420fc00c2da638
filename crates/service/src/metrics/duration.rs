//! How long decisions take: a histogram of atomics, since the library's takes a lock for each observation.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use leasehold_model::Nanos;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// The first bucket ends at 2^8 ns: a decision costs about this much.
const FIRST_BITS: u32 = 8;

/// The last but one ends at 2^30 ns, a second; the last has no end.
const BUCKETS: usize = 24;

/// Buckets of doubling width.
#[derive(Debug, Default)]
pub(super) struct DurationHistogram {
    counts: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
}

impl DurationHistogram {
    pub(super) fn observe(&self, took: Nanos) {
        self.counts[bucket(took)].fetch_add(1, Relaxed);
        self.sum_ns.fetch_add(took.0, Relaxed);
    }
}

/// The first bucket whose end is not below `took`.
fn bucket(took: Nanos) -> usize {
    let bits = u64::BITS - took.0.saturating_sub(1).leading_zeros();
    let index = usize::try_from(bits.saturating_sub(FIRST_BITS)).unwrap_or(BUCKETS);
    index.min(BUCKETS - 1)
}

/// The end of a bucket in seconds, for the page.
fn end_seconds(index: usize) -> f64 {
    if index == BUCKETS - 1 { f64::INFINITY } else { (1_u64 << index << FIRST_BITS) as f64 / 1e9 }
}

impl Collector for DurationHistogram {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counts: Vec<_> = self.counts.iter().map(|count| count.load(Relaxed)).collect();
        let buckets: Vec<_> =
            counts.iter().enumerate().map(|(index, count)| (end_seconds(index), *count)).collect();
        let sum_seconds = self.sum_ns.load(Relaxed) as f64 / 1e9;
        encoder
            .encode_descriptor(
                "leasehold_decision_duration",
                "From a checked request to its answer",
                Some(&Unit::Seconds),
                MetricType::Histogram,
            )?
            .encode_histogram::<NoLabelSet>(sum_seconds, counts.iter().sum(), &buckets, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_falls_into_the_first_bucket_that_ends_at_or_after_it() {
        for (nanos, index) in [(0, 0), (1, 0), (256, 0), (257, 1), (512, 1), (513, 2), (1 << 30, 22)] {
            assert_eq!(bucket(Nanos(nanos)), index, "{nanos} ns");
        }
        assert_eq!(bucket(Nanos((1 << 30) + 1)), 23);
        assert_eq!(bucket(Nanos::MAX), 23);
    }
}
