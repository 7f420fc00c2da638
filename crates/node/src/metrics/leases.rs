//! What a node holds of counters that other nodes lead, and what it lends of it, on the metrics page.

use std::fmt;
use std::sync::Arc;

use leasehold_client::Counts;
use leasehold_service::metrics::Recent;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::authority::NodeLeases;
use crate::clock;

/// Reads the wallet.
#[derive(Debug)]
pub(super) struct LeasesCollector {
    leases: Arc<NodeLeases>,
    hops: Recent,
}

impl LeasesCollector {
    pub(super) fn new(leases: Arc<NodeLeases>) -> Self {
        Self { leases, hops: Recent::default() }
    }

    /// A unit that was lent to an edge stands for a decision there.
    fn hops(&self, counts: &Counts) -> f64 {
        let decisions = counts.decisions().saturating_add(counts.wallet.lent);
        self.hops.per_thousand(clock::boot(), self.leases.upstream().hops(), decisions)
    }
}

impl Collector for LeasesCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counts = self.leases.counts();
        let (sub_leases, children) = self.leases.sub_leases();
        let count = |many: usize| u64::try_from(many).unwrap_or(u64::MAX);
        let gauges = [
            ("leasehold_wallet_keys", "Counters of other nodes that this node holds tokens of", counts.keys),
            ("leasehold_sub_leases", "Leases that edges hold of this node's now", count(sub_leases)),
            ("leasehold_children", "Edges that hold some", count(children)),
        ];
        for (name, help, value) in gauges {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        for (name, help, value) in counters(counts) {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
        }
        let help = "Asks of other nodes for each 1000 decisions here or by what was lent to edges, of one unit each; in the \
                    last minute or since it was last read before that";
        let hops = ConstGauge::new(self.hops(&counts));
        let name = "leasehold_hops_per_1000_decisions";
        hops.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
    }
}

fn counters(counts: Counts) -> [(&'static str, &'static str, u64); 11] {
    let Counts { waited, hops, undecided, put_back, wallet, .. } = counts;
    [
        ("leasehold_wallet_hops", "Asks of this node to counters' leaders, itself included", hops),
        ("leasehold_wallet_waited_requests", "Requests that waited for such an answer", waited),
        ("leasehold_wallet_undecided", "Demands that no leader answered in time", undecided),
        ("leasehold_wallet_leases", "Leases that this node was granted", wallet.leases),
        ("leasehold_wallet_granted_units", "Units lent to this node", wallet.granted),
        ("leasehold_wallet_returned_units", "Units that this node handed back", wallet.returned),
        (
            "leasehold_wallet_put_back_units",
            "Units put back because another limit of the request refused",
            put_back,
        ),
        ("leasehold_wallet_resent_asks", "Asks sent again for want of an answer", wallet.resends),
        ("leasehold_sub_leases_granted", "Leases granted to edges out of this node's", wallet.sub_leases),
        ("leasehold_sub_leased_units", "Units lent to edges by them", wallet.lent),
        ("leasehold_sub_lease_stranded_units", "Units that edges said nothing of in time", wallet.stranded),
    ]
}
