//! A `leasehold node` process with rules of the test's own.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::binary::leasehold;
use crate::http::Http;
use crate::ports::own_port;
use crate::process::Process;

/// An unoptimised build on a busy machine; a node that takes longer is broken.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// A node that serves.
#[derive(Debug)]
pub struct TestNode {
    /// The process.
    pub process: Process,
    /// Where clients are served.
    pub clients: SocketAddr,
    /// Where operators are served.
    pub admin: SocketAddr,
    folder: TempDir,
}

impl TestNode {
    /// Starts a node with these rules and waits until it serves.
    #[must_use]
    pub fn start(rules: &str) -> Self {
        Self::start_with(own_port(), rules, "")
    }

    /// The same on a given port, with more lines for its configuration.
    ///
    /// # Panics
    /// When it doesn't serve in time.
    #[must_use]
    pub fn start_with(clients: SocketAddr, rules: &str, config: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let admin = own_port();
        let rules_path = folder.path().join("rules.yaml");
        fs::write(&rules_path, rules).expect("the temporary folder can be written to");
        let text = format!(
            "clients: {{ listen: '{clients}' }}\nadmin: {{ listen: '{admin}' }}\nrules: '{}'\n{config}",
            rules_path.display()
        );
        let config_path = folder.path().join("node.yaml");
        fs::write(&config_path, text).expect("the temporary folder can be written to");
        let mut process =
            Process::spawn("node", Command::new(leasehold()).args(["node", "--config"]).arg(config_path));
        process.wait_until_ready(clients, READY_WITHIN);
        Self { process, clients, admin, folder }
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

    /// The rule file that it watches.
    #[must_use]
    pub fn rules_path(&self) -> PathBuf {
        self.folder().join("rules.yaml")
    }

    /// A folder that lives as long as the node.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}
