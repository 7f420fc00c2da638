//! Each edge has an even part of each limit for itself, whoever is asked for it.

use leasehold_limit::{Algorithm, Ask, Limit, State};
use leasehold_model::Stamp;

use super::super::net::{EDGES, Net, Place, Policy};
use super::super::traffic::Arrival;

pub(crate) struct Static {
    share: Limit,
    /// By edge, then key.
    counters: Vec<Vec<State>>,
}

/// Nothing is told.
pub(crate) enum Message {}

impl Static {
    pub(crate) fn new(limit: &Limit, keys: usize) -> Self {
        let edges = u64::try_from(EDGES).expect("few");
        let burst = limit.cap() / edges;
        // The rate is divided by a longer period, so that no part of it is rounded away.
        let period = leasehold_model::Nanos(limit.period().0 * edges);
        let share = Limit::new(Algorithm::TokenBucket { burst }, limit.n(), period).expect("valid");
        Self { counters: vec![vec![share.fresh(); keys]; EDGES], share }
    }
}

impl Policy for Static {
    type Message = Message;

    fn arrive(&mut self, arrival: Arrival, net: &mut Net<Message>) {
        let counter = &mut self.counters[arrival.edge][arrival.key];
        if self.share.acquire(counter, Stamp(net.now()), Ask::exactly(1)).allowed {
            net.spend(arrival.key, 1);
            net.admit(arrival);
        } else {
            net.refuse(arrival);
        }
    }

    fn receive(&mut self, _at: Place, _from: Place, message: Message, _net: &mut Net<Message>) {
        match message {}
    }
}
