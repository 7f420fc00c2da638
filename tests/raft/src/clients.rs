//! Clients that ask until they are answered, each ask under one id, and what their answers must add up to.
//!
//! Invariant: an ask is repeated under its own id only; what was answered once is never forgotten here.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_consensus::types::GroupId;
use leasehold_limit::{Algorithm, Limit, Window};
use leasehold_model::{Key, Nanos, RequestId, Stamp};
use rand::Rng;
use rand::rngs::SmallRng;

use crate::node::{Asked, GROUPS, NODES, Shared, Told, WITHIN, spec};
use crate::observed::Breach;

const SECOND: u64 = 1_000_000_000;
/// Units at once, and a second, of the counters that refill.
const BURST: u64 = 20;
const RATE: u64 = 5;
/// Units of the counters that only count: no run uses them up, and their window outlasts it.
const COUNTED: u64 = 1_000_000;
/// Without a word for so long, a node is taken for gone.
const SILENCE: u64 = WITHIN.as_nanos() as u64 + SECOND / 2;

/// One ask.
#[derive(Clone, Debug)]
struct Op {
    counter: usize,
    id: RequestId,
    invoked: u64,
    /// Who was asked last, and when; none when it isn't under way.
    asked: Option<(u64, u64)>,
    /// Not before.
    again: u64,
    /// An earlier try may have been carried out.
    unknown: bool,
    done: Option<Done>,
}

#[derive(Clone, Copy, Debug)]
struct Done {
    admitted: bool,
    at: Stamp,
    returned: u64,
}

/// A counter that is asked.
#[derive(Clone, Debug)]
struct Counter {
    group: GroupId,
    key: Key,
    limit: Limit,
    refills: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Clients {
    counters: Vec<Counter>,
    ops: Vec<Op>,
    open: Vec<usize>,
    /// Asks repeated at the end, to hear the same again.
    echoes: BTreeMap<usize, Done>,
    breaches: Vec<Breach>,
}

impl Default for Clients {
    fn default() -> Self {
        let bucket = Limit::new(Algorithm::TokenBucket { burst: BURST }, RATE, Nanos(SECOND));
        let window = Limit::new(Algorithm::FixedWindow(Window::Epoch), COUNTED, Nanos(86_400 * SECOND));
        let (bucket, window) = (bucket.expect("a sound limit"), window.expect("a sound limit"));
        let mut counters = Vec::new();
        for group in GROUPS {
            for (low, limit, refills) in [(1, &bucket, true), (2, &bucket, true), (3, &window, false)] {
                let key = Key { high: u64::from(group.0) << 32, low };
                counters.push(Counter { group, key, limit: limit.clone(), refills });
            }
        }
        Self { counters, ops: Vec::new(), open: Vec::new(), echoes: BTreeMap::new(), breaches: Vec::new() }
    }
}

impl Clients {
    /// Someone wants a unit of some counter.
    pub fn begin(&mut self, at: u64, chance: &mut SmallRng) {
        let number = self.ops.len();
        let id = RequestId { session: 1, seq: number as u64 };
        let counter = chance.random_range(0..self.counters.len());
        self.ops.push(Op { counter, id, invoked: at, asked: None, again: at, unknown: false, done: None });
        self.open.push(number);
    }

    /// Reads answers and asks whom it can.
    pub fn step(&mut self, at: u64, shared: &mut Shared, chance: &mut SmallRng) {
        for (number, node, told) in std::mem::take(&mut shared.told) {
            self.hear(number, node, told, at, shared, chance);
        }
        for number in std::mem::take(&mut self.open) {
            self.ask(number, at, shared, chance);
            if self.ops[number].done.is_none() || self.echoes.contains_key(&number) {
                self.open.push(number);
            }
        }
    }

    /// Whether everything was answered.
    pub fn idle(&self) -> bool {
        self.open.is_empty()
    }

    /// How many asks there were, and how many are unanswered.
    pub fn counts(&self) -> (usize, usize) {
        (self.ops.len(), self.open.len())
    }

    /// Asks everything again under its id: the answers must be the same (P3, P4).
    pub fn echo(&mut self, at: u64) {
        for (number, op) in self.ops.iter_mut().enumerate() {
            if let Some(done) = op.done {
                (op.asked, op.again) = (None, at);
                self.echoes.insert(number, done);
                self.open.push(number);
            }
        }
    }

    /// Whether a node that dies now is being asked.
    pub fn is_asked(&self, node: u64) -> bool {
        self.open.iter().any(|number| self.ops[*number].asked.is_some_and(|(asked, _)| asked == node))
    }

    /// A node died: nothing will come from it.
    pub fn died(&mut self, node: u64, at: u64) {
        for number in &self.open {
            let op = &mut self.ops[*number];
            if op.asked.is_some_and(|(asked, _)| asked == node) {
                (op.asked, op.again, op.unknown) = (None, at, true);
            }
        }
    }

    /// Counters that only count, whose rest is wanted at the end.
    pub fn want_left(&self, shared: &mut Shared) {
        shared.left.clear();
        for counter in self.counters.iter().filter(|counter| !counter.refills) {
            shared.wanted.insert(counter.key, (counter.group, spec(counter.limit.clone())));
        }
    }

