//! Tokens in batches: charged when they are handed out, good for two seconds, never handed back.
//!
//! An edge that has none lets requests wait and asks for a batch, or for as many as wait, if they are more. One that is
//! refused refuses until the time it was told, as are those who asked for more than there was.

use std::collections::VecDeque;

use leasehold_limit::{Ask, Limit, RetryAfter, State};
use leasehold_model::Stamp;

use super::super::net::{EDGES, Net, Place, Policy, owner};
use super::super::traffic::Arrival;

const GOOD_FOR_NANOS: u64 = 2_000_000_000;

/// How large a batch is.
#[derive(Clone, Copy)]
pub(crate) enum Size {
    /// So many, or what is left.
    Fixed(u64),
    /// A quarter of what is left.
    Quarter,
}

/// What an edge has of a key.
#[derive(Clone, Default)]
struct Batch {
    tokens: u64,
    good_until: u64,
    refused_until: u64,
    waiting: VecDeque<Arrival>,
    /// Of those who wait, how many the ask under way is for.
    asked_for: usize,
}

pub(crate) struct Batches {
    limit: Limit,
    size: Size,
    counters: Vec<State>,
    /// By edge, then key.
    edges: Vec<Vec<Batch>>,
}

pub(crate) enum Message {
    Ask { key: usize, need: u64 },
    Batch { key: usize, tokens: u64, retry_after_nanos: u64 },
}

impl Batches {
    pub(crate) fn new(limit: Limit, keys: usize, size: Size) -> Self {
        let edges = vec![vec![Batch::default(); keys]; EDGES];
        Self { counters: vec![limit.fresh(); keys], edges, limit, size }
    }

    fn grant(&mut self, key: usize, need: u64, now: u64) -> Message {
        let (counter, at) = (&mut self.counters[key], Stamp(now));
        let left = self.limit.decide(counter, at, Ask::PEEK).remaining;
        let max = match self.size {
            Size::Fixed(size) => size,
            Size::Quarter => left / 4,
        };
        let decision = self.limit.acquire(counter, at, Ask { min: 1, max: max.max(need) });
        let retry_after_nanos = match decision.retry_after {
            Some(RetryAfter::In(wait)) => wait.0,
            Some(RetryAfter::Never) | None => 0,
        };
        Message::Batch { key, tokens: decision.granted, retry_after_nanos }
    }

    fn serve(&mut self, edge: usize, key: usize, net: &mut Net<Message>) {
        let batch = &mut self.edges[edge][key];
        while let Some(&arrival) = batch.waiting.front() {
            if batch.tokens > 0 {
                batch.tokens -= 1;
                net.spend(key, 1);
                net.admit(arrival);
            } else if batch.asked_for > 0 || net.now() < batch.refused_until {
                net.refuse(arrival);
            } else {
                batch.asked_for = batch.waiting.len();
                let need = u64::try_from(batch.asked_for).expect("few");
                net.call(Place::Edge(edge), owner(key), Message::Ask { key, need });
                return;
            }
            batch.waiting.pop_front();
            batch.asked_for = batch.asked_for.saturating_sub(1);
        }
    }
}

impl Policy for Batches {
    type Message = Message;

    fn arrive(&mut self, arrival: Arrival, net: &mut Net<Message>) {
        let batch = &mut self.edges[arrival.edge][arrival.key];
        if net.now() >= batch.good_until {
            batch.tokens = 0;
        }
        batch.waiting.push_back(arrival);
        // With others before it, it waits for the batch that they wait for.
        if batch.waiting.len() == 1 {
            self.serve(arrival.edge, arrival.key, net);
        }
    }

    fn receive(&mut self, at: Place, from: Place, message: Message, net: &mut Net<Message>) {
        match (message, at) {
            (Message::Ask { key, need }, _) => {
                let batch = self.grant(key, need, net.now());
                net.reply_committed(at, from, batch);
            }
            (Message::Batch { key, tokens, retry_after_nanos }, Place::Edge(edge)) => {
                let batch = &mut self.edges[edge][key];
                batch.tokens = tokens;
                batch.good_until = net.now() + GOOD_FOR_NANOS;
                batch.refused_until = net.now() + retry_after_nanos;
                self.serve(edge, key, net);
            }
            (Message::Batch { .. }, Place::Node(_)) => {}
        }
    }
}
