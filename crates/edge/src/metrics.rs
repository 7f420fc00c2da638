//! What leasing does here, on the metrics page, read when the page is made.

use std::fmt;
use std::sync::Arc;

use leasehold_client::{Clock as _, LeaseAuthority, NodeStream, SystemClock, Upstream as _};
use leasehold_service::metrics::{Metrics, Recent};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

/// Everything that is counted.
pub(crate) fn metrics(authority: &Arc<LeaseAuthority<NodeStream>>) -> Metrics {
    let mut registry = Registry::default();
    let collector = EdgeCollector { authority: Arc::clone(authority), hops: Recent::default() };
    registry.register_collector(Box::new(collector));
    Metrics::new(registry, "Counters of which this edge holds units, or remembers a refusal")
}

#[derive(Debug)]
struct EdgeCollector {
    authority: Arc<LeaseAuthority<NodeStream>>,
    hops: Recent,
}

impl Collector for EdgeCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (stream, counts) = (self.authority.upstream(), self.authority.counts());
        let (traffic, wallet) = (stream.counts(), counts.wallet);
        let counters = [
            ("leasehold_wallet_hops", "Asks of counters' owners, each a part of a message", counts.hops),
            ("leasehold_wallet_waited_requests", "Requests that waited for an owner", counts.waited),
            ("leasehold_wallet_undecided", "Demands that nobody could be asked about", counts.undecided),
            ("leasehold_wallet_leases", "Leases received", wallet.leases),
            ("leasehold_wallet_granted_units", "Units lent to this edge", wallet.granted),
            ("leasehold_wallet_returned_units", "Units handed back", wallet.returned),
            (
                "leasehold_wallet_put_back_units",
                "Units put back because another limit of the request refused",
                counts.put_back,
            ),
            ("leasehold_upstream_connections", "Connections that a node welcomed", traffic.connections),
            (
                "leasehold_upstream_connection_failures",
                "Attempts to connect that came to nothing",
                traffic.failures,
            ),
            ("leasehold_upstream_messages", "Messages with asks", traffic.messages),
            (
                "leasehold_upstream_expired_asks",
                "Asks whose deadline passed without an answer",
                traffic.expired,
            ),
            (
                "leasehold_upstream_rules_refused",
                "Rule sets of nodes that were not understood",
                traffic.rules_refused,
            ),
        ];
        for (name, help, value) in counters {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
        }
        let connected = u64::from(stream.peer().is_some());
        let waiting = u64::try_from(stream.waiting()).unwrap_or(u64::MAX);
        let gauges = [
            ("leasehold_upstream_connected", "Whether a node is at the other end now", connected),
            ("leasehold_upstream_waiting_asks", "Asks without an answer now", waiting),
            (
                "leasehold_upstream_round_trip_nanoseconds",
                "How long an answer takes, smoothed",
                stream.round_trip().0,
            ),
        ];
        for (name, help, value) in gauges {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        let help = "Asks of a node for each 1000 decisions here, in the last minute or since it was last read before that";
        let hops =
            ConstGauge::new(self.hops.per_thousand(SystemClock.boot(), counts.hops, counts.decisions()));
        let name = "leasehold_hops_per_1000_decisions";
        hops.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
    }
}
