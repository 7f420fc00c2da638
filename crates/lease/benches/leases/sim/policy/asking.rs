//! Each request is decided by its key's owner.

use leasehold_limit::{Ask, Limit, State};
use leasehold_model::Stamp;

use super::super::net::{Net, Place, Policy, owner};
use super::super::traffic::Arrival;

pub(crate) struct Asking {
    limit: Limit,
    counters: Vec<State>,
}

pub(crate) enum Message {
    Ask(Arrival),
    Answer(Arrival, bool),
}

impl Asking {
    pub(crate) fn new(limit: Limit, keys: usize) -> Self {
        Self { counters: vec![limit.fresh(); keys], limit }
    }
}

impl Policy for Asking {
    type Message = Message;

    fn arrive(&mut self, arrival: Arrival, net: &mut Net<Message>) {
        net.call(Place::Edge(arrival.edge), owner(arrival.key), Message::Ask(arrival));
    }

    fn receive(&mut self, at: Place, from: Place, message: Message, net: &mut Net<Message>) {
        match message {
            Message::Ask(arrival) => {
                let counter = &mut self.counters[arrival.key];
                let decision = self.limit.acquire(counter, Stamp(net.now()), Ask::exactly(1));
                net.spend(arrival.key, decision.granted);
                net.reply_committed(at, from, Message::Answer(arrival, decision.allowed));
            }
            Message::Answer(arrival, true) => net.admit(arrival),
            Message::Answer(arrival, false) => net.refuse(arrival),
        }
    }
}
