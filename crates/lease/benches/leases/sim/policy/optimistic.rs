//! Each edge decides by a copy of the counter: the owner's, as last heard of, and what it has admitted itself since.
//! Every 100 ms it tells the owner what that was.

use leasehold_limit::{Algorithm, Limit};

use super::super::net::{EDGES, Net, Place, Policy, owner};
use super::super::traffic::Arrival;

const REPORT_EVERY_NANOS: u64 = 100_000_000;

/// A level that may be below zero: units that were admitted before anybody knew.
#[derive(Clone, Copy)]
struct Level {
    /// In units × nanoseconds of the period.
    parts: i128,
    at: u64,
}

/// What an edge knows of a key.
#[derive(Clone, Copy)]
struct Copied {
    level: Level,
    /// Admitted and not told yet.
    untold: u64,
}

pub(crate) struct Optimistic {
    limit: Limit,
    owners: Vec<Level>,
    /// By edge, then key.
    edges: Vec<Vec<Copied>>,
}

pub(crate) enum Message {
    Report { key: usize, admitted: u64 },
    Level { key: usize, parts: i128 },
}

impl Optimistic {
    pub(crate) fn new(limit: Limit, keys: usize) -> Self {
        debug_assert!(matches!(limit.algorithm(), Algorithm::TokenBucket { .. }), "levels are buckets'");
        let full = Level { parts: i128::from(limit.cap()) * i128::from(limit.period().0), at: 0 };
        let fresh = Copied { level: full, untold: 0 };
        Self { owners: vec![full; keys], edges: vec![vec![fresh; keys]; EDGES], limit }
    }

    fn units(&self, units: u64) -> i128 {
        i128::from(units) * i128::from(self.limit.period().0)
    }

    fn refilled(&self, level: Level, now: u64) -> Level {
        let refill = i128::from(now - level.at) * i128::from(self.limit.n());
        Level { parts: (level.parts + refill).min(self.units(self.limit.cap())), at: now }
    }
}

impl Policy for Optimistic {
    type Message = Message;

    fn arrive(&mut self, arrival: Arrival, net: &mut Net<Message>) {
        let Arrival { edge, key, .. } = arrival;
        let mut copy = self.edges[edge][key];
        copy.level = self.refilled(copy.level, net.now());
        if copy.level.parts >= self.units(1) {
            copy.level.parts -= self.units(1);
            copy.untold += 1;
            net.spend(key, 1);
            net.admit(arrival);
        } else {
            net.refuse(arrival);
        }
        self.edges[edge][key] = copy;
        net.wake(Place::Edge(edge), (net.now() / REPORT_EVERY_NANOS + 1) * REPORT_EVERY_NANOS);
    }

    fn receive(&mut self, at: Place, from: Place, message: Message, net: &mut Net<Message>) {
        match (message, at) {
            (Message::Report { key, admitted }, _) => {
                let mut level = self.refilled(self.owners[key], net.now());
                level.parts -= self.units(admitted);
                self.owners[key] = level;
                net.reply(at, from, Message::Level { key, parts: level.parts });
            }
            (Message::Level { key, parts }, Place::Edge(edge)) => {
                let untold = self.units(self.edges[edge][key].untold);
                self.edges[edge][key].level = Level { parts: parts - untold, at: net.now() };
            }
            (Message::Level { .. }, Place::Node(_)) => {}
        }
    }

    fn wake(&mut self, at: Place, net: &mut Net<Message>) {
        let Place::Edge(edge) = at else { return };
        for (key, copy) in self.edges[edge].iter_mut().enumerate() {
            let admitted = std::mem::take(&mut copy.untold);
            if admitted > 0 {
                net.call(at, owner(key), Message::Report { key, admitted });
            }
        }
    }
}
