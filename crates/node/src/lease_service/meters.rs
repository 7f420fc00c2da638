//! What the streams with edges count.

use std::sync::atomic::AtomicI64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Counts over all streams, for the metrics page.
#[derive(Debug)]
pub(crate) struct LeaseMeters {
    /// Streams with edges now.
    pub(crate) streams: Gauge<i64, AtomicI64>,
    /// Streams refused because there are as many as may be.
    pub(crate) refused: Counter,
    /// Streams ended because of what an edge sent.
    pub(crate) malformed: Counter,
    /// Asks for tokens.
    pub(crate) asks: Counter,
    /// Asks that only owners can answer.
    pub(crate) exact: Counter,
    /// Leases granted.
    pub(crate) grants: Counter,
    /// Units lent by them.
    pub(crate) granted_units: Counter,
    /// Units consumed for requests that waited at edges.
    pub(crate) sync_units: Counter,
    /// Asks that nobody could answer, or that came when too much was going on.
    pub(crate) unanswered: Counter,
}

impl LeaseMeters {
    /// Puts them on the page.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let streams = Gauge::default();
        registry.register("leasehold_edge_streams", "Streams with edges", streams.clone());
        let mut counter = |name, help| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        Self {
            streams,
            refused: counter("leasehold_edge_streams_refused", "Streams refused for want of a place"),
            malformed: counter(
                "leasehold_edge_streams_malformed",
                "Streams ended because the edge sent what can't be",
            ),
            asks: counter("leasehold_edge_asks", "Edges' asks for tokens"),
            exact: counter("leasehold_edge_exact", "Edges' asks that only owners can answer"),
            grants: counter("leasehold_edge_grants", "Leases granted to edges"),
            granted_units: counter("leasehold_edge_granted_units", "Units lent to edges"),
            sync_units: counter(
                "leasehold_edge_sync_units",
                "Units consumed for requests that waited at edges",
            ),
            unanswered: counter("leasehold_edge_unanswered", "Edges' asks that could not be answered"),
        }
    }
}
