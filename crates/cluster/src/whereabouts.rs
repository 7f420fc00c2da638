//! Gossip, as the cluster uses it: where nodes are, how busy, whom to ask first.
//!
//! Invariant: what is heard here decides nothing. It is where calls are tried first and what operators are shown.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use leasehold_consensus::runner::Runner;
use leasehold_consensus::types::GroupId;
use leasehold_control::{Control, NodeRecord};
use leasehold_gossip::{
    Boot, Counts, Gossip, GossipConfig, KeyRing, LeaderHint, Load, Members, StartError as Failed,
};
use leasehold_model::{NodeId, RulesVersion};
use leasehold_placement::Standing;
use parking_lot::RwLock;
use tokio::net::UdpSocket;

use crate::{ClusterConfig, StartError, own};

/// Addresses that gossip asks at besides the seeds: a few of many reach all others.
const KNOWN_MAX: usize = 256;

/// This node's part in the gossip, until it is stopped.
#[derive(Debug)]
pub(crate) struct Whereabouts {
    gossip: RwLock<Option<Gossip>>,
    address: SocketAddr,
}

impl Whereabouts {
    /// Tells `record` through `socket`, which is bound to `port`, on the `boot`th start of the node.
    ///
    /// # Errors
    /// [`StartError`].
    pub(crate) fn start(
        config: &ClusterConfig,
        socket: UdpSocket,
        port: u16,
        advertised: SocketAddr,
        record: &NodeRecord,
        boot: u64,
    ) -> Result<Self, StartError> {
        let config = GossipConfig {
            id: record.id,
            boot: Boot(boot),
            listen: SocketAddr::new(config.gossip_listen.ip(), port),
            advertise: Some(advertised),
            seeds: gossip_seeds(&config.seeds, port),
            keys: KeyRing::new(&config.name, &config.gossip_key, config.gossip_key_other.as_ref()),
            profile: own::profile(record),
            interval: GossipConfig::INTERVAL,
        };
        let gossip = Gossip::start_on(socket, config).map_err(|error| match error {
            Failed::Listen { address, source } => {
                StartError::Bind { field: "gossip.listen", address, source }
            }
            Failed::Field(error) => StartError::Setting { field: error.field, message: error.fix.to_owned() },
        })?;
        Ok(Self { address: gossip.local_address(), gossip: RwLock::new(Some(gossip)) })
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Everybody heard of.
    pub(crate) fn members(&self) -> Arc<Members> {
        self.gossip.read().as_ref().map_or_else(Arc::default, Gossip::members)
    }

    /// Who leads a group, by word of the live.
    pub(crate) fn hint(&self, group: GroupId) -> Option<NodeId> {
        self.members().leader_hint(group.0).map(|hint| hint.leader)
    }

    /// Whether gossip runs.
    pub(crate) fn healthy(&self) -> bool {
        self.gossip.read().as_ref().is_some_and(Gossip::healthy)
    }

    /// What was sent, heard and dropped.
    pub(crate) fn counts(&self) -> Counts {
        self.gossip.read().as_ref().map(Gossip::counts).unwrap_or_default()
    }

    /// Asks at the registered nodes' addresses too.
    pub(crate) fn follow(&self, control: &Control) {
        let living = control.nodes().values().filter(|node| node.standing != Standing::Dead);
        let addresses = living.filter_map(|node| node.gossip_address.parse().ok()).take(KNOWN_MAX).collect();
        self.with(|gossip| gossip.set_known(addresses));
    }

    /// Tells by which rules this node decides.
    pub(crate) fn set_rules(&self, version: RulesVersion) {
        self.with(|gossip| gossip.set_rules(version));
    }

    /// Tells how busy this node is and what it leads.
    pub(crate) fn tell(&self, load: Load, led: BTreeMap<u32, LeaderHint>) {
        self.with(|gossip| {
            gossip.set_load(load);
            gossip.set_hints(led);
        });
    }

    /// Says goodbye and stops.
    pub(crate) async fn shutdown(&self) {
        let gossip = self.gossip.write().take();
        if let Some(gossip) = gossip {
            gossip.shutdown().await;
        }
    }

    /// Stops without a word.
    #[cfg(test)]
    pub(crate) fn fall_silent(&self) {
        self.gossip.write().take();
    }

    fn with(&self, tell: impl FnOnce(&Gossip)) {
        if let Some(gossip) = self.gossip.read().as_ref() {
            tell(gossip);
        }
    }
}

/// The groups that this node leads, as hints for others.
pub(crate) fn led(runner: &Runner, me: NodeId) -> BTreeMap<u32, LeaderHint> {
    let term = |group| runner.leadership(group).map(|leadership| leadership.borrow().term);
    let led = runner.groups().into_iter().filter(|group| runner.is_leader(*group));
    led.filter_map(|group| Some((group.0, LeaderHint { leader: me, term: term(group)? }))).collect()
}

/// Gossip is first sought where the seeds are, at this node's own gossip port: nodes are set up alike. What else there is
/// follows from the control group.
fn gossip_seeds(seeds: &[String], port: u16) -> Vec<String> {
    seeds.iter().filter_map(|seed| Some(format!("{}:{port}", seed.rsplit_once(':')?.0))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gossip_is_sought_where_the_seeds_are() {
        let seeds = ["n1.example:7601".to_owned(), "[::1]:7601".to_owned()];
        assert_eq!(gossip_seeds(&seeds, 7602), ["n1.example:7602", "[::1]:7602"]);
    }
}
