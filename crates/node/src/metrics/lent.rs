//! What is out on leases of the shards that a node answers for, on the metrics page.
//!
//! What is now is a gauge of the node. What ever was is counted by shard, by whoever answers for it: a shard's counters move
//! with its leader, and taken by shard they only rise. Sums over nodes count each shard once.

use std::fmt;

use leasehold_model::ShardId;
use leasehold_service::metrics::Recent;
use leasehold_shard::LeaseNumbers;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::clock;

/// As they were read for the page.
#[derive(Debug, Default)]
pub(super) struct LeaseFigures {
    shards: Mutex<Vec<(ShardId, LeaseNumbers)>>,
    lapsed: Recent,
}

impl LeaseFigures {
    pub(super) fn set(&self, numbers: Vec<(ShardId, LeaseNumbers)>) {
        *self.shards.lock() = numbers;
    }

    /// Units that lapsed, for each thousand lent: of callers that were refused meanwhile, the exact limit would have let so
    /// many pass at most. Where nobody is refused it costs nobody anything. The refill that is held back while spent units
    /// aren't told of isn't in it: it is short, and where it matters edges tell sooner.
    fn undershoot(&self, sum: &LeaseNumbers) -> f64 {
        self.lapsed.per_thousand(clock::boot(), sum.lapsed, sum.granted)
    }
}

/// Reads one number of a shard.
type Read = fn(&LeaseNumbers) -> u64;

/// A name, its help, and what is counted under it.
type Row = (&'static str, &'static str, Read);

const GAUGES: [Row; 3] = [
    ("leasehold_leases", "Leases of counters that this node answers for", |shard| shard.leases),
    ("leasehold_lease_out_units", "Units out on them", |shard| shard.out),
    (
        "leasehold_lease_entries",
        "Leases, and edges whose demand on a counter is known: bounded in each shard",
        |shard| shard.entries,
    ),
];

const COUNTERS: [Row; 3] = [
    ("leasehold_lease_grants", "Leases granted", |shard| shard.grants),
    ("leasehold_lease_gates", "Times an edge was told to refuse by itself", |shard| shard.gates),
    (
        "leasehold_lease_violations",
        "Times that lent units were not accounted for: anything but 0 is a bug",
        |shard| shard.violations,
    ),
];

/// What became of units, by the value of the label `state`.
const STATES: [(&str, Read); 4] = [
    ("granted", |shard| shard.granted),
    ("spent", |shard| shard.spent),
    ("returned", |shard| shard.returned),
    ("lapsed", |shard| shard.lapsed),
];

impl Collector for LeaseFigures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let shards = self.shards.lock();
        let sum = shards.iter().fold(LeaseNumbers::default(), |sum, (_, numbers)| sum.plus(*numbers));
        for (name, help, read) in GAUGES {
            let gauge = ConstGauge::new(read(&sum));
            gauge.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        let help = "Estimate of what leasing loses: of each 1000 units lent by shards led here, those not heard of until \
                    their lease ended; in the last minute or since it was last read before that";
        let undershoot = ConstGauge::new(self.undershoot(&sum));
        let name = "leasehold_undershoot_per_1000_units";
        undershoot.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        for (name, help, read) in COUNTERS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (shard, numbers) in &*shards {
                ConstCounter::new(read(numbers)).encode(family.encode_family(&[("shard", shard.0)])?)?;
            }
        }
        let help =
            "Units lent, and of those: spent, returned, or not heard of until their lease ended (lapsed)";
        let mut family =
            encoder.encode_descriptor("leasehold_lease_units", help, None, MetricType::Counter)?;
        for (shard, numbers) in &*shards {
            for (state, read) in STATES {
                let labels = [("shard", shard.0.to_string()), ("state", state.to_owned())];
                ConstCounter::new(read(numbers)).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use prometheus_client::encoding::text;
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn what_is_out_now_is_summed_and_what_ever_was_is_told_by_shard() {
        let figures = Arc::new(LeaseFigures::default());
        let numbers = |out, grants| LeaseNumbers {
            leases: 1,
            entries: 2,
            out,
            grants,
            granted: 10 * grants,
            lapsed: 3,
            ..LeaseNumbers::default()
        };
        figures.set(vec![(ShardId(0), numbers(5, 1)), (ShardId(7), numbers(6, 2))]);
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Arc::clone(&figures)));
        let mut page = String::new();
        text::encode(&mut page, &registry).expect("it is written");
        for line in [
            "leasehold_leases 2",
            "leasehold_lease_out_units 11",
            "leasehold_lease_entries 4",
            "leasehold_undershoot_per_1000_units 200.0",
            r#"leasehold_lease_grants_total{shard="7"} 2"#,
            r#"leasehold_lease_violations_total{shard="0"} 0"#,
            r#"leasehold_lease_units_total{shard="7",state="granted"} 20"#,
            r#"leasehold_lease_units_total{shard="0",state="lapsed"} 3"#,
        ] {
            assert!(page.lines().any(|found| found == line), "{line} is not on\n{page}");
        }
    }
}
