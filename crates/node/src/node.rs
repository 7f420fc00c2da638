//! A running node: what was bound, what it serves, and how it stops.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use leasehold_cluster::{Cluster, SystemClock};
use leasehold_front::{ClientDoor, Readiness, RulesStatus, admin_router};
use leasehold_limit::rules::RuleBook;
use leasehold_model::RulesVersion;
use leasehold_service::Gate;
use leasehold_service::doors::{self, ADMIN_DRAIN, CUT_OFF_WITHIN, Served, Stuck};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::authority::{LocalAuthority, NodeAuthority, NodeLeases};
use crate::boot::{self, StartError};
use crate::config::{ClusterConfig, Config};
use crate::core::Core;
use crate::lease_service::{Broker, Greeter, LeaseService, Lender, NoLender, Owners};
use crate::membership::Membership;
use crate::rules::{self, Keeper, Watch};
use crate::usage;

/// How often time moves on when nothing is asked, so that counters that equal fresh ones are dropped.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// How long watching and sweeping may take to end. Beyond, they are left behind: a disk that doesn't answer must not
/// keep a node from stopping.
const BACKGROUND_WITHIN: Duration = Duration::from_secs(1);

/// How long a node of a cluster takes to hand the shards that it leads to others before it stops serving. What is left
/// then is taken over by an election.
const HAND_OVER_WITHIN: Duration = Duration::from_secs(3);

/// How long a node of a cluster takes to hand back what it holds of counters that others lead. What is left then, and what
/// edges hold of it, ends with its leases.
const RETURN_WITHIN: Duration = Duration::from_secs(1);

/// A node that serves until it is [drained](Self::drain). Dropped, it stops as well, without waiting for anything.
#[derive(Debug)]
pub struct Node {
    keeper: Keeper,
    gate: Arc<Gate>,
    /// What is held of counters that others lead.
    leases: Option<Arc<NodeLeases>>,
    /// Edges are sent away.
    draining: CancellationToken,
    clients: Served,
    admin: Served,
    /// Watching and sweeping, or following the cluster.
    background: TaskTracker,
    drain: Duration,
    stop: CancellationToken,
    _stopped: DropGuard,
}

/// Both ports, open, with nobody behind them yet.
struct Ports {
    clients: (TcpListener, SocketAddr),
    admin: (TcpListener, SocketAddr),
}

