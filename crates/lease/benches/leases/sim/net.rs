//! Virtual time, and the ways between edges and nodes: 3 regions with one node and 4 edges each.
//!
//! Invariant: what happens is a function of the seed. Events of one moment happen in the order in which they were put in.
//! A node that is down hears nothing, and what it had not sent by then is never sent.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::chance::Chance;
use super::meter::Meter;
use super::traffic::Arrival;

pub(crate) const REGIONS: usize = 3;
pub(crate) const EDGES_PER_REGION: usize = 4;
pub(crate) const EDGES: usize = REGIONS * EDGES_PER_REGION;

const MICRO: u64 = 1_000;
const MILLI: u64 = 1_000_000;
/// Round trips between regions, and within one at least.
const ROUND_TRIPS: [[u64; REGIONS]; REGIONS] =
    [[MILLI, 60 * MILLI, 150 * MILLI], [60 * MILLI, MILLI, 100 * MILLI], [150 * MILLI, 100 * MILLI, MILLI]];
/// Either way takes up to so much longer.
const JITTER: u64 = 500 * MICRO;
/// A decision is on a majority's disks after so long.
const COMMIT: u64 = 2 * MILLI;
/// Asks to one peer within so long go out in one message.
const GATHERED_WITHIN: u64 = MILLI;

/// Owners that crash.
const CRASHES: u64 = 6;
const CRASH_EVERY: u64 = 2_000 * MILLI;
/// From the crash until the next leader answers.
const OUTAGE: u64 = 1_000 * MILLI;

/// Where something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// One of [`EDGES`].
    Edge(usize),
    /// A region's node: owner of a third of the keys, and broker of its region.
    Node(usize),
}

impl Place {
    const fn region(self) -> usize {
        match self {
            Self::Edge(edge) => edge / EDGES_PER_REGION,
            Self::Node(region) => region,
        }
    }
}

/// Where the counter of a key is.
pub(crate) const fn owner(key: usize) -> Place {
    // Turned against the traffic, so that a key's owner may be in any of the regions that ask for it.
    Place::Node(key / REGIONS % REGIONS)
}

/// A policy under simulation: it decides each request, by messages to and fro if it must.
pub(crate) trait Policy {
    /// What edges and nodes tell each other.
    type Message;

    /// A request comes in at its edge. Answer it, now or later, by [`Net::admit`] or [`Net::refuse`].
    fn arrive(&mut self, arrival: Arrival, net: &mut Net<Self::Message>);

    /// A message comes in.
    fn receive(&mut self, at: Place, from: Place, message: Self::Message, net: &mut Net<Self::Message>);

    /// The time that was asked for by [`Net::wake`] has come.
    fn wake(&mut self, _at: Place, _net: &mut Net<Self::Message>) {}

    /// A node comes back after a crash, with what a majority had of it.
    fn restart(&mut self, _region: usize, _net: &mut Net<Self::Message>) {}
}

enum Event<M> {
    Deliver { to: Place, from: Place, message: M },
    Wake { at: Place },
    Restart { region: usize },
}

/// The network under a policy, its clock and its meter.
pub(crate) struct Net<M> {
    now: u64,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, Event<M>>,
    next: u64,
    wakes: BTreeMap<Place, u64>,
    batches: BTreeMap<(Place, Place), u64>,
    chance: Chance,
    crashes: bool,
    /// What is measured.
    pub(crate) meter: Meter,
}

impl<M> Net<M> {
    pub(crate) fn new(meter: Meter, seed: u64, crashes: bool) -> Self {
        let mut net = Self {
            now: 0,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            next: 0,
            wakes: BTreeMap::new(),
            batches: BTreeMap::new(),
            chance: Chance::new(!seed),
            crashes,
            meter,
        };
        for crash in 0..if crashes { CRASHES } else { 0 } {
            let region = usize::try_from(crash).expect("few") % REGIONS;
            net.push(crashes_at(crash) + OUTAGE, Event::Restart { region });
        }
        net
    }

    /// Nanoseconds since the start.
    pub(crate) const fn now(&self) -> u64 {
        self.now
    }

    /// Something is asked: one call.
    pub(crate) fn call(&mut self, from: Place, to: Place, message: M) {
        let turn = self.now / GATHERED_WITHIN;
        let gathered = self.batches.insert((from, to), turn) == Some(turn);
        self.meter.called(from.region() != to.region(), gathered);
        self.send(from, to, self.now, message);
    }

    /// An answer that nothing has to be kept for.
    pub(crate) fn reply(&mut self, from: Place, to: Place, message: M) {
        self.send(from, to, self.now, message);
    }

    /// An answer that says what was decided: it leaves once that is kept.
    pub(crate) fn reply_committed(&mut self, from: Place, to: Place, message: M) {
        self.send(from, to, self.now + COMMIT, message);
    }

    /// Has [`Policy::wake`] called at `then`, or earlier if that was asked for.
    pub(crate) fn wake(&mut self, at: Place, then: u64) {
        let then = then.max(self.now + 1);
        if self.wakes.get(&at).is_none_or(|&due| due > then) {
            self.wakes.insert(at, then);
            self.push(then, Event::Wake { at });
        }
    }

    /// Lets a request pass.
    pub(crate) fn admit(&mut self, arrival: Arrival) {
        self.meter.admitted(arrival, self.now);
    }

    /// Refuses a request.
    pub(crate) fn refuse(&mut self, arrival: Arrival) {
        self.meter.refused(arrival, self.now);
    }

    /// A unit of a key is spent at this moment.
    pub(crate) fn spend(&mut self, key: usize, units: u64) {
        self.meter.spent(key, units, self.now);
    }

    fn send(&mut self, from: Place, to: Place, leaves: u64, message: M) {
        let way = ROUND_TRIPS[from.region()][to.region()] / 2 + self.chance.below(JITTER);
        if !self.is_down(from, leaves) && !self.is_down(to, leaves + way) {
            self.push(leaves + way, Event::Deliver { to, from, message });
        }
    }

    fn is_down(&self, place: Place, at: u64) -> bool {
        let Place::Node(region) = place else { return false };
        let own = |crash: &u64| usize::try_from(*crash).is_ok_and(|crash| crash % REGIONS == region);
        let down = |crash: u64| (crashes_at(crash)..crashes_at(crash) + OUTAGE).contains(&at);
        self.crashes && (0..CRASHES).filter(own).any(down)
    }

    fn push(&mut self, at: u64, event: Event<M>) {
        self.queue.push(Reverse((at, self.next)));
        self.events.insert(self.next, event);
        self.next += 1;
    }

    /// Everything that happens until `until`.
    pub(crate) fn run(&mut self, policy: &mut impl Policy<Message = M>, until: u64) {
        while let Some(&Reverse((at, id))) = self.queue.peek()
            && at <= until
        {
            self.queue.pop();
            self.now = at;
            match self.events.remove(&id).expect("each event is there until it happens") {
                Event::Deliver { to, from, message } => policy.receive(to, from, message, self),
                Event::Restart { region } => policy.restart(region, self),
                // An earlier time was asked for since; this one will be again.
                Event::Wake { at: place } if self.wakes.get(&place) != Some(&at) => {}
                Event::Wake { at: place } => {
                    self.wakes.remove(&place);
                    self.meter.woken();
                    if !self.is_down(place, at) {
                        policy.wake(place, self);
                    }
                }
            }
        }
        self.now = until;
    }
}

const fn crashes_at(crash: u64) -> u64 {
    (crash + 1) * CRASH_EVERY
}
