//! The connections between the peers of a test's cluster, through proxies that can stop passing bytes on: partitions
//! without privileges.
//!
//! Each node has a proxy in front of its door for peers, and is known by that address. Who calls is found by the
//! system's table of connections: the process whose socket has the caller's port. So each pair of nodes and direction can
//! be cut by itself. What is cut waits, as it would in retransmissions; nothing is lost, reordered or reset, until the test
//! drops what is cut.

mod origin;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::ports::own_port;

/// Bytes that a proxy takes at a time.
const CHUNK_BYTES: usize = 64 * 1_024;

/// A process may call before the test has said which node it is.
const ORIGIN_TRIES: u32 = 5;

/// Between two looks at it.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// From the first node to the second.
type Direction = (usize, usize);

/// See the module.
#[derive(Debug)]
pub struct Links {
    cut: watch::Sender<BTreeSet<Direction>>,
    /// How often cut connections were dropped.
    drops: watch::Sender<u64>,
    processes: Arc<RwLock<Vec<Option<u32>>>>,
    proxies: JoinSet<()>,
}

impl Default for Links {
    fn default() -> Self {
        Self::new()
    }
}

impl Links {
    /// No nodes yet.
    #[must_use]
    pub fn new() -> Self {
        let (cut, _) = watch::channel(BTreeSet::new());
        Self { cut, drops: watch::Sender::new(0), processes: Arc::default(), proxies: JoinSet::new() }
    }

    /// Puts a proxy in front of one more node's door; returns the address that others are to use.
    ///
    /// # Panics
    /// When the loopback has no free port.
    pub async fn add(&mut self, door: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind(own_port()).await.expect("the port is this process's own");
        let address = listener.local_addr().expect("a bound socket has an address");
        let mut processes = self.processes.write().unwrap_or_else(PoisonError::into_inner);
        processes.push(None);
        let proxy = Proxy {
            node: processes.len() - 1,
            door,
            cut: self.cut.subscribe(),
            drops: self.drops.subscribe(),
            processes: Arc::clone(&self.processes),
        };
        self.proxies.spawn(proxy.run(listener));
        address
    }

    /// Says which process a node is now.
    pub(crate) fn set_process(&self, node: usize, process: Option<u32>) {
        self.processes.write().unwrap_or_else(PoisonError::into_inner)[node] = process;
    }

    /// Starts a node's process. Nobody looks for callers meanwhile: however early it calls, it is known.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn start<T>(&self, node: usize, start: impl FnOnce() -> T, id: impl FnOnce(&T) -> u32) -> T {
        let mut processes = self.processes.write().unwrap_or_else(PoisonError::into_inner);
        let started = start();
        processes[node] = Some(id(&started));
        started
    }

    /// Nothing that `from` sends reaches `to` any more.
    pub fn cut_one_way(&self, from: usize, to: usize) {
        self.cut.send_modify(|cut| {
            cut.insert((from, to));
        });
    }

    /// Neither hears anything from the other any more.
    pub fn cut(&self, one: usize, other: usize) {
        self.cut.send_modify(|cut| cut.extend([(one, other), (other, one)]));
    }

    /// The nodes of `side` hear no others any more, and no others hear them.
    pub fn isolate(&self, side: &[usize]) {
        let nodes = self.processes.read().unwrap_or_else(PoisonError::into_inner).len();
        for one in side {
            for other in (0..nodes).filter(|other| !side.contains(other)) {
                self.cut(*one, other);
            }
        }
    }

    /// Ends every connection of which a direction is cut, with all that waits in it: that is lost. New ones are taken, and wait.
    pub fn drop_cut(&self) {
        self.drops.send_modify(|drops| *drops += 1);
    }

    /// Everybody hears everybody again.
    pub fn heal(&self) {
        self.cut.send_modify(BTreeSet::clear);
    }
}

/// In front of one node.
#[derive(Clone, Debug)]
struct Proxy {
    node: usize,
    door: SocketAddr,
    cut: watch::Receiver<BTreeSet<Direction>>,
    drops: watch::Receiver<u64>,
    processes: Arc<RwLock<Vec<Option<u32>>>>,
}

impl Proxy {
    async fn run(self, listener: TcpListener) {
        let mut connections = JoinSet::new();
        while let Ok((caller, address)) = listener.accept().await {
            connections.spawn(self.clone().connect(caller, address));
            while connections.try_join_next().is_some() {}
        }
    }

    /// Ends with either end of the connection.
    async fn connect(self, caller: TcpStream, address: SocketAddr) {
        let Ok(here) = caller.local_addr() else { return };
        let from = self.caller(address, here).await;
        let Ok(door) = TcpStream::connect(self.door).await else { return };
        // Small frames of a proxy must not wait for each other.
        if caller.set_nodelay(true).is_err() || door.set_nodelay(true).is_err() {
            return;
        }
        let (caller_reads, caller_writes) = caller.into_split();
        let (door_reads, door_writes) = door.into_split();
        let to = self.node;
        let (asks, answers) = (from.map(|from| (from, to)), from.map(|from| (to, from)));
        tokio::select! {
            () = pump(caller_reads, door_writes, asks, self.cut.clone()) => {}
            () = pump(door_reads, caller_writes, answers, self.cut.clone()) => {}
            () = dropped(asks, answers, self.drops, self.cut) => {}
        }
    }

    /// The node that calls; `None` for whoever isn't one, as the test itself.
    async fn caller(&self, from: SocketAddr, to: SocketAddr) -> Option<usize> {
        for _ in 0..ORIGIN_TRIES {
            let processes = self.processes.read().unwrap_or_else(PoisonError::into_inner).clone();
            let owner = processes.iter().position(|id| id.is_some_and(|id| origin::owns(id, from, to)));
            if owner.is_some() {
                return owner;
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
        None
    }
}

/// Waits until this connection is dropped while one of its directions is cut.
async fn dropped(
    asks: Option<Direction>,
    answers: Option<Direction>,
    mut drops: watch::Receiver<u64>,
    cut: watch::Receiver<BTreeSet<Direction>>,
) {
    // Drops from before this connection are none of its own.
    drops.mark_unchanged();
    while drops.changed().await.is_ok() {
        let cut = cut.borrow();
        if [asks, answers].into_iter().flatten().any(|direction| cut.contains(&direction)) {
            return;
        }
    }
}

/// Passes on what arrives, while its direction isn't cut.
async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    direction: Option<Direction>,
    mut cut: watch::Receiver<BTreeSet<Direction>>,
) {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let Ok(length @ 1..) = from.read(&mut chunk).await else { return };
        if let Some(direction) = direction
            && cut.wait_for(|cut| !cut.contains(&direction)).await.is_err()
        {
            return;
        }
        if to.write_all(&chunk[..length]).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