impl Node {
    /// Reads the rules, binds the ports and serves. A node that runs alone is ready when it returns; one of a cluster when
    /// the cluster has formed and its rules are known, which its readiness tells.
    ///
    /// # Errors
    /// [`StartError`] names the field or file to mend.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        Self::start_on(config, None).await
    }

    /// The same with the port for peers open already, in place of the configured one, if there is one: for nodes that have
    /// to be told of each other's before any of them is started.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_on(config: Config, peers: Option<std::net::TcpListener>) -> Result<Self, StartError> {
        match config.cluster.clone() {
            None => Self::start_alone(config).await,
            Some(cluster) => Self::start_in_cluster(config, cluster, peers).await,
        }
    }

    async fn start_alone(config: Config) -> Result<Self, StartError> {
        let (config, (core, rules)) = read(config, boot::core).await?;
        let watch = Watch::new(Arc::clone(&rules));
        let ports = Ports::bind(&config).await?;
        let core = Arc::new(core);
        // Connections that wait in the ports' queues already are answered by a node that says it is ready.
        core.gate.set(Readiness::Ready);
        let node = Self::serve(&config, ports, &core, boot::greeter(&config), NoLender);
        node.background.spawn(watch.run(node.stop.clone()));
        node.background.spawn(sweep(core, node.stop.clone()));
        let version = rules.in_force().version();
        let (clients, admin) = (node.clients.addr, node.admin.addr);
        tracing::info!(%clients, %admin, rules = %rules.source(), %version, "serving");
        Ok(node)
    }

    async fn start_in_cluster(
        config: Config,
        named: ClusterConfig,
        peers: Option<std::net::TcpListener>,
    ) -> Result<Self, StartError> {
        let prepared = {
            let named = named.clone();
            move |config: &Config| boot::cluster::prepare(config, &named)
        };
        let (config, prepared) = read(config, prepared).await?;
        let ports = Ports::bind(&config).await?;
        let part = boot::cluster::part(&config, &named, &prepared, ports.clients.1);
        let (clock, fatal) = (Arc::new(SystemClock), boot::cluster::fatal());
        let cluster = match peers {
            Some(peers) => Cluster::start_on(peers, part, clock, fatal).await?,
            None => Cluster::start(part, clock, fatal).await?,
        };
        let (core, rules) = boot::cluster::core(&config, &named.name, &prepared, cluster.clone());
        let core = Arc::new(core);
        usage::answer_members(&cluster, &core);
        let greeter = boot::cluster::greeter(&config, &named, &prepared, &cluster);
        let follow = Membership::new(cluster.clone(), rules, Arc::clone(&core.gate), prepared.first);
        let broker = Broker::new(&core.authority, named.region.clone());
        let mut node = Self::serve(&config, ports, &core, greeter, broker);
        node.background.spawn(follow.follow(node.stop.clone()));
        if let Some(leases) = core.authority.leases() {
            node.leases = Some(Arc::clone(leases));
            node.background.spawn(forget_refusals(
                core.rules.changes(),
                Arc::clone(leases),
                node.stop.clone(),
            ));
        }
        let (clients, admin, addresses) = (node.clients.addr, node.admin.addr, cluster.addresses());
        tracing::info!(
            %clients, %admin, peers = %addresses.peers, gossip = %addresses.gossip, cluster = named.name,
            node = prepared.node, id = %cluster.node(), "serving, and joining the cluster"
        );
        Ok(node)
    }

    /// Opens both doors.
    fn serve<A: NodeAuthority + Owners>(
        config: &Config,
        ports: Ports,
        core: &Arc<Core<A>>,
        greeter: Greeter,
        lender: impl Lender,
    ) -> Self {
        let stop = CancellationToken::new();
        let draining = stop.child_token();
        let leases = LeaseService::new(
            greeter,
            Arc::clone(&core.authority),
            lender,
            Arc::clone(&core.rules),
            (core.metrics.leases(), Arc::clone(&core.names)),
            draining.clone(),
        );
        let door = ClientDoor::lending(Arc::clone(core), boot::http_door(config), leases);
        let limits = doors::client_limits(&config.intake, config.drain_seconds);
        let drain = limits.drain_timeout;
        let clients = Served::open(ports.clients, door, limits, &stop);
        let admin = Served::open(ports.admin, admin_router(Arc::clone(core)), doors::admin_limits(), &stop);
        Self {
            keeper: core.keeper.clone(),
            gate: Arc::clone(&core.gate),
            leases: None,
            draining,
            clients,
            admin,
            background: TaskTracker::new(),
            drain,
            stop: stop.clone(),
            _stopped: stop.drop_guard(),
        }
    }

    /// Where clients are served: the configured address, with the port that was bound.
    #[must_use]
    pub fn client_addr(&self) -> SocketAddr {
        self.clients.addr
    }

    /// Where operators are served.
    #[must_use]
    pub fn admin_addr(&self) -> SocketAddr {
        self.admin.addr
    }

    fn readiness(&self) -> Readiness {
        match (self.gate.get(), &self.keeper) {
            (Readiness::Ready, Keeper::Cluster { cluster, .. }) => {
                cluster.health().map_or_else(Readiness::NotReady, |()| Readiness::Ready)
            }
            (readiness, Keeper::Files(_) | Keeper::Cluster { .. }) => readiness,
        }
    }

    /// Why traffic should not come here; `None` when it should.
    #[must_use]
    pub fn not_ready(&self) -> Option<String> {
        match self.readiness() {
            Readiness::Ready => None,
            Readiness::NotReady(reason) => Some(reason),
        }
    }

    /// Messages with asks that this node sent to leaders in other regions since it started.
    #[must_use]
    pub fn far_calls(&self) -> u64 {
        match &self.keeper {
            Keeper::Files(_) => 0,
            Keeper::Cluster { cluster, .. } => cluster.counts().far,
        }
    }

    /// The rules in force; of version 0, without a domain, while none are known.
    #[must_use]
    pub fn rules(&self) -> Arc<RuleBook> {
        self.keeper.in_force().active().map_or_else(Arc::default, |active| Arc::clone(&active.book))
    }

    /// What is in force and how the last reload went.
    #[must_use]
    pub fn rules_status(&self) -> RulesStatus {
        self.keeper.in_force().status()
    }

    /// Reads the rules again now, as SIGHUP does. Returns when they are in force or refused. In a cluster there is nothing
    /// to read.
    pub async fn reload_rules(&self) -> RulesStatus {
        if let Keeper::Files(files) = &self.keeper {
            rules::reload(files).await;
        }
        self.rules_status()
    }

    /// Stops gracefully: not ready first; then a node of a cluster hands back what it holds of counters that others lead, and
    /// hands over what it leads, while it still serves; then no
    /// new connections, then what is in flight finishes, within the configured `drain_seconds`. Returns whether everything
    /// finished in time.
    ///
    /// Operators are served to the end, so that they see the drain.
    pub async fn drain(self) -> bool {
        tracing::info!(seconds = self.drain.as_secs(), "draining");
        self.gate.drain();
        self.draining.cancel();
        let cluster = match &self.keeper {
            Keeper::Files(_) => None,
            Keeper::Cluster { cluster, .. } => Some(cluster),
        };
        if let Some(leases) = &self.leases
            && !leases.return_all(tokio::time::Instant::now() + RETURN_WITHIN.min(self.drain)).await
        {
            tracing::info!(
                "not all that was held of other nodes' counters went back; the rest ends with its leases"
            );
        }
        if let Some(cluster) = cluster {
            cluster.hand_over(HAND_OVER_WITHIN.min(self.drain)).await;
        }
        let clients = self.clients.close(self.drain.saturating_add(CUT_OFF_WITHIN)).await;
        // Operators who only look lose nothing.
        let _ = self.admin.close(ADMIN_DRAIN.saturating_add(CUT_OFF_WITHIN)).await;
        self.stop.cancel();
        self.background.close();
        if timeout(BACKGROUND_WITHIN, self.background.wait()).await.is_err() {
            tracing::warn!("reading the rules takes long, and is left behind");
        }
        if let Some(cluster) = cluster {
            cluster.shutdown().await;
        }
        match clients {
            Ok(0) => tracing::info!("stopped"),
            Ok(cut_off) => tracing::warn!(cut_off, "stopped before these connections had their answers"),
            Err(Stuck) => tracing::warn!("stopped before everything in flight had finished"),
        }
        matches!(clients, Ok(0))
    }
}

