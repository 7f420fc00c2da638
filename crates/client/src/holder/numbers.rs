//! Numbers for shares, for those who hold no lease that would bring one: owners give them with any answer to an ask, and
//! what is never leased, or always one of several limits, is never asked for.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_lease::{LIFETIME_DEFAULT, LeaseAsk, Leased, MilliRate};
use leasehold_model::{BootTime, Key, Nanos, RequestId, ShardId};
use leasehold_shard::Settled;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Shared, Way};
use crate::{Grant, Upstream, UpstreamAnswer, UpstreamAsk};

/// How long an answer is waited for; then the next request for the shard asks anew.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// How long until a shard without a number to give is asked again: numbers are held for long.
const REST: Nanos = Nanos::from_secs(10);

/// Asks for numbers that are under way, at most one a shard.
#[derive(Debug)]
pub(super) struct Numbers {
    session: u128,
    asks: Mutex<Asks>,
}

#[derive(Debug, Default)]
struct Asks {
    next: u64,
    under_way: BTreeMap<ShardId, Ask>,
    /// Shards that had no number to give, and when to ask again.
    resting: BTreeMap<ShardId, BootTime>,
}

#[derive(Clone, Copy, Debug)]
struct Ask {
    seq: u64,
    sent: BootTime,
}

impl Numbers {
    pub(super) fn new(session: u128) -> Self {
        Self { session, asks: Mutex::default() }
    }

    /// The id of a new ask, and what is settled; `None` while one for the shard is under way.
    fn begin(&self, shard: ShardId, now: BootTime) -> Option<(RequestId, Settled)> {
        let mut asks = self.asks.lock();
        let rests = asks.resting.get(&shard).is_some_and(|&until| now < until);
        if rests || asks.under_way.contains_key(&shard) {
            return None;
        }
        let seq = asks.next;
        asks.next += 1;
        asks.under_way.insert(shard, Ask { seq, sent: now });
        let below = asks.under_way.values().map(|ask| ask.seq).min().unwrap_or(asks.next);
        let session = self.session;
        Some((RequestId { session, seq }, Settled { session, below }))
    }

    /// The shard that an answer is of, and when it was asked.
    fn end(&self, id: RequestId) -> Option<(ShardId, BootTime)> {
        let mut asks = self.asks.lock();
        let (&shard, &Ask { sent, .. }) = asks.under_way.iter().find(|(_, ask)| ask.seq == id.seq)?;
        asks.under_way.remove(&shard);
        Some((shard, sent))
    }

    fn rest(&self, shard: ShardId, until: BootTime) {
        self.asks.lock().resting.insert(shard, until);
    }
}

impl<U: Upstream> Shared<U> {
    /// Asks the owner of a key for a number, unless this edge has one there.
    pub(super) fn keep_number(&self, key: Key, way: &Way) {
        let (shard, now) = (self.upstream.shard(key), self.clock.boot());
        if self.set_aside.is_numbered(shard, now) {
            return;
        }
        let Some((id, settled)) = self.numbers.begin(shard, now) else { return };
        let ask = LeaseAsk {
            edge: self.upstream.edge(),
            key,
            need: 0,
            want: 0,
            rate: MilliRate(0),
            lifetime: LIFETIME_DEFAULT,
            usage: Vec::new(),
        };
        let Way { spec, terms } = way.clone();
        let ask = UpstreamAsk { id, spec, terms, ask };
        self.upstream.lease(vec![ask], settled, Instant::now() + ANSWER_MAX, &self.answers);
    }

    /// Takes an answer that is one to such an ask. `false`: it isn't.
    pub(super) fn numbered(&self, answer: &UpstreamAnswer) -> bool {
        if answer.id.session != self.numbers.session {
            return false;
        }
        let Some((shard, sent)) = self.numbers.end(answer.id) else { return true };
        match answer.outcome {
            Ok(Grant { leased: Leased { slot: Some(slot), .. }, slot_parts }) => {
                self.set_aside.slot(shard, slot, slot_parts, sent);
            }
            Ok(_) => self.numbers.rest(shard, BootTime(self.clock.boot().0.saturating_add(REST.0))),
            Err(_) => {}
        }
        true
    }
}