    /// Checks all answers, once everything is over.
    pub fn judge(mut self, shared: &Shared, at: u64) -> Vec<Breach> {
        for index in 0..self.counters.len() {
            if self.counters[index].refills {
                self.bounded(index, at)
            } else {
                self.counted(index, shared, at)
            }
        }
        self.breaches
    }

    fn hear(
        &mut self,
        number: usize,
        node: u64,
        told: Told,
        at: u64,
        shared: &mut Shared,
        chance: &mut SmallRng,
    ) {
        let op = &mut self.ops[number];
        let awaited = op.asked.is_some_and(|(asked, _)| asked == node);
        match told {
            Told::Decided { admitted, at: stamp, anew } => {
                shared.observed.fold(&[number as u64, u64::from(admitted), stamp.0]);
                let echo = self.echoes.remove(&number);
                let before = echo.or(op.done);
                if let Some(before) =
                    before.filter(|before| (before.admitted, before.at) != (admitted, stamp))
                {
                    let what = format!("ask {number}: first {before:?}, again {admitted} at {}", stamp.0);
                    self.breaches.push(Breach { invariant: "acked_survives", at, what });
                }
                if op.done.is_none() {
                    if op.unknown {
                        let reached = &mut shared.observed.reached;
                        let found =
                            if anew { &mut reached.unknown_absent } else { &mut reached.unknown_committed };
                        *found += 1;
                    }
                    op.done = Some(Done { admitted, at: stamp, returned: at });
                }
                op.asked = None;
            }
            Told::Elsewhere if awaited => {
                shared.observed.reached.deposed_asked +=
                    u64::from(shared.serving.values().any(|known| *known == node));
                (op.asked, op.again) = (None, at + chance.random_range(1..30) * 1_000_000);
            }
            Told::Unknown if awaited => {
                (op.asked, op.again, op.unknown) = (None, at + chance.random_range(1..30) * 1_000_000, true);
            }
            Told::Elsewhere | Told::Unknown => {}
        }
    }

    fn ask(&mut self, number: usize, at: u64, shared: &Shared, chance: &mut SmallRng) {
        let op = &mut self.ops[number];
        if op.asked.is_some_and(|(_, since)| since + SILENCE < at) {
            (op.asked, op.again, op.unknown) = (None, at, true);
        }
        if op.asked.is_some() || at < op.again || (op.done.is_some() && !self.echoes.contains_key(&number)) {
            return;
        }
        let counter = &self.counters[op.counter];
        let known = shared.serving.get(&counter.group).copied().filter(|_| chance.random_ratio(9, 10));
        let node = known.unwrap_or_else(|| NODES[chance.random_range(0..NODES.len())]);
        let asked = Asked {
            op: number,
            id: op.id,
            group: counter.group,
            key: counter.key,
            limit: counter.limit.clone(),
        };
        match shared.inboxes.get(&node).map(|inbox| inbox.send(asked)) {
            Some(Ok(())) => op.asked = Some((node, at)),
            Some(Err(_)) | None => op.again = at + chance.random_range(1..50) * 1_000_000,
        }
    }

    /// P1: in every interval what was admitted is at most burst + rate × its length. An ask counts in an interval that holds
    /// all of its time.
    fn bounded(&mut self, counter: usize, at: u64) {
        let admitted = self.ops.iter().filter(|op| op.counter == counter);
        let mut spans: Vec<(u64, u64)> = admitted
            .filter_map(|op| op.done.filter(|done| done.admitted).map(|done| (done.returned, op.invoked)))
            .collect();
        spans.sort_unstable();
        for (index, &(_, from)) in spans.iter().enumerate() {
            let mut inside = 0_u64;
            for &(until, invoked) in &spans {
                inside += u64::from(invoked >= from && until >= from);
                let length = until.saturating_sub(from);
                let most = BURST + (u128::from(RATE) * u128::from(length) / u128::from(SECOND)) as u64;
                if until >= from && inside > most {
                    let what =
                        format!("counter {counter}, span {index}: {inside} in {length} ns, at most {most}");
                    self.breaches.push(Breach { invariant: "bounded_overshoot", at, what });
                    return;
                }
            }
        }
    }

    /// P3, P4: a counter that only counts was charged for each admitted id, once (`conservation`).
    fn counted(&mut self, counter: usize, shared: &Shared, at: u64) {
        let admitted =
            self.ops.iter().filter(|op| op.counter == counter && op.done.is_some_and(|done| done.admitted));
        let (admitted, left) = (admitted.count() as u64, shared.left.get(&self.counters[counter].key));
        if left != Some(&(COUNTED - admitted)) {
            let what = format!("counter {counter}: {admitted} admitted of {COUNTED}, left {left:?}");
            self.breaches.push(Breach { invariant: "conservation", at, what });
        }
    }
}

/// How long the world waits for asks to be answered once faults are over (P5).
pub const HEALED_WITHIN: Duration = Duration::from_secs(8);
