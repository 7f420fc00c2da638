//! A running edge: what was bound, what it serves, and how it hands back what it holds.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use leasehold_client::stream::StreamConfig;
use leasehold_client::{AuthoritySettings, Counts, LeaseAuthority, NodeStream, SystemClock};
use leasehold_decide::Decider as _;
use leasehold_front::{ClientDoor, Readiness, SocketError, SocketListener, admin_router};
use leasehold_service::doors::{self, ADMIN_DRAIN, CUT_OFF_WITHIN, Served, Stuck};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::clock;
use crate::config::Config;
use crate::core::Core;
use crate::metrics::metrics;

/// How long goodbye to the node may take once everything is handed back.
const GOODBYE_WITHIN: Duration = Duration::from_secs(1);

/// Why an edge did not start. Nothing is left running.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A port could not be bound.
    #[error("binding {field} to {addr}: {source}")]
    Bind {
        /// The field of the configuration.
        field: &'static str,
        /// As configured.
        addr: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// A socket file could not be listened on.
    #[error("clients.unix {path}: {source}")]
    Socket {
        /// As configured.
        path: PathBuf,
        /// What is in the way.
        source: SocketError,
    },
}

/// An edge that serves until it is [drained](Self::drain). Dropped, it stops as well; what it holds then ends with its
/// leases.
#[derive(Debug)]
pub struct Edge {
    core: Arc<Core>,
    clients: Option<Served>,
    socket: Option<Served<PathBuf>>,
    admin: Served,
    follow: JoinHandle<()>,
    drain: Duration,
    stop: CancellationToken,
    _stopped: DropGuard,
}

/// Everything that is listened on, with nobody behind it yet.
struct Ports {
    clients: Option<(TcpListener, SocketAddr)>,
    socket: Option<(SocketListener, PathBuf)>,
    admin: (TcpListener, SocketAddr),
}

impl Edge {
    /// Binds the ports, serves, and begins to connect to a node. It is ready as soon as one has handed out its rules.
    ///
    /// # Errors
    /// [`StartError`] names the field to mend.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let ports = Ports::bind(&config).await?;
        let stream =
            NodeStream::open(StreamConfig { addresses: config.upstreams.clone(), name: config.name.clone() });
        let settings =
            AuthoritySettings { patience: config.wallet.patience(), wallet: config.wallet.settings() };
        let authority =
            Arc::new(LeaseAuthority::start(Arc::new(stream.clone()), Arc::new(SystemClock), settings));
        let core = Arc::new(Core::new(stream, Arc::clone(&authority), Arc::new(metrics(&authority))));
        core.gate.set(Readiness::Ready);
        let stop = CancellationToken::new();
        let follow = tokio::spawn(Arc::clone(&core).follow(core.stream.rules(), stop.clone()));
        let http = || {
            let epoch = Arc::new(clock::epoch_seconds);
            doors::http_door(&config.http, &config.authorize, &config.addresses, epoch)
        };
        let limits = doors::client_limits(&config.intake, config.drain_seconds);
        let door = || ClientDoor::new(Arc::clone(&core), http());
        let edge = Self {
            clients: ports.clients.map(|port| Served::open(port, door(), limits.clone(), &stop)),
            socket: ports.socket.map(|socket| Served::open(socket, door(), limits.clone(), &stop)),
            admin: Served::open(ports.admin, admin_router(Arc::clone(&core)), doors::admin_limits(), &stop),
            core,
            drain: limits.drain_timeout,
            follow,
            _stopped: stop.clone().drop_guard(),
            stop,
        };
        let upstreams: Vec<_> = config.upstreams.iter().map(ToString::to_string).collect();
        tracing::info!(
            clients = edge.clients_addr().map(tracing::field::display),
            socket = edge.socket_path().map(|path| tracing::field::display(path.display())), admin = %edge.admin.addr,
            upstreams = upstreams.join(", "), "serving, and connecting to a node"
        );
        Ok(edge)
    }

    /// Where clients are served over TCP.
    #[must_use]
    pub fn clients_addr(&self) -> Option<SocketAddr> {
        self.clients.as_ref().map(|served| served.addr)
    }

    /// Where clients are served over a socket file.
    #[must_use]
    pub fn socket_path(&self) -> Option<&Path> {
        self.socket.as_ref().map(|served| &*served.addr)
    }

    /// Where operators are served.
    #[must_use]
    pub const fn admin_addr(&self) -> SocketAddr {
        self.admin.addr
    }

    /// Why traffic should not come here yet; `None` when it should.
    #[must_use]
    pub fn not_ready(&self) -> Option<String> {
        match self.core.readiness() {
            Readiness::Ready => None,
            Readiness::NotReady(reason) => Some(reason),
        }
    }

    /// What it did so far, in numbers.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.core.authority.counts()
    }

    /// Stops: not ready first, then no new connections; what is in flight finishes, by the owners, while everything held is
    /// handed back, within `drain_seconds`. Returns whether all of that was done in time. What isn't handed back ends with
    /// its leases, unspent.
    pub async fn drain(self) -> bool {
        tracing::info!(seconds = self.drain.as_secs(), "draining");
        self.core.gate.drain();
        let within = self.drain.saturating_add(CUT_OFF_WITHIN);
        let deadline = Instant::now() + self.drain;
        let (clients, socket, returned) = tokio::join!(
            close(self.clients, within),
            close(self.socket, within),
            self.core.authority.return_all(deadline)
        );
        let left = deadline.saturating_duration_since(Instant::now()).max(GOODBYE_WITHIN);
        let closed = self.core.stream.close(left).await;
        let _ = self.admin.close(ADMIN_DRAIN.saturating_add(CUT_OFF_WITHIN)).await;
        self.stop.cancel();
        self.follow.abort();
        if !returned {
            tracing::warn!("not everything was handed back: the rest ends with its leases, unspent");
        }
        let finished = clients && socket;
        if !finished {
            tracing::warn!("stopped before everything in flight had finished");
        }
        tracing::info!(returned, closed, "stopped");
        finished && returned
    }
}

/// Closes a door, if there is one; whether all that was in flight finished.
async fn close<A>(door: Option<Served<A>>, within: Duration) -> bool {
    match door {
        None => true,
        Some(door) => match door.close(within).await {
            Ok(cut_off) => cut_off == 0,
            Err(Stuck) => false,
        },
    }
}

impl Ports {
    async fn bind(config: &Config) -> Result<Self, StartError> {
        let clients = match config.clients.listen {
            Some(addr) => Some(bind("clients.listen", addr).await?),
            None => None,
        };
        let socket = match &config.clients.unix {
            Some(path) => {
                let listener = SocketListener::bind(path, config.clients.unix_mode.0).await;
                let listener =
                    listener.map_err(|source| StartError::Socket { path: path.clone(), source })?;
                Some((listener, path.clone()))
            }
            None => None,
        };
        Ok(Self { clients, socket, admin: bind("admin.listen", config.admin.listen).await? })
    }
}

async fn bind(field: &'static str, addr: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    doors::bind(addr).await.map_err(|source| StartError::Bind { field, addr, source })
}
