//! Nodes to start, kill and cut off, and a machine that remembers all it was told.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::Duration;

use bytes::{Buf, BufMut};
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::log::LogConfig;
use crate::machine::{Answer, Arrival, MachineError};
use crate::transport::{ClusterId, Identity, Plain, TransportConfig};

use super::super::*;

/// How long a test waits for what has to happen.
pub(super) const SOON: Duration = Duration::from_secs(20);

/// An entry that no machine can read.
pub(super) const UNREADABLE: Bytes = Bytes::from_static(b"unreadable");

/// Keeps every entry; answers with how many there are, as a `usize`.
#[derive(Default)]
pub(in crate::runner) struct Tape(pub(super) Vec<Bytes>);

impl Machine for Tape {
    fn apply(&mut self, entry: &[u8], _: Arrival) -> Result<Answer, MachineError> {
        if entry == UNREADABLE {
            return Err(MachineError("what language is this?".to_owned()));
        }
        self.0.push(Bytes::copy_from_slice(entry));
        Ok(Box::new(self.0.len()))
    }

    fn snapshot(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for entry in &self.0 {
            out.put_u32_le(u32::try_from(entry.len()).unwrap());
            out.put_slice(entry);
        }
        out
    }

    fn restore(&mut self, mut snapshot: &[u8]) -> Result<(), MachineError> {
        self.0.clear();
        while let Ok(len) = snapshot.try_get_u32_le() {
            self.0.push(snapshot.copy_to_bytes(len as usize));
        }
        Ok(())
    }

    fn state_hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        hasher.finish()
    }
}

pub(super) struct Node {
    pub(super) transport: Transport,
    pub(super) runner: Runner,
    pub(super) log: Log,
}

pub(super) struct Cluster {
    dirs: BTreeMap<u64, TempDir>,
    pub(super) nodes: BTreeMap<u64, Node>,
    configure: fn(&mut RunnerConfig),
    pub(super) fatal: Arc<Mutex<Vec<String>>>,
}

impl Cluster {
    /// Three nodes that know each other, with these groups, each founded by all of them.
    pub(super) async fn of_three(groups: u32, configure: fn(&mut RunnerConfig)) -> Self {
        let mut cluster =
            Self { dirs: BTreeMap::new(), nodes: BTreeMap::new(), configure, fatal: Arc::default() };
        for node in 1..=3 {
            cluster.start(node).await;
        }
        for group in (0..groups).map(GroupId) {
            let voters = [1, 2, 3].map(NodeId).into();
            for (id, node) in &cluster.nodes {
                node.runner.create_group(group, &voters).await.unwrap();
                node.runner.prefer(group, u64::from(group.0 % 3) + 1 == *id);
            }
        }
        cluster
    }

    /// Starts a node, on what it left behind if it was here before.
    pub(super) async fn start(&mut self, id: u64) {
        let dir = self.dirs.entry(id).or_insert_with(|| tempfile::tempdir().unwrap()).path().to_owned();
        let node = open(id, &dir, self.configure, &self.fatal).await;
        for (other, known) in &self.nodes {
            known.transport.set_peer(NodeId(id), &node.transport.address().to_string());
            node.transport.set_peer(NodeId(*other), &known.transport.address().to_string());
        }
        self.nodes.insert(id, node);
    }

    /// Ends a node as `kill -9` does, as far as the others can tell: its connections break at once.
    pub(super) async fn kill(&mut self, id: u64) {
        let node = self.nodes.remove(&id).unwrap();
        node.transport.shutdown();
        node.runner.shutdown().await;
        node.log.close();
    }

    /// A node that was killed finds this directory gone.
    pub(super) fn lose(&self, id: u64, directory: &str) {
        std::fs::remove_dir_all(self.dirs[&id].path().join(directory)).unwrap();
    }

    pub(super) fn runner(&self, id: u64) -> &Runner {
        &self.nodes[&id].runner
    }

    /// The node that serves a group, once there is one.
    pub(super) async fn leader(&self, group: GroupId) -> u64 {
        let mut found = 0;
        until("a leader", || {
            let leads = |(_, node): &(&u64, &Node)| node.runner.is_leader(group);
            found = self.nodes.iter().find(leads).map_or(0, |(id, _)| *id);
            found != 0
        })
        .await;
        found
    }

    /// Proposes until some leader answers; an unknown outcome counts as not answered, so the entry may be there twice.
    pub(super) async fn propose(&self, group: GroupId, entry: &str) -> usize {
        let deadline = Instant::now() + SOON;
        loop {
            let leader = self.leader(group).await;
            let entry = Bytes::copy_from_slice(entry.as_bytes());
            let within = Instant::now() + Duration::from_secs(2);
            match self.runner(leader).propose(group, entry, within).await {
                Ok(answer) => return *answer.downcast().expect("a tape's answer"),
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
        }
    }

    /// Entries that a node's machine has.
    pub(super) fn tape(&self, id: u64, group: GroupId) -> Vec<Bytes> {
        self.runner(id).with_machine(group, |tape: &Tape| tape.0.clone()).unwrap_or_default()
    }

    /// Waits until these nodes have applied the same, and checks that it makes the same state.
    pub(super) async fn agree(&self, group: GroupId, nodes: &[u64]) {
        let mut states = Vec::new();
        until("all applied the same", || {
            states = nodes.iter().map(|id| self.runner(*id).state_hash(group)).collect();
            states.iter().all(|state| state.is_some() && state.map(|s| s.0) == states[0].map(|s| s.0))
        })
        .await;
        assert!(states.iter().all(|state| *state == states[0]), "{states:?}");
    }
}

pub(super) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn open(
    id: u64,
    dir: &Path,
    configure: fn(&mut RunnerConfig),
    fatal: &Arc<Mutex<Vec<String>>>,
) -> Node {
    let identity = Some(Identity { cluster: ClusterId(1), node: NodeId(id) });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let transport =
        Transport::start(listener, TransportConfig { identity, seed: id, secure: Arc::new(Plain) }).unwrap();
    let (told, told_too) = (Arc::clone(fatal), Arc::clone(fatal));
    let log_config = LogConfig { segment_bytes: 1 << 20, ..LogConfig::default() };
    let on_disk_fatal = Arc::new(move |error: &io::Error| told_too.lock().push(error.to_string()));
    let log = Log::open(&dir.join("log"), log_config, on_disk_fatal).unwrap();
    let on_fatal: OnFatal = Arc::new(move |group, reason| told.lock().push(format!("{group}: {reason}")));
    let mut config = RunnerConfig::new(NodeId(id), dir.join("groups"), 7, on_fatal);
    configure(&mut config);
    let machines: Machines = Arc::new(|_| Box::new(Tape::default()));
    let runner = Runner::open(config, log.clone(), transport.clone(), machines).await.unwrap();
    Node { transport, runner, log }
}
