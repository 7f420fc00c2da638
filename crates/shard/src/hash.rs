//! Hashes of content: the fingerprint of a command under an id, and the hash of all state.
//!
//! Invariant: every variable-length part is preceded by its length and every variant by its number, so that different
//! contents feed different bytes; nothing depends on the platform or the compiler.

use std::hash::Hasher as _;

use leasehold_lease::Leased;
use leasehold_lease::ledger::{HolderRecord, LeaseRecord, LedgerRecord, SlotRecord, Totals};
use leasehold_limit::{Algorithm, CalendarUnit, Decision, RetryAfter, State, Window};
use leasehold_model::{Key, RequestId, Stamp};
use siphasher::sip128::{Hasher128 as _, SipHasher13};

use crate::{Acquire, LeaseCommand, LimitSpec, Refund, Refusal, Reply, Shard};

/// Feeds numbers to SipHash-1-3.
struct Feed(SipHasher13);

impl Feed {
    fn new() -> Self {
        Self(SipHasher13::new())
    }

    fn u64(&mut self, n: u64) {
        self.0.write(&n.to_le_bytes());
    }

    fn u128(&mut self, n: u128) {
        self.0.write(&n.to_le_bytes());
    }

    fn len(&mut self, n: usize) {
        self.u64(u64::try_from(n).unwrap_or(u64::MAX));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.len(bytes.len());
        self.0.write(bytes);
    }

    fn key(&mut self, key: Key) {
        self.u64(key.high);
        self.u64(key.low);
    }

    fn id(&mut self, id: RequestId) {
        self.u128(id.session);
        self.u64(id.seq);
    }
}

/// SipHash-1-3 of bytes under the zero key: tells damage from what was written, not malice.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u64 {
    let mut hasher = siphasher::sip::SipHasher13::new();
    hasher.write(bytes);
    hasher.finish()
}

/// What an acquire asks of which counters. Not its numbers, and not which demands are shadows: a retry after a change of
/// rules is still the same request, and gets the answer it had, as long as the same counters stand in it.
pub(crate) fn fingerprint_acquire(acquire: &Acquire) -> u64 {
    let mut feed = Feed::new();
    feed.u64(0);
    feed.len(acquire.demands.len());
    for demand in &acquire.demands {
        feed.key(demand.key);
        feed.u64(demand.ask.min);
        feed.u64(demand.ask.max);
    }
    feed.0.finish()
}

/// What a refund gives back to which counters.
pub(crate) fn fingerprint_refund(refund: &Refund) -> u64 {
    let mut feed = Feed::new();
    feed.u64(1);
    feed.len(refund.items.len());
    for item in &refund.items {
        feed.key(item.key);
        feed.u64(item.cost);
        feed.u64(item.charged_at.0);
    }
    feed.0.finish()
}

/// What an edge asks of which counter. Not what it tells: an ask that is sent again may tell more.
pub(crate) fn fingerprint_lease(lease: &LeaseCommand) -> u64 {
    let ask = &lease.ask;
    let mut feed = Feed::new();
    feed.u64(2);
    feed.u128(ask.edge.0);
    feed.key(ask.key);
    feed.u64(ask.need);
    feed.u64(ask.want);
    feed.0.finish()
}

/// Everything in the shard that can influence an answer, in canonical order.
pub(crate) fn state_hash(shard: &Shard) -> u128 {
    let mut feed = Feed::new();
    feed.u64(shard.last().0);
    feed.key(shard.cursor);
    let ranks = shard.limits.ranks();
    feed.len(shard.limits.len());
    for under in shard.limits.sorted() {
        feed.u64(under.carried.0);
        feed_spec(&mut feed, &under.spec);
    }
    feed.len(shard.table.len());
    for counter in shard.table.iter() {
        feed.key(counter.key);
        feed.u64(u64::from(ranks.of(counter.limit)));
        feed_state(&mut feed, counter.state.get());
    }
    feed.len(shard.replies.iter().count());
    for remembered in shard.replies.iter() {
        feed.id(remembered.id);
        feed.u64(remembered.at.0);
        feed.u64(remembered.fingerprint);
        feed.u64(remembered.tenant.0);
        feed_reply(&mut feed, &remembered.reply);
    }
    feed_ledger(&mut feed, &shard.ledger.record());
    feed.0.finish128().as_u128()
}

fn feed_spec(feed: &mut Feed, spec: &LimitSpec) {
    feed.u64(spec.tenant.0);
    feed.u64(spec.version.0);
    feed.u64(spec.since.0);
    feed.u64(spec.limit.n());
    feed.u64(spec.limit.period().0);
    match spec.limit.algorithm() {
        Algorithm::TokenBucket { burst } => [0, *burst].map(|n| feed.u64(n)),
        Algorithm::LeakyBucket { burst } => [1, *burst].map(|n| feed.u64(n)),
        Algorithm::Shaper { queue } => [2, *queue].map(|n| feed.u64(n)),
        Algorithm::FixedWindow(Window::Epoch) => [3, 0].map(|n| feed.u64(n)),
        Algorithm::FixedWindow(Window::Calendar { unit, zone }) => {
            let fed = [4, unit_number(*unit)].map(|n| feed.u64(n));
            feed.bytes(zone.name().as_bytes());
            fed
        }
        Algorithm::SlidingLog => [5, 0].map(|n| feed.u64(n)),
        Algorithm::SlidingCounter => [6, 0].map(|n| feed.u64(n)),
    };
}

