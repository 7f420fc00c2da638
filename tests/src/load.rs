//! A load of exact checks on one counter or many, by workers that retry under the same request id on another node, and a
//! recording of what became of each.
//!
//! Bounded in count and time. What had no answer when it was given up is recorded as unknown: it may have been charged.

mod caller;
mod recording;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::task::JoinSet;

use crate::clock::Timeline;
use caller::{Answer, Caller, Check};

pub use caller::Protocol;
pub use recording::{Fate, Recorded, Recording};

/// Between two tries of one check. A node that refuses connections answers at once; this keeps a worker from spinning.
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// What to ask, how often and for how long.
#[derive(Clone, Debug)]
pub struct Load {
    /// How it is asked.
    pub protocol: Protocol,
    /// The domain.
    pub domain: String,
    /// The attribute that tells counters apart.
    pub attribute: String,
    /// Its values, in turn: one counter each.
    pub values: Vec<String>,
    /// Units a check.
    pub cost: u64,
    /// Checks under way at once.
    pub workers: usize,
    /// A worker waits this long between two checks.
    pub pause: Duration,
    /// Checks of all workers together; then it ends.
    pub checks_max: u64,
    /// Then it ends, whatever is left.
    pub within: Duration,
    /// A node that hasn't answered by then is given up, and another one asked.
    pub try_within: Duration,
    /// A check that nobody has answered by then is given up.
    pub give_up_within: Duration,
}

impl Load {
    /// Checks of one unit of one counter, over gRPC, by four workers that pause for 5 ms: some 700 a second at most.
    #[must_use]
    pub fn of(domain: &str, attribute: &str, value: &str) -> Self {
        Self {
            protocol: Protocol::Grpc,
            domain: domain.to_owned(),
            attribute: attribute.to_owned(),
            values: vec![value.to_owned()],
            cost: 1,
            workers: 4,
            pause: Duration::from_millis(5),
            checks_max: 1_000_000,
            within: Duration::from_secs(60),
            try_within: Duration::from_millis(500),
            give_up_within: Duration::from_secs(10),
        }
    }

    /// Runs until one of its bounds or [`Running::stop`]. Each check begins at the next of the nodes.
    ///
    /// # Panics
    /// When there are no values or no nodes.
    #[must_use]
    pub fn start(self, nodes: Vec<SocketAddr>, clock: Timeline) -> Running {
        assert!(!self.values.is_empty(), "a load asks for at least one value");
        let shared = Arc::new(Shared {
            nodes: RwLock::new(Vec::new()),
            checks: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            clock,
            began: clock.elapsed(),
            // Request ids of two loads on one cluster never meet.
            session: rand::random(),
            load: self,
        });
        shared.set_nodes(nodes);
        let mut workers = JoinSet::new();
        for worker in 0..shared.load.workers {
            workers.spawn(work(Arc::clone(&shared), worker));
        }
        Running { shared, workers }
    }
}

/// A load under way. Dropped, it ends without a recording.
#[derive(Debug)]
pub struct Running {
    shared: Arc<Shared>,
    workers: JoinSet<Vec<Recorded>>,
}

#[derive(Debug)]
struct Shared {
    load: Load,
    nodes: RwLock<Vec<SocketAddr>>,
    checks: AtomicU64,
    stopped: AtomicBool,
    clock: Timeline,
    began: Duration,
    session: u64,
}

impl Running {
    /// From now on these are asked.
    ///
    /// # Panics
    /// When there are none.
    pub fn set_nodes(&self, nodes: Vec<SocketAddr>) {
        self.shared.set_nodes(nodes);
    }

    /// Checks begun so far.
    #[must_use]
    pub fn begun(&self) -> u64 {
        self.shared.checks.load(Ordering::Relaxed)
    }

    /// Lets no further check begin, waits for those under way, and returns what was recorded.
    pub async fn stop(self) -> Recording {
        self.shared.stopped.store(true, Ordering::Relaxed);
        self.finish().await
    }

    /// Waits until a bound is reached, and returns what was recorded.
    ///
    /// # Panics
    /// When a worker did: a node answered what no retry can mend.
    pub async fn finish(mut self) -> Recording {
        let mut checks = Vec::new();
        while let Some(worker) = self.workers.join_next().await {
            checks.extend(worker.expect("a worker ends by itself"));
        }
        checks.sort_unstable_by_key(|check: &Recorded| check.invoked_ns);
        Recording { checks }
    }
}

impl Shared {
    fn set_nodes(&self, nodes: Vec<SocketAddr>) {
        assert!(!nodes.is_empty(), "a load asks at least one node");
        *self.nodes.write().unwrap_or_else(PoisonError::into_inner) = nodes;
    }

    fn node(&self, turn: usize) -> SocketAddr {
        let nodes = self.nodes.read().unwrap_or_else(PoisonError::into_inner);
        nodes[turn % nodes.len()]
    }

    /// The number of the next check, unless a bound is reached.
    fn next(&self) -> Option<u64> {
        if self.stopped.load(Ordering::Relaxed) || self.clock.elapsed() >= self.began + self.load.within {
            return None;
        }
        let number = self.checks.fetch_add(1, Ordering::Relaxed);
        (number < self.load.checks_max).then_some(number)
    }
}

async fn work(shared: Arc<Shared>, worker: usize) -> Vec<Recorded> {
    let load = &shared.load;
    let mut caller = Caller::new(load.protocol);
    let mut recorded = Vec::new();
    let mut turn = worker;
    while let Some(number) = shared.next() {
        let place = usize::try_from(number).unwrap_or(usize::MAX) % load.values.len();
        let check = Check {
            domain: load.domain.clone(),
            attribute: load.attribute.clone(),
            value: load.values[place].clone(),
            cost: load.cost,
            request_id: format!("{:016x}-{number}", shared.session),
        };
        recorded.push(decide(&shared, &mut caller, &check, place, &mut turn).await);
        turn += 1;
        tokio::time::sleep(load.pause).await;
    }
    recorded
}

/// Asks node after node until one has an answer that counts.
async fn decide(
    shared: &Shared,
    caller: &mut Caller,
    check: &Check,
    value: usize,
    turn: &mut usize,
) -> Recorded {
    let (load, invoked_ns) = (&shared.load, shared.clock.now_ns());
    let give_up = shared.clock.elapsed() + load.give_up_within;
    let mut tries = 0;
    let fate = loop {
        tries += 1;
        match caller.ask(shared.node(*turn), check, load.try_within).await {
            Answer::Admitted => break Fate::Admitted,
            Answer::Denied => break Fate::Denied,
            Answer::Unavailable | Answer::Failed => {}
        }
        if shared.clock.elapsed() >= give_up {
            break Fate::Unknown;
        }
        *turn += 1;
        tokio::time::sleep(BETWEEN_TRIES).await;
    };
    Recorded { value, cost: check.cost, invoked_ns, returned_ns: shared.clock.now_ns(), tries, fate }
}

#[cfg(test)]
mod tests;
