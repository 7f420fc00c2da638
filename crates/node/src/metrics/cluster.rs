//! A node's part in its cluster on the metrics page, read when the page is made.

use std::fmt;

use leasehold_cluster::{Cluster, Counts, Gauges, GossipCounts, Phase, Reason};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// Reads the cluster.
#[derive(Debug)]
pub(super) struct ClusterCollector(pub(super) Cluster);

impl Collector for ClusterCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let now = self.0.gauges();
        for (name, help, value) in gauges(now) {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        let (gossip, traffic) = (self.0.gossip_counts(), self.0.traffic());
        let peers = [
            (
                "leasehold_cluster_leader_changes",
                "Times that a group with a replica on this node was led by another than before",
                now.leader_changes,
            ),
            ("leasehold_cluster_peer_messages", "Messages written to other nodes", traffic.frames),
            ("leasehold_cluster_peer_sent_bytes", "Bytes of them", traffic.bytes),
        ];
        for (name, help, value) in
            counters(self.0.counts()).into_iter().chain(of_gossip(&gossip)).chain(peers)
        {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
        }
        round_trips(&self.0, &mut encoder)?;
        dropped(&gossip, encoder)
    }
}

type Row = (&'static str, &'static str, u64);

fn gauges(gauges: Gauges) -> [Row; 6] {
    let Gauges { member, replicas, leads, leaderless, leads_control, log_full, .. } = gauges;
    [
        ("leasehold_cluster_member", "Whether this node knows its cluster's state", member.into()),
        ("leasehold_cluster_replicas", "Replicas of shards on this node", replicas),
        ("leasehold_cluster_shards_led", "Shards that this node leads and answers for", leads),
        (
            "leasehold_cluster_shards_leaderless",
            "Shards with a replica on this node of which it knows no leader",
            leaderless,
        ),
        ("leasehold_cluster_control_led", "Whether this node leads the control group", leads_control.into()),
        ("leasehold_cluster_log_full", "Whether the disk of this node's log is full", log_full.into()),
    ]
}

fn counters(counts: Counts) -> [Row; 12] {
    let Counts {
        entries,
        commands,
        unlogged,
        forwards,
        forwarded,
        far,
        retries,
        unknown,
        overloaded,
        spread,
        returns,
        stranded,
    } = counts;
    [
        ("leasehold_cluster_entries", "Log entries that shards led here committed for asks", entries),
        ("leasehold_cluster_entry_commands", "Commands in those entries", commands),
        ("leasehold_cluster_unlogged_commands", "Commands answered without a log entry", unlogged),
        ("leasehold_cluster_forwards", "Messages with asks sent to other nodes", forwards),
        ("leasehold_cluster_forwarded_commands", "Commands in those messages", forwarded),
        ("leasehold_cluster_far_calls", "Messages with asks or looks to leaders in other regions", far),
        ("leasehold_cluster_retries", "Attempts after the first", retries),
        ("leasehold_cluster_unknown", "Attempts whose outcome nobody knows", unknown),
        ("leasehold_cluster_overloaded", "Asks refused because too much waited", overloaded),
        ("leasehold_cluster_spread_requests", "Requests whose limits lie on several shards", spread),
        ("leasehold_cluster_returns", "Returns of what a refused request had taken elsewhere", returns),
        ("leasehold_cluster_stranded_returns", "Returns that were given up", stranded),
    ]
}

fn of_gossip(counts: &GossipCounts) -> [Row; 2] {
    [
        ("leasehold_cluster_gossip_heard", "Datagrams that passed every check", counts.heard),
        ("leasehold_cluster_gossip_sent", "Datagrams sent", counts.sent),
    ]
}

fn dropped(counts: &GossipCounts, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
    let help = "Datagrams, or values in them, that were dropped";
    let name = "leasehold_cluster_gossip_dropped";
    let mut encoder = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for reason in Reason::ALL {
        let labels = [("reason", reason.name())];
        ConstCounter::new(counts.dropped_for(reason)).encode(encoder.encode_family(&labels)?)?;
    }
    Ok(())
}

fn round_trips(cluster: &Cluster, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let phase = cluster.phase().borrow().clone();
    let Phase::Member(control) = phase else { return Ok(()) };
    let help = "How long a message to another node and back takes, smoothed";
    let unit = Unit::Seconds;
    let name = "leasehold_peer_round_trip";
    let mut encoder = encoder.encode_descriptor(name, help, Some(&unit), MetricType::Gauge)?;
    for (node, took) in cluster.round_trips() {
        let Some(record) = control.nodes().get(&node) else { continue };
        let labels = [("peer", &*record.name)];
        ConstGauge::new(took.as_secs_f64()).encode(encoder.encode_family(&labels)?)?;
    }
    Ok(())
}
