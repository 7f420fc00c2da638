//! A `leasehold edge` process beside the test.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::binary::leasehold;
use crate::http::Http;
use crate::process::Process;
use crate::seat::{Seat, listen};

/// An unoptimised build on a busy machine; an edge that takes longer is broken.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// An edge that serves, over a port and a socket file.
#[derive(Debug)]
pub struct TestEdge {
    /// The process.
    pub process: Process,
    /// Where clients are served.
    pub clients: SocketAddr,
    /// Where operators are served.
    pub admin: SocketAddr,
    /// The socket file that clients are served on.
    pub socket: PathBuf,
    folder: TempDir,
}

impl TestEdge {
    /// Starts an edge of this node and waits until it is ready.
    #[must_use]
    pub fn start(node: SocketAddr) -> Self {
        let mut edge = Self::begin(node);
        edge.wait_until_ready();
        edge
    }

    /// Starts an edge that may have to wait for its node.
    ///
    /// # Panics
    /// When it doesn't listen in time.
    #[must_use]
    pub fn begin(node: SocketAddr) -> Self {
        let mut edge = Self::launch(&[node], "");
        edge.process.wait_for_port(edge.admin, READY_WITHIN);
        edge
    }

    /// Starts an edge of these nodes with more lines for its configuration, and waits for nothing.
    ///
    /// # Panics
    /// When its files can't be written.
    #[must_use]
    pub fn launch(nodes: &[SocketAddr], config: &str) -> Self {
        Self::launch_at(&Seat::own(), nodes, config)
    }

    /// The same at a given place.
    ///
    /// # Panics
    /// When its files can't be written.
    #[must_use]
    pub fn launch_at(seat: &Seat, nodes: &[SocketAddr], config: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let (clients, admin, socket) = (seat.clients, seat.admin, folder.path().join("edge.sock"));
        let upstreams: Vec<String> = nodes.iter().map(|node| format!("'http://{node}'")).collect();
        let text = format!(
            "upstreams: [{}]\nclients: {{ {}, unix: '{}' }}\nadmin: {{ {} }}\n{config}\n",
            upstreams.join(", "),
            listen(clients),
            socket.display(),
            listen(admin)
        );
        let path = folder.path().join("edge.yaml");
        fs::write(&path, text).expect("the temporary folder can be written to");
        let mut command = seat.command(leasehold());
        let process = Process::spawn("edge", command.args(["edge", "--config"]).arg(path));
        Self { process, clients, admin, socket, folder }
    }

    /// An edge from a configuration file.
    #[must_use]
    pub fn spawn(config: &Path) -> Process {
        Process::spawn("edge", Command::new(leasehold()).args(["edge", "--config"]).arg(config))
    }

    /// Waits until it calls for traffic.
    ///
    /// # Panics
    /// When it doesn't in time.
    pub fn wait_until_ready(&mut self) {
        self.process.wait_until_ready(self.admin, READY_WITHIN);
    }

    /// A client of the clients' door.
    #[must_use]
    pub fn http(&self) -> Http {
        Http::new(self.clients)
    }

    /// A client of the operators' door.
    #[must_use]
    pub fn admin_http(&self) -> Http {
        Http::new(self.admin)
    }

    /// The configuration that it was started with.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.folder.path().join("edge.yaml")
    }
}
