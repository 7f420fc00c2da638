//! Ways between places: how long a message takes, whether it comes, whether it comes twice.
//!
//! Invariant: a cut holds for what arrives while it lasts, one way; a clog holds back and loses nothing.

use std::collections::BTreeMap;

use crate::chance::Chance;
use crate::clocks::{MILLI, Time};

/// Somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Place {
    /// A node.
    Node(usize),
    /// An edge.
    Edge(usize),
    /// A client.
    Client(usize),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Node(node) => write!(f, "node {node}"),
            Self::Edge(edge) => write!(f, "edge {edge}"),
            Self::Client(client) => write!(f, "client {client}"),
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Net {
    regions: usize,
    far: Time,
    /// So many of a thousand messages get lost.
    pub(crate) lost: u64,
    /// So many of a thousand come twice.
    pub(crate) doubled: u64,
    /// A message may take up to so much longer than one that was sent after it.
    pub(crate) reordered: Time,
    /// Until when a way is cut.
    cuts: BTreeMap<(Place, Place), Time>,
    /// Until when what goes to a place waits.
    clogs: BTreeMap<Place, Time>,
    /// When the last message on a way arrives: without reordering none overtakes it.
    last: BTreeMap<(Place, Place), Time>,
}

impl Net {
    /// Regions, so far from each other.
    #[must_use]
    pub(crate) fn new(regions: usize, far: Time) -> Self {
        Self { regions, far, ..Self::default() }
    }

    /// When copies of a message sent now arrive; none: it gets lost.
    pub(crate) fn arrivals(
        &mut self,
        from: Place,
        to: Place,
        now: Time,
        chance: &mut Chance,
    ) -> [Option<Time>; 2] {
        if chance.per_mille(self.lost) {
            return [None, None];
        }
        let first = self.arrival(from, to, now, chance);
        let second = if chance.per_mille(self.doubled) { self.arrival(from, to, now, chance) } else { None };
        [first, second]
    }

    fn arrival(&mut self, from: Place, to: Place, now: Time, chance: &mut Chance) -> Option<Time> {
        let near = self.region(from) == self.region(to);
        let way = if near { MILLI / 5 } else { self.far } + chance.below(MILLI / 2);
        let mut at = now + way;
        if let Some(&until) = self.clogs.get(&to) {
            at = at.max(until);
        }
        if self.reordered > 0 {
            at += chance.below(self.reordered);
        } else {
            let last = self.last.entry((from, to)).or_default();
            at = at.max(*last + 1);
            *last = at;
        }
        let cut = self.cuts.get(&(from, to)).is_some_and(|&until| at < until || now < until);
        (!cut).then_some(at)
    }

    /// Where somebody is.
    #[must_use]
    pub(crate) fn region(&self, place: Place) -> usize {
        let (Place::Node(place) | Place::Edge(place) | Place::Client(place)) = place;
        place % self.regions.max(1)
    }

    /// Cuts a way, this way.
    pub(crate) fn cut(&mut self, from: Place, to: Place, until: Time) {
        let end = self.cuts.entry((from, to)).or_default();
        *end = (*end).max(until);
    }

    /// Ends a cut, both ways.
    pub(crate) fn join(&mut self, one: Place, other: Place) {
        self.cuts.remove(&(one, other));
        self.cuts.remove(&(other, one));
    }

    /// Holds back what goes to a place.
    pub(crate) fn clog(&mut self, to: Place, until: Time) {
        self.clogs.insert(to, until);
    }

    /// All is well from here on.
    pub(crate) fn heal(&mut self) {
        (self.lost, self.doubled, self.reordered) = (0, 0, 0);
        self.cuts.clear();
        self.clogs.clear();
    }
}