impl Ports {
    async fn bind(config: &Config) -> Result<Self, StartError> {
        Ok(Self {
            clients: bind("clients.listen", config.clients.listen).await?,
            admin: bind("admin.listen", config.admin.listen).await?,
        })
    }
}

/// Reads files off the async threads.
async fn read<T: Send + 'static>(
    config: Config,
    files: impl FnOnce(&Config) -> Result<T, StartError> + Send + 'static,
) -> Result<(Config, T), StartError> {
    let reading = tokio::task::spawn_blocking(move || files(&config).map(|read| (config, read)));
    reading.await.unwrap_or_else(|error| {
        Err(StartError::System { what: "reading rules and secret", source: std::io::Error::other(error) })
    })
}

async fn bind(field: &'static str, addr: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    doors::bind(addr).await.map_err(|source| StartError::Bind { field, addr, source })
}

/// Under other rules other requests may pass.
async fn forget_refusals(
    mut rules: watch::Receiver<RulesVersion>,
    leases: Arc<NodeLeases>,
    stop: CancellationToken,
) {
    while let Some(Ok(())) = stop.run_until_cancelled(rules.changed()).await {
        leases.rules_changed();
    }
}

async fn sweep(core: Arc<Core<LocalAuthority>>, stop: CancellationToken) {
    let mut tick = interval(SWEEP_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            _ = tick.tick() => core.authority.sweep(),
        }
    }
}

#[cfg(test)]
mod tests;