const fn unit_number(unit: CalendarUnit) -> u64 {
    match unit {
        CalendarUnit::Minute => 0,
        CalendarUnit::Hour => 1,
        CalendarUnit::Day => 2,
        CalendarUnit::Week => 3,
        CalendarUnit::Month => 4,
        CalendarUnit::Year => 5,
    }
}

fn feed_state(feed: &mut Feed, state: &State) {
    match state {
        State::Bucket(bucket) => {
            feed.u64(0);
            feed.u128(bucket.used);
            feed.u64(bucket.at.0);
        }
        State::Queue(queue) => {
            feed.u64(1);
            feed.u128(queue.ahead);
            feed.u64(queue.at.0);
        }
        State::Window(window) => [2, window.start.0, window.count].into_iter().for_each(|n| feed.u64(n)),
        State::Log(log) => {
            feed.u64(3);
            feed.len(log.entries().len());
            log.entries().iter().flat_map(|&(Stamp(at), units)| [at, units]).for_each(|n| feed.u64(n));
        }
        State::Counter(counter) => {
            [4, counter.window, counter.previous, counter.current].into_iter().for_each(|n| feed.u64(n));
        }
    }
}

fn feed_ledger(feed: &mut Feed, record: &LedgerRecord) {
    feed.u64(record.next);
    let Totals { granted, spent, returned, lapsed, live, gates } = record.totals;
    [granted, spent, returned, lapsed, live].into_iter().for_each(|n| feed.u128(n));
    feed.u64(gates);
    feed.len(record.leases.len());
    for &LeaseRecord { key, id, edge, granted, spent, returned, granted_at, expires } in &record.leases {
        feed.key(key);
        feed.u128(edge.0);
        [id.0, granted, spent, returned, granted_at.0, expires.0].into_iter().for_each(|n| feed.u64(n));
    }
    feed.len(record.holders.len());
    for &HolderRecord { key, edge, rate, until } in &record.holders {
        feed.key(key);
        feed.u128(edge.0);
        [rate.0, until.0].into_iter().for_each(|n| feed.u64(n));
    }
    feed.len(record.slots.len());
    for &SlotRecord { edge, slot, until } in &record.slots {
        feed.u128(edge.0);
        [u64::from(slot), until.0].into_iter().for_each(|n| feed.u64(n));
    }
}

fn feed_reply(feed: &mut Feed, reply: &Reply) {
    match reply {
        Reply::Acquired(acquired) => {
            feed.u64(0);
            feed.u64(u64::from(acquired.admitted));
            feed.u64(acquired.at.0);
            feed.len(acquired.decisions.len());
            acquired.decisions.iter().for_each(|decision| feed_decision(feed, decision));
        }
        Reply::Refunded(units) => {
            feed.u64(1);
            feed.len(units.len());
            units.iter().for_each(|&n| feed.u64(n));
        }
        Reply::Reset(held) => [2, u64::from(*held)].into_iter().for_each(|n| feed.u64(n)),
        Reply::Refused(refusal) => {
            let (number, tenant) = match refusal {
                Refusal::KeysFull(tenant) => (3, tenant.0),
                Refusal::RepliesFull(tenant) => (4, tenant.0),
                Refusal::RequestIdReused => (5, 0),
                Refusal::Malformed => (6, 0),
            };
            [number, tenant].into_iter().for_each(|n| feed.u64(n));
        }
        Reply::Leased(leased) => feed_leased(feed, leased),
    }
}

fn feed_leased(feed: &mut Feed, leased: &Leased) {
    let [lends, lease] = optional(leased.lease.map(|lease| lease.0));
    let [gates, gate] = optional(leased.gate.map(|gate| gate.0));
    let [retry, retry_in] = retry(leased.retry_after);
    let [numbered, slot] = optional(leased.slot.map(u64::from));
    [
        7,
        lends,
        lease,
        leased.granted,
        leased.sync,
        leased.lifetime.0,
        gates,
        gate,
        retry,
        retry_in,
        leased.remaining,
        leased.reset_after.0,
        numbered,
        slot,
        leased.at.0,
    ]
    .into_iter()
    .for_each(|n| feed.u64(n));
}

fn feed_decision(feed: &mut Feed, decision: &Decision) {
    let [retry, retry_in] = retry(decision.retry_after);
    let [waits, wait] = optional(decision.wait.map(|wait| wait.0));
    [
        u64::from(decision.allowed),
        decision.granted,
        decision.remaining,
        retry,
        retry_in,
        decision.reset_after.0,
        decision.next_unit_after.0,
        waits,
        wait,
    ]
    .into_iter()
    .for_each(|n| feed.u64(n));
}

fn optional(n: Option<u64>) -> [u64; 2] {
    [u64::from(n.is_some()), n.unwrap_or(0)]
}

const fn retry(after: Option<RetryAfter>) -> [u64; 2] {
    match after {
        None => [0, 0],
        Some(RetryAfter::In(wait)) => [1, wait.0],
        Some(RetryAfter::Never) => [2, 0],
    }
}
