//! What a node counts: what every process does, and its part in its cluster.

mod cluster;
mod leases;
mod lent;

use std::ops::Deref;
use std::sync::Arc;

use leasehold_cluster::Cluster;
use leasehold_model::ShardId;
pub(crate) use leasehold_service::metrics::{RuleMeters, Totals};
use leasehold_shard::LeaseNumbers;
use prometheus_client::registry::Registry;

use crate::authority::NodeLeases;
use crate::lease_service::LeaseMeters;
use cluster::ClusterCollector;
use leases::LeasesCollector;
use lent::LeaseFigures;

/// Everything that is counted.
#[derive(Debug)]
pub(crate) struct Metrics {
    shared: leasehold_service::metrics::Metrics,
    leases: Arc<LeaseMeters>,
    lent: Arc<LeaseFigures>,
}

impl Metrics {
    /// Of a node that runs alone.
    pub(crate) fn new() -> Self {
        Self::registered(Registry::default(), "Counters held")
    }

    /// Of a node of a cluster.
    pub(crate) fn of(cluster: Cluster, leases: Option<Arc<NodeLeases>>) -> Self {
        let mut registry = Registry::default();
        if let Some(leases) = leases {
            registry.register_collector(Box::new(LeasesCollector::new(leases)));
        }
        registry.register_collector(Box::new(ClusterCollector(cluster)));
        Self::registered(registry, "Counters held by the replicas on this node, those of followers included")
    }

    fn registered(mut registry: Registry, keys_help: &str) -> Self {
        let leases = Arc::new(LeaseMeters::register(&mut registry));
        let lent = Arc::new(LeaseFigures::default());
        registry.register_collector(Box::new(Arc::clone(&lent)));
        Self { shared: leasehold_service::metrics::Metrics::new(registry, keys_help), leases, lent }
    }

    /// Notes what is out on leases for the page, a shard each that this node answers for.
    pub(crate) fn lent(&self, numbers: Vec<(ShardId, LeaseNumbers)>) {
        self.lent.set(numbers);
    }

    /// What the streams with edges count.
    pub(crate) fn leases(&self) -> Arc<LeaseMeters> {
        Arc::clone(&self.leases)
    }
}

impl Deref for Metrics {
    type Target = leasehold_service::metrics::Metrics;

    fn deref(&self) -> &Self::Target {
        &self.shared
    }
}
