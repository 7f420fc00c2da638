//! The load of a run: checks through nodes or edges, bounded in number and time, each a line of the history.
//!
//! A check with an id is sent again under it, to the next node, until somebody answers or it is given up; what it was charged
//! then is unknown until it is asked for again, when all is calm. A check without one is sent once.

mod ask;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;

use crate::history::{Check, Event, Outcome, Resolved};
use crate::record::Record;
use crate::scenario::{Doors, LimitSpec, LoadSpec};

pub(crate) use ask::Asker;
use ask::{Reply, Request};

/// A door that hasn't answered by then is given up, and the next one asked under the same id.
const TRY_WITHIN: Duration = Duration::from_millis(700);

/// A stopped edge answers when it goes on; who waits longer has given it up.
const EDGE_WITHIN: Duration = Duration::from_secs(8);

/// A check that nobody has answered by then is given up.
const GIVE_UP_WITHIN: Duration = Duration::from_secs(3);

/// Between two tries of one check: a node that is down refuses at once.
const BETWEEN_TRIES: Duration = Duration::from_millis(20);

/// Of checks with ids that were answered, so many are asked for again at the end: a retry gets the answer that there was.
const ASKED_AGAIN_MAX: usize = 60;

/// One in so many is kept for that.
const KEPT_OF: u64 = 37;

/// Who can't be charged so often has another trouble, which looking for its leader will tell.
const BEGINNINGS_MAX: u32 = 20;

/// Checks of one run; then loads fall silent.
const CHECKS_MAX: u64 = 2_000_000;

/// A process that serves checks.
#[derive(Clone, Debug)]
pub(crate) struct Door {
    /// As histories name it.
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
}

/// Loads under way.
#[derive(Debug)]
pub(crate) struct Traffic {
    shared: Arc<Shared>,
    workers: JoinSet<()>,
}

#[derive(Debug)]
struct Shared {
    record: Record,
    nodes: Vec<Door>,
    edges: Vec<Door>,
    limits: Vec<LimitSpec>,
    stopped: AtomicBool,
    begun: AtomicU64,
    unknown: Mutex<Vec<(Request, Check)>>,
    answered: Mutex<Vec<(Request, Check)>>,
    seed: u64,
}

impl Traffic {
    /// Nobody asks yet.
    pub(crate) fn new(
        record: Record,
        nodes: Vec<Door>,
        edges: Vec<Door>,
        limits: &[LimitSpec],
        seed: u64,
    ) -> Self {
        let shared = Shared {
            record,
            nodes,
            edges,
            limits: limits.to_vec(),
            stopped: AtomicBool::new(false),
            begun: AtomicU64::new(0),
            unknown: Mutex::default(),
            answered: Mutex::default(),
            seed,
        };
        Self { shared: Arc::new(shared), workers: JoinSet::new() }
    }

    /// Asks from now on what a load says.
    pub(crate) fn start(&mut self, number: usize, load: &LoadSpec) {
        for worker in 0..load.workers {
            let work = Worker { shared: Arc::clone(&self.shared), load: load.clone(), number, worker };
            self.workers.spawn(work.run());
        }
    }

    /// Asks once for the first counter of a load, until it was charged: then somebody leads it.
    pub(crate) async fn begin(&self, load: &LoadSpec) {
        let mut worker =
            Worker { shared: Arc::clone(&self.shared), load: load.clone(), number: 0, worker: 0 };
        worker.load.ids = true;
        worker.load.doors = Doors::Nodes;
        let mut asker = Asker::default();
        for _ in 0..BEGINNINGS_MAX {
            let number = self.shared.begun.fetch_add(1, Ordering::Relaxed);
            let (request, check) = worker.decide(&mut asker, number, 0).await;
            let charged = check.outcome == Outcome::Allowed && !check.degraded;
            self.shared.note(request, check);
            if charged {
                return;
            }
        }
    }

