//! One node of a test's cluster: its addresses, its files, and its process while it runs.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::Plan;
use crate::binary::leasehold;
use crate::process::Process;
use crate::seat::{Seat, listen};

/// See the module.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) seat: Seat,
    /// What others are told of its door for peers.
    pub(super) peers_advertised: SocketAddr,
    pub(super) data: PathBuf,
    pub(super) config: PathBuf,
    pub(super) process: Option<Process>,
    /// What it printed in former lives.
    earlier: String,
}

impl Node {
    pub(super) fn new(folder: &Path, place: usize, seat: Seat) -> Self {
        let name = format!("n{place}");
        Self {
            peers_advertised: seat.peers,
            seat,
            data: folder.join(&name).join("data"),
            config: folder.join(format!("{name}.yaml")),
            process: None,
            earlier: String::new(),
            name,
        }
    }

    pub(super) fn configure(&self, plan: &Plan, folder: &Path, seeds: &str) {
        let Self { name, seat, peers_advertised, .. } = self;
        let (clients, admin, peers) = (listen(seat.clients), listen(seat.admin), listen(seat.peers));
        let (gossip, own_config) = (seat.gossip, &seat.cluster_config);
        let Plan { shards, replicas, config, cluster_config, .. } = plan;
        let (data, folder) = (self.data.display(), folder.display());
        let text = format!(
            "clients: {{ {clients} }}
admin: {{ {admin} }}
rules: '{folder}/rules.yaml'
{config}
cluster:
  name: test
  node: {name}
  data: '{data}'
  seeds: [{seeds}]
  peers: {{ {peers}, advertise: '{peers_advertised}' }}
  gossip: {{ listen: '{gossip}', key_file: '{folder}/gossip.key' }}
  shards: {shards}
  replicas: {replicas}
{cluster_config}
{own_config}
"
        );
        fs::write(&self.config, text).expect("the temporary folder can be written to");
    }

    /// # Panics
    /// When it runs already.
    pub(super) fn start(&mut self) {
        assert!(self.process.is_none(), "{} runs already", self.name);
        let mut command = self.seat.command(leasehold());
        command.args(["node", "--config"]).arg(&self.config);
        self.process = Some(Process::spawn(&self.name, &mut command));
    }

    /// # Panics
    /// When it doesn't run.
    pub(super) fn running(&mut self) -> &mut Process {
        self.process.as_mut().unwrap_or_else(|| panic!("{} doesn't run", self.name))
    }

    /// Forgets a process that has ended, but not what it printed.
    pub(super) fn end(&mut self) {
        if let Some(process) = self.process.take() {
            self.earlier.push_str(&process.printed());
            self.earlier.push_str("--- ended\n");
        }
    }

    pub(super) fn printed(&self) -> String {
        let now = self.process.as_ref().map(Process::printed).unwrap_or_default();
        format!("{}{now}", self.earlier)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // What its last process printed, that process says itself.
        if std::thread::panicking() && !self.earlier.is_empty() {
            let _ =
                writeln!(std::io::stderr(), "--- {} printed in former lives:\n{}", self.name, self.earlier);
        }
    }
}
