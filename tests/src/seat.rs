//! Where a process of a test runs: its addresses, and how it is started there.
//!
//! Without further words that is the loopback, on ports of the test's own. A harness that makes network namespaces gives each
//! process an address in one of its own.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use crate::ports::own_port;

/// See the module.
#[derive(Clone, Debug)]
pub struct Seat {
    /// Where clients are served.
    pub clients: SocketAddr,
    /// Where operators are served.
    pub admin: SocketAddr,
    /// Where a node serves its peers.
    pub peers: SocketAddr,
    /// Where a node listens to gossip.
    pub gossip: SocketAddr,
    /// A program and its first arguments, which becomes the process that is named after them; empty: the process itself.
    pub enter: Vec<OsString>,
    /// More lines for the section `cluster:` of this node, each indented by two spaces.
    pub cluster_config: String,
    /// Variables that its processes are started with.
    pub environment: Vec<(String, String)>,
}

impl Seat {
    /// On the loopback.
    ///
    /// # Panics
    /// When the test process has used up its ports.
    #[must_use]
    pub fn own() -> Self {
        Self {
            clients: own_port(),
            admin: own_port(),
            peers: own_port(),
            gossip: own_port(),
            enter: Vec::new(),
            cluster_config: String::new(),
            environment: Vec::new(),
        }
    }

    /// A command that starts a program here.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        let mut command = match self.enter.split_first() {
            None => Command::new(program),
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(program);
                command
            }
        };
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// A door in a configuration. Nothing is encrypted here: an address that isn't loopback's needs the word for it.
#[must_use]
pub(crate) fn listen(address: SocketAddr) -> String {
    let word = if address.ip().is_loopback() { "" } else { ", plaintext: true" };
    format!("listen: '{address}'{word}")
}
