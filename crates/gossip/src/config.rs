//! What gossip is started with, checked before a port is opened.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use leasehold_model::NodeId;

use crate::seal::{Boot, KeyRing};
use crate::state::{FieldError, Profile, is_address, is_name};

/// Seeds that may be named.
const SEEDS_MAX: usize = 64;

/// How gossip is set up.
#[derive(Clone, Debug)]
pub struct GossipConfig {
    /// This node.
    pub id: NodeId,
    /// This start of it.
    pub boot: Boot,
    /// Where to listen; port 0 takes any.
    pub listen: SocketAddr,
    /// Where others reach this node, if that isn't where it listens. Required when it listens on all addresses.
    pub advertise: Option<SocketAddr>,
    /// Where to ask first: `host:port`, at most 64, looked up again all the time.
    pub seeds: Vec<String>,
    /// The cluster's name, 1 to 64 bytes, and its key or keys; see [`KeyRing`] for how they are rotated.
    pub keys: KeyRing,
    /// What to tell of this node.
    pub profile: Profile,
    /// How often each node talks to a few others. [`GossipConfig::INTERVAL`] is what the figures stand for; the time
    /// in which a death is seen grows with it.
    pub interval: Duration,
}

/// Why gossip didn't start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting is wrong.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// The port could not be opened.
    #[error("cannot listen for gossip on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
}

impl GossipConfig {
    /// The usual interval. With it a death is seen in one to two seconds.
    pub const INTERVAL: Duration = Duration::from_millis(200);

    pub(crate) fn check(&self) -> Result<(), FieldError> {
        let fail = |field, fix| Err(FieldError { field, fix });
        if self.keys.cluster().is_empty() || !is_name(self.keys.cluster()) {
            return fail("cluster", "use 1 to 64 bytes without control characters");
        }
        if self.seeds.len() > SEEDS_MAX {
            return fail("seeds", "name at most 64");
        }
        if !self.seeds.iter().all(|seed| is_address(seed)) {
            return fail("seeds", "write each as host:port with a port above 0");
        }
        if self.interval < Duration::from_millis(10) || self.interval > Duration::from_secs(10) {
            return fail("interval", "use 10 ms to 10 s");
        }
        if self.advertise.is_none() && self.listen.ip().is_unspecified() {
            return fail("advertise", "name the address that others reach, since this listens on all");
        }
        if self.advertise.is_some_and(|address| address.ip().is_unspecified() || address.port() == 0) {
            return fail("advertise", "use an address and a port that others reach");
        }
        self.profile.check()
    }
}