    /// Lets no further check begin, and waits for those under way.
    pub(crate) async fn stop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        while self.workers.join_next().await.is_some() {}
    }

    /// Asks again for what has no known outcome, and for some that have one, under their ids. Returns how many of each.
    pub(crate) async fn ask_again(&self) -> (usize, usize) {
        let take =
            |list: &Mutex<Vec<_>>| std::mem::take(&mut *list.lock().unwrap_or_else(PoisonError::into_inner));
        let (unknown, mut answered) = (take(&self.shared.unknown), take(&self.shared.answered));
        answered.truncate(ASKED_AGAIN_MAX);
        let mut asker = Asker::default();
        for (turn, (request, check)) in unknown.iter().enumerate() {
            self.resolve(&mut asker, request, check, turn).await;
        }
        for (turn, (request, check)) in answered.iter().enumerate() {
            let again = self.shared.ask_nodes(&mut asker, request, check, turn).await;
            self.shared.record.write(&Event::Check(again));
        }
        (unknown.len(), answered.len())
    }

    /// What became of one check that had no answer.
    async fn resolve(&self, asker: &mut Asker, request: &Request, check: &Check, turn: usize) {
        let again = self.shared.ask_nodes(asker, request, check, turn).await;
        let charged = match again.outcome {
            Outcome::Allowed if !again.degraded => check.keys.clone(),
            Outcome::OverLimit => Vec::new(),
            // It stays unknown.
            Outcome::Allowed | Outcome::Unavailable | Outcome::Unknown => return,
        };
        let (at, id) = (self.shared.record.now_ns(), request.id.clone().unwrap_or_default());
        self.shared.record.write(&Event::Log(Resolved { at, id, charged }));
    }

    /// Looks how much is left of every counter of these limits.
    pub(crate) async fn peek(&self, loads: &[LoadSpec], limits: &[&LimitSpec]) {
        let mut asker = Asker::default();
        for limit in limits {
            let values =
                loads.iter().filter(|load| load.limits.contains(&limit.name)).map(|load| load.values).max();
            for value in 0..values.unwrap_or(0) {
                let value = format!("v{value}");
                let request =
                    Request { attributes: vec![(limit.name.clone(), value.clone())], cost: 0, id: None };
                let check =
                    Check { keys: vec![limit.key(&value)], client: "peek".to_owned(), ..Check::default() };
                let check = self.shared.ask_nodes(&mut asker, &request, &check, 0).await;
                self.shared.record.write(&Event::Check(check));
            }
        }
    }

    /// Checks that were begun so far.
    pub(crate) fn begun(&self) -> u64 {
        self.shared.begun.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn doors(&self, doors: Doors) -> &[Door] {
        match doors {
            Doors::Nodes => &self.nodes,
            Doors::Edges => &self.edges,
        }
    }

    /// Writes a check down, and keeps what has to be asked for again.
    fn note(&self, request: Request, check: Check) {
        self.record.write(&Event::Check(check.clone()));
        if request.id.is_none() {
            return;
        }
        let list = match check.outcome {
            Outcome::Unknown | Outcome::Unavailable => &self.unknown,
            Outcome::Allowed | Outcome::OverLimit => &self.answered,
        };
        let kept = self.begun.load(Ordering::Relaxed).is_multiple_of(KEPT_OF);
        if kept || matches!(check.outcome, Outcome::Unknown | Outcome::Unavailable) {
            list.lock().unwrap_or_else(PoisonError::into_inner).push((request, check));
        }
    }

    /// Asks node after node for a check of its own.
    async fn ask_nodes(&self, asker: &mut Asker, request: &Request, like: &Check, turn: usize) -> Check {
        let like = Check { client: format!("{}-again", like.client), tries: 0, ..like.clone() };
        self.ask_doors(asker, &self.nodes, request, like, turn, true).await
    }

    /// Asks one door, or one after the other while the check may be sent again.
    async fn ask_doors(
        &self,
        asker: &mut Asker,
        doors: &[Door],
        request: &Request,
        mut check: Check,
        turn: usize,
        again: bool,
    ) -> Check {
        let within = if again { TRY_WITHIN } else { EDGE_WITHIN };
        check.cost = request.cost;
        check.id = request.id.clone();
        check.invoked = self.record.now_ns();
        let give_up_at =
            check.invoked.saturating_add(u64::try_from(GIVE_UP_WITHIN.as_nanos()).unwrap_or(u64::MAX));
        loop {
            let door = &doors[(turn + usize::try_from(check.tries).unwrap_or(0)) % doors.len()];
            check.tries += 1;
            check.door.clone_from(&door.name);
            let reply = asker.ask(door.address, request, within).await;
            let decided = matches!(reply.outcome, Outcome::Allowed | Outcome::OverLimit) && !reply.degraded;
            if decided || !again || self.record.now_ns() >= give_up_at {
                return answered(check, reply, self.record.now_ns());
            }
            tokio::time::sleep(BETWEEN_TRIES).await;
        }
    }
}

/// What a reply makes of a check.
fn answered(check: Check, reply: Reply, now: u64) -> Check {
    let Reply { outcome, degraded, source, remaining, retry_after_ns } = reply;
    let returned = (outcome != Outcome::Unknown).then_some(now);
    Check { returned, outcome, degraded, source, remaining, retry_after_ns, ..check }
}

/// One of those who ask.
#[derive(Debug)]
struct Worker {
    shared: Arc<Shared>,
    load: LoadSpec,
    number: usize,
    worker: u32,
}

impl Worker {
    async fn run(self) {
        let mut asker = Asker::default();
        let between = Duration::from_secs(1) * self.load.workers / self.load.rate;
        // Not all at once.
        tokio::time::sleep(between * self.worker / self.load.workers).await;
        let mut ticks = tokio::time::interval(between);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut turn = usize::try_from(self.worker).unwrap_or(0);
        while !self.shared.stopped.load(Ordering::Relaxed) {
            ticks.tick().await;
            let number = self.shared.begun.fetch_add(1, Ordering::Relaxed);
            if number >= CHECKS_MAX {
                return;
            }
            let (request, check) = self.decide(&mut asker, number, turn).await;
            self.shared.note(request, check);
            turn += 1;
        }
    }

    async fn decide(&self, asker: &mut Asker, number: u64, turn: usize) -> (Request, Check) {
        // Values go round slower than doors, so that each value is asked for at each door.
        let doors = self.shared.doors(self.load.doors);
        let value = format!("v{}", turn / doors.len() % self.load.values);
        let limits = self.load.limits.iter();
        let specs =
            limits.clone().filter_map(|name| self.shared.limits.iter().find(|limit| limit.name == *name));
        let request = Request {
            attributes: limits.map(|name| (name.clone(), value.clone())).collect(),
            cost: self.load.cost,
            id: self.load.ids.then(|| format!("{:x}-{}-{number}", self.shared.seed, self.number)),
        };
        let check = Check {
            client: format!("load-{}-{}", self.number, self.worker),
            keys: specs.map(|limit| limit.key(&value)).collect(),
            ..Check::default()
        };
        let check = self.shared.ask_doors(asker, doors, &request, check, turn, self.load.ids).await;
        (request, check)
    }
}
