//! What a node's part in a cluster is started with, checked by whoever reads the configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use leasehold_gossip::Key;
use leasehold_shard::Bounds;

/// Told once when the node can't go on, with the reason: it has to end the process.
#[derive(Clone)]
pub struct Fatal(pub Arc<dyn Fn(&str) + Send + Sync>);

/// A node's part in a cluster.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// The cluster's name: nodes of differently named clusters don't hear each other.
    pub name: String,
    /// What a person calls this node; unique in the cluster.
    pub node: String,
    /// Everything that this node keeps.
    pub data: PathBuf,
    /// Peer addresses of the founders, `host:port`; the same on every node.
    pub seeds: Vec<String>,
    /// Where peers are served.
    pub peers_listen: SocketAddr,
    /// Where other nodes reach that, `host:port`; `None`: the address that this machine reaches the first seed from.
    pub peers_advertise: Option<String>,
    /// Where gossip is served.
    pub gossip_listen: SocketAddr,
    /// Where other nodes reach that; `None`: the advertised peer host with the gossip port.
    pub gossip_advertise: Option<SocketAddr>,
    /// Where clients reach this node, as others are told.
    pub clients_advertise: String,
    /// Seals gossip; the same on every node.
    pub gossip_key: Key,
    /// Opens what is still sealed with the former or already with the next key.
    pub gossip_key_other: Option<Key>,
    /// What fails together; may be empty.
    pub zone: String,
    /// What is near each other; may be empty.
    pub region: String,
    /// Share of the work; 100 is usual.
    pub weight: u32,
    /// How long what is sent to nodes of another region is held back, by the region: in development and tests, where no way
    /// is long. Empty: nothing is.
    pub delays: BTreeMap<String, Duration>,
    /// How many shards the cluster is made with: a power of two.
    pub shards: u32,
    /// Replicas of each.
    pub replicas: u32,
    /// Rules that the cluster is made with, domain and text: validated, and used only while it has no others.
    pub rules: Vec<(Arc<str>, Arc<str>)>,
    /// A node that nobody hears for this long is replaced.
    pub replace_after: Duration,
    /// What each shard may hold.
    pub bounds: Bounds,
    /// Log entries of a group between two snapshots, about.
    pub snapshot_every: u64,
    /// Entries kept although a snapshot has them.
    pub keep_entries: u64,
}

impl fmt::Debug for Fatal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fatal(..)")
    }
}
