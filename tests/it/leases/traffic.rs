//! A closed loop of checks through sidecars, each sent once and under no id, so that leases may decide it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use leasehold_tests::bound::Operation;
use leasehold_tests::{Http, Reply, Timeline};
use rand::Rng as _;
use serde_json::json;
use tokio::task::JoinSet;

/// A sidecar that is stopped answers when it goes on; who waits longer has given it up.
const ANSWER_WITHIN: Duration = Duration::from_secs(12);

/// After a sidecar that doesn't answer, so that a worker doesn't spin.
const AFTER_A_FAILURE: Duration = Duration::from_millis(50);

/// Where the sidecar of each place serves now.
#[derive(Clone, Debug, Default)]
pub(super) struct Doors(Arc<RwLock<Vec<SocketAddr>>>);

impl Doors {
    pub(super) fn new(doors: Vec<SocketAddr>) -> Self {
        Self(Arc::new(RwLock::new(doors)))
    }

    pub(super) fn set(&self, place: usize, door: SocketAddr) {
        self.0.write().unwrap_or_else(PoisonError::into_inner)[place] = door;
    }

    fn of(&self, place: usize) -> SocketAddr {
        self.0.read().unwrap_or_else(PoisonError::into_inner)[place]
    }

    fn count(&self) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// What is asked, of every sidecar alike.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traffic {
    /// The attribute that tells counters apart.
    pub(super) attribute: &'static str,
    /// So many counters, the first of them far more often than the last.
    pub(super) values: usize,
    /// Checks under way at each sidecar.
    pub(super) workers: usize,
    /// Between two checks of a worker.
    pub(super) pause: Duration,
}

/// Who decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Owner,
    Lease,
    Fallback,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Admitted(Source),
    Denied,
    /// The sidecar says that nobody could decide, or says nothing.
    Undecided,
}

/// One check.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) value: usize,
    pub(super) invoked_ns: u64,
    pub(super) returned_ns: u64,
    pub(super) fate: Fate,
}

impl Sent {
    pub(super) fn is_admitted(&self) -> bool {
        matches!(self.fate, Fate::Admitted(_))
    }

    pub(super) fn is_by(&self, source: Source) -> bool {
        self.fate == Fate::Admitted(source)
    }

    pub(super) fn operation(&self) -> Operation {
        Operation { invoked: self.invoked_ns, returned: self.returned_ns, cost: 1 }
    }
}

/// Traffic under way.
#[derive(Debug)]
pub(super) struct Running {
    stopped: Arc<AtomicBool>,
    workers: JoinSet<Vec<Sent>>,
}

impl Traffic {
    pub(super) fn start(self, doors: &Doors, clock: Timeline) -> Running {
        let stopped = Arc::new(AtomicBool::new(false));
        let mut workers = JoinSet::new();
        for worker in 0..self.workers * doors.count() {
            let place = worker % doors.count();
            workers.spawn(self.work(doors.clone(), place, clock, Arc::clone(&stopped)));
        }
        Running { stopped, workers }
    }

    async fn work(self, doors: Doors, place: usize, clock: Timeline, stopped: Arc<AtomicBool>) -> Vec<Sent> {
        let mut sent = Vec::new();
        let mut door = doors.of(place);
        let mut http = Http::new(door);
        while !stopped.load(Ordering::Relaxed) {
            if door != doors.of(place) {
                door = doors.of(place);
                http = Http::new(door);
            }
            let value = self.draw();
            let invoked_ns = clock.now_ns();
            let fate = ask(&http, self.attribute, value).await;
            sent.push(Sent { value, invoked_ns, returned_ns: clock.now_ns(), fate });
            let failed = fate == Fate::Undecided;
            tokio::time::sleep(if failed { AFTER_A_FAILURE } else { self.pause }).await;
        }
        sent
    }

    /// The cube of an even draw: of ten thousand counters the first has 5 % of all checks.
    fn draw(self) -> usize {
        let even = rand::rng().random_range(0..self.values);
        even * even / self.values * even / self.values
    }
}

impl Running {
    /// Lets no further check begin, and returns all by the moments at which they were sent.
    pub(super) async fn stop(self) -> Vec<Sent> {
        self.stopped.store(true, Ordering::Relaxed);
        let mut sent: Vec<Sent> = self.workers.join_all().await.concat();
        sent.sort_unstable_by_key(|one| one.invoked_ns);
        sent
    }
}

/// One check of one unit.
pub(super) async fn ask(http: &Http, attribute: &str, value: usize) -> Fate {
    let body = json!({ "domain": "shop", "attributes": { attribute: format!("v{value}") } }).to_string();
    let json = [("content-type", "application/json")];
    let answer = http.try_send(Method::POST, "/v1/check", &json, Bytes::from(body));
    match tokio::time::timeout(ANSWER_WITHIN, answer).await {
        Ok(Ok(reply)) => fate(&reply),
        Ok(Err(_)) | Err(_) => Fate::Undecided,
    }
}

/// # Panics
/// When the answer isn't one to a check, or was decided by nobody and admitted all the same.
fn fate(reply: &Reply) -> Fate {
    match reply.status.as_u16() {
        200 => match reply.json()["matched"][0]["source"].as_str() {
            Some("owner") => Fate::Admitted(Source::Owner),
            Some("lease") => Fate::Admitted(Source::Lease),
            Some("fallback") => Fate::Admitted(Source::Fallback),
            Some(_) | None => panic!("admitted by nobody: {}", reply.text()),
        },
        429 => Fate::Denied,
        500..600 => Fate::Undecided,
        other => panic!("a check was answered {other}: {}", reply.text()),
    }
}
