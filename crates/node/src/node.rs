//! A running node: what was bound, what it serves, and how it stops.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use leasehold_front::{ClientDoor, Door, Readiness, RulesStatus, ServerLimits, admin_router, serve};
use leasehold_limit::rules::RuleBook;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::authority::LocalAuthority;
use crate::boot::{self, StartError};
use crate::config::Config;
use crate::core::Core;
use crate::rules::{self, Watch};

/// How often time moves on when nothing is asked, so that counters that equal fresh ones are dropped.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// How long watching and sweeping may take to end. Beyond, they are left behind: a disk that doesn't answer must not
/// keep a node from stopping.
const BACKGROUND_WITHIN: Duration = Duration::from_secs(1);

/// How long a door may take to close after its drain has ended.
const CUT_OFF_WITHIN: Duration = Duration::from_secs(1);

/// A node that serves until it is [drained](Self::drain). Dropped, it stops as well, without waiting for anything.
#[derive(Debug)]
pub struct Node {
    core: Arc<Core<LocalAuthority>>,
    clients: Served,
    admin: Served,
    /// Watching and sweeping.
    background: TaskTracker,
    drain: Duration,
    stop: DropGuard,
}

/// A door that is open.
#[derive(Debug)]
struct Served {
    addr: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<usize>,
}

impl Node {
    /// Reads the rules, binds both ports and serves. Ready when it returns.
    ///
    /// # Errors
    /// [`StartError`] names the field or file to mend.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let (config, core) = read(config).await?;
        let core = Arc::new(core);
        let watch = Watch::new(Arc::clone(&core.rules));
        let clients = bind("clients.listen", config.clients.listen).await?;
        let admin = bind("admin.listen", config.admin.listen).await?;

        // Connections that wait in the ports' queues already are answered by a node that says it is ready.
        core.set_readiness(Readiness::Ready);
        let stop = CancellationToken::new();
        let door = ClientDoor::new(Arc::clone(&core), boot::http_door(&config));
        let clients = Served::open(clients, door, boot::client_limits(&config), &stop);
        let door = admin_router(Arc::clone(&core));
        let admin = Served::open(admin, door, boot::admin_limits(), &stop);
        let background = TaskTracker::new();
        background.spawn(watch.run(stop.clone()));
        background.spawn(sweep(Arc::clone(&core), stop.clone()));
        background.close();

        let version = core.rules.active().book.version;
        tracing::info!(clients = %clients.addr, admin = %admin.addr, rules = %core.rules.source(), %version, "serving");
        let drain = boot::client_limits(&config).drain_timeout;
        Ok(Self { core, clients, admin, background, drain, stop: stop.drop_guard() })
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

    /// The rules in force.
    #[must_use]
    pub fn rules(&self) -> Arc<RuleBook> {
        Arc::clone(&self.core.rules.active().book)
    }

    /// What is in force and how the last reload went.
    #[must_use]
    pub fn rules_status(&self) -> RulesStatus {
        self.core.rules.status()
    }

    /// Reads the rules again now, as SIGHUP does. Returns when they are in force or refused.
    pub async fn reload_rules(&self) -> RulesStatus {
        rules::reload(&self.core.rules).await;
        self.rules_status()
    }

    /// Stops gracefully: not ready first, then no new connections, then what is in flight finishes, within the
    /// configured `drain_seconds`. Returns whether everything finished in time.
    ///
    /// Operators are served to the end, so that they see the drain.
    pub async fn drain(self) -> bool {
        tracing::info!(seconds = self.drain.as_secs(), "draining");
        self.core.set_readiness(Readiness::NotReady("draining".to_owned()));
        let clients = self.clients.close(self.drain.saturating_add(CUT_OFF_WITHIN)).await;
        // Operators who only look lose nothing.
        drop(self.admin.close(boot::ADMIN_DRAIN.saturating_add(CUT_OFF_WITHIN)).await);
        drop(self.stop);
        if timeout(BACKGROUND_WITHIN, self.background.wait()).await.is_err() {
            tracing::warn!("reading the rules takes long, and is left behind");
        }
        match clients {
            Ok(0) => tracing::info!("stopped"),
            Ok(cut_off) => tracing::warn!(cut_off, "stopped before these connections had their answers"),
            Err(Stuck) => tracing::warn!("stopped before everything in flight had finished"),
        }
        matches!(clients, Ok(0))
    }
}

impl Served {
    fn open(
        (listener, addr): (TcpListener, SocketAddr),
        door: impl Door,
        limits: ServerLimits,
        stop: &CancellationToken,
    ) -> Self {
        let stop = stop.child_token();
        let task = tokio::spawn(serve(listener, door, limits, stop.clone()));
        Self { addr, stop, task }
    }

    /// Takes nobody new and waits for those inside; how many were cut off. The door's own drain is the deadline: `within`
    /// is longer, for a door that doesn't keep it.
    async fn close(mut self, within: Duration) -> Result<usize, Stuck> {
        self.stop.cancel();
        let closed = timeout(within, &mut self.task).await;
        self.task.abort();
        closed.map_err(|_| Stuck)?.map_err(|_| Stuck)
    }
}

/// A door that didn't close by itself: nobody knows what was cut off.
#[derive(Debug)]
struct Stuck;

async fn read(config: Config) -> Result<(Config, Core<LocalAuthority>), StartError> {
    let reading = tokio::task::spawn_blocking(move || {
        let core = boot::core(&config)?;
        Ok((config, core))
    });
    reading.await.unwrap_or_else(|error| {
        Err(StartError::System { what: "reading rules and secret", source: std::io::Error::other(error) })
    })
}

async fn bind(field: &'static str, addr: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let failed = |source| StartError::Bind { field, addr, source };
    let listener = TcpListener::bind(addr).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
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
