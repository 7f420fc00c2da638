//! The running gossip: starts chitchat, keeps it running, keeps the members' table, tells what it is given to tell.
//!
//! Invariant: one supervisor task owns chitchat's; when that ends or stops moving, it is started again under a later
//! generation, and [`Gossip::healthy`] is false meanwhile. Nothing here is an authority.

mod supervisor;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use chitchat::transport::Transport;
use leasehold_model::{NodeId, RulesVersion};
use parking_lot::Mutex;
use tokio::net::UdpSocket;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::{GossipConfig, StartError};
use crate::counters::{Counters, Counts};
use crate::members::{Members, Roster};
use crate::seal::KeyRing;
use crate::seeds::Seeds;
use crate::state::{LeaderHint, Load, Profile};
use crate::transport::{SealedTransport, Wire};
use supervisor::Supervisor;

/// This node's part in the gossip. Dropping it falls silent at once; [`Gossip::shutdown`] says goodbye first.
#[derive(Debug)]
pub struct Gossip {
    shared: Arc<Shared>,
    wire: Arc<Wire>,
    address: SocketAddr,
    seeds: Seeds,
    members: watch::Receiver<Arc<Members>>,
    supervisor: JoinHandle<()>,
    stop: CancellationToken,
}

/// What the supervisor and the handle both touch.
#[derive(Debug)]
struct Shared {
    own: Mutex<Profile>,
    own_changed: Notify,
    roster: Mutex<Roster>,
    members: watch::Sender<Arc<Members>>,
    healthy: AtomicBool,
    counters: Arc<Counters>,
}

impl Gossip {
    /// Opens the port and starts to talk.
    ///
    /// # Errors
    /// [`StartError`]: a wrong setting, or a port that cannot be opened.
    pub async fn start(config: GossipConfig) -> Result<Self, StartError> {
        config.check()?;
        let listen = |source| StartError::Listen { address: config.listen, source };
        let socket = UdpSocket::bind(config.listen).await.map_err(listen)?;
        Self::start_on(socket, config)
    }

    /// Starts to talk on a socket that is open already: for who has to know its port before, to tell others.
    ///
    /// # Errors
    /// [`StartError`]: a wrong setting, or a socket without an address.
    pub fn start_on(socket: UdpSocket, config: GossipConfig) -> Result<Self, StartError> {
        config.check()?;
        let counters = Arc::new(Counters::default());
        let listen = |source| StartError::Listen { address: config.listen, source };
        let address = socket.local_addr().map_err(listen)?;
        let keys = config.keys.clone();
        let wire = Arc::new(Wire::new(config.id, config.boot, socket, keys, Arc::clone(&counters)));
        let transport = Box::new(SealedTransport(Arc::clone(&wire)));
        Ok(Self::run(config, address, wire, transport, counters))
    }

    fn run(
        config: GossipConfig,
        address: SocketAddr,
        wire: Arc<Wire>,
        transport: Box<dyn Transport>,
        counters: Arc<Counters>,
    ) -> Self {
        let (sender, members) = watch::channel(Arc::default());
        let shared = Arc::new(Shared {
            own: Mutex::new(config.profile.clone()),
            own_changed: Notify::new(),
            roster: Mutex::default(),
            members: sender,
            healthy: AtomicBool::new(false),
            counters,
        });
        let stop = CancellationToken::new();
        let seeds = Seeds::watch(&config.seeds, stop.clone());
        let supervisor =
            Supervisor::new(&config, address, seeds.clone(), transport, Arc::clone(&shared), stop.clone());
        let supervisor = tokio::spawn(supervisor.run());
        Self { shared, wire, address, seeds, members, supervisor, stop }
    }

    /// Everybody heard of, as of the last round.
    #[must_use]
    pub fn members(&self) -> Arc<Members> {
        self.members.borrow().clone()
    }

    /// Follows the members: each reading is all of them, [`Members::changes_since`] tells two readings apart. Readings
    /// that were not taken in time are skipped.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Arc<Members>> {
        self.members.clone()
    }

    /// Tells how busy this node is. Each change travels to everybody: once a second is enough.
    pub fn set_load(&self, load: Load) {
        self.tell(|own| own.load = load);
    }

    /// Tells whom this node believes to lead which group; see [`crate::GROUPS_MAX`] and [`crate::HINTS_MAX`].
    pub fn set_hints(&self, hints: BTreeMap<u32, LeaderHint>) {
        self.tell(|own| own.hints = hints);
    }

    /// Tells by which rules this node decides.
    pub fn set_rules(&self, version: RulesVersion) {
        self.tell(|own| own.rules = version);
    }

    /// Asks at these addresses too, in place of those that were told before.
    pub fn set_known(&self, addresses: Vec<SocketAddr>) {
        self.seeds.set_known(addresses);
    }

    /// Seals and opens with these keys from now on. They must be of the same cluster; another's would make this node
    /// deaf and mute.
    pub fn set_keys(&self, keys: KeyRing) {
        self.wire.set_keys(keys);
    }

    /// Drops a dead member from the table; false if it isn't there or is live. It comes back when it is heard again.
    pub fn forget(&self, id: NodeId) -> bool {
        let mut roster = self.shared.roster.lock();
        let forgotten = roster.forget(id);
        self.shared.publish(&roster);
        forgotten
    }

    /// Whether gossip is running. While it isn't, members are as they were last heard of.
    #[must_use]
    pub fn healthy(&self) -> bool {
        self.shared.healthy.load(Ordering::Acquire)
    }

    /// What was sent, heard and dropped.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared.counters.read()
    }

    /// Where it listens.
    #[must_use]
    pub const fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Tells the others that this node is leaving and stops. Takes two rounds.
    pub async fn shutdown(mut self) {
        self.stop.cancel();
        // A panic in the supervisor is the only error, and there is nothing left to stop then.
        let _ = (&mut self.supervisor).await;
    }

    fn tell(&self, change: impl FnOnce(&mut Profile)) {
        change(&mut self.shared.own.lock());
        self.shared.own_changed.notify_one();
    }
}

impl Drop for Gossip {
    fn drop(&mut self) {
        // In this order, so that the supervisor has no turn in which to say goodbye.
        self.supervisor.abort();
        self.stop.cancel();
    }
}

impl Shared {
    fn publish(&self, roster: &Roster) {
        self.members.send_if_modified(|published| {
            let changed = **published != *roster.members();
            if changed {
                *published = Arc::new(roster.members().clone());
            }
            changed
        });
    }
}
