//! One node of a test's cluster: its addresses, its files, and its process while it runs.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Plan;
use crate::binary::leasehold;
use crate::ports::own_port;
use crate::process::Process;

/// See the module.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) clients: SocketAddr,
    pub(super) admin: SocketAddr,
    pub(super) peers: SocketAddr,
    /// What others are told of it.
    pub(super) peers_advertised: SocketAddr,
    pub(super) gossip: SocketAddr,
    pub(super) data: PathBuf,
    pub(super) config: PathBuf,
    pub(super) process: Option<Process>,
    /// Variables that its processes are started with.
    pub(super) environment: Vec<(String, String)>,
    /// What it printed in former lives.
    earlier: String,
}

impl Node {
    pub(super) fn new(folder: &Path, place: usize) -> Self {
        let name = format!("n{place}");
        let peers = own_port();
        Self {
            clients: own_port(),
            admin: own_port(),
            peers,
            peers_advertised: peers,
            gossip: own_port(),
            data: folder.join(&name).join("data"),
            config: folder.join(format!("{name}.yaml")),
            process: None,
            environment: Vec::new(),
            earlier: String::new(),
            name,
        }
    }

    pub(super) fn configure(&self, plan: &Plan, folder: &Path, seeds: &str) {
        let Self { name, clients, admin, peers, peers_advertised, gossip, .. } = self;
        let Plan { shards, replicas, config, cluster_config, .. } = plan;
        let (data, folder) = (self.data.display(), folder.display());
        let text = format!(
            "clients: {{ listen: '{clients}' }}
admin: {{ listen: '{admin}' }}
rules: '{folder}/rules.yaml'
{config}
cluster:
  name: test
  node: {name}
  data: '{data}'
  seeds: [{seeds}]
  peers: {{ listen: '{peers}', advertise: '{peers_advertised}' }}
  gossip: {{ listen: '{gossip}', key_file: '{folder}/gossip.key' }}
  shards: {shards}
  replicas: {replicas}
{cluster_config}
"
        );
        fs::write(&self.config, text).expect("the temporary folder can be written to");
    }

    /// # Panics
    /// When it runs already.
    pub(super) fn start(&mut self) {
        assert!(self.process.is_none(), "{} runs already", self.name);
        let mut command = Command::new(leasehold());
        command.args(["node", "--config"]).arg(&self.config);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
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
