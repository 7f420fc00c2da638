//! How it stands with the node: who is there, since when nobody is, and what was counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold_model::NodeId;
use leasehold_wire::lease::Welcome;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::Address;
use crate::Away;

/// A node that can't be reached for so long is away, even while there are addresses that weren't tried yet: about the time
/// in which a healthy one takes a connection, a few times over.
const AWAY_AFTER: Duration = Duration::from_secs(1);

/// The node at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Where it was reached.
    pub address: Address,
    /// Its id.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// Its region.
    pub region: String,
    /// What both sides speak.
    pub feature_level: u32,
}

/// What a stream counted since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts<N = u64> {
    /// Connections that a node welcomed.
    pub connections: N,
    /// Attempts to connect that came to nothing.
    pub failures: N,
    /// Messages with asks.
    pub messages: N,
    /// Asks in them, those sent again included.
    pub asks: N,
    /// Answers that somebody waited for.
    pub answers: N,
    /// Asks whose deadline passed without an answer.
    pub expired: N,
    /// Rule sets that were not understood.
    pub rules_refused: N,
}

/// The same, while it is being counted.
pub(super) type Meters = Counts<AtomicU64>;

/// See the module.
#[derive(Debug)]
pub(super) struct Standing {
    addresses: u64,
    state: Mutex<State>,
    pub(super) meters: Meters,
}

#[derive(Debug)]
enum State {
    There(Arc<Peer>),
    Gone {
        since: Instant,
        /// Attempts since then.
        in_vain: u64,
        why: Arc<str>,
    },
}

impl Standing {
    pub(super) fn new(addresses: usize, now: Instant) -> Self {
        let state = State::Gone { since: now, in_vain: 0, why: "not connected yet".into() };
        let addresses = u64::try_from(addresses).unwrap_or(u64::MAX);
        Self { addresses, state: Mutex::new(state), meters: Meters::default() }
    }

    /// A node welcomed us.
    pub(super) fn there(&self, address: &Address, welcome: Welcome) {
        count(&self.meters.connections, 1);
        let Welcome { feature_level, node, node_name, region, asks_max: _ } = welcome;
        let peer = Peer { address: address.clone(), node, name: node_name, region, feature_level };
        *self.state.lock() = State::There(Arc::new(peer));
    }

    /// A connection ended, or an attempt to make one.
    pub(super) fn gone(&self, why: &str) {
        let mut state = self.state.lock();
        let next = match &*state {
            State::There(_) => State::Gone { since: Instant::now(), in_vain: 0, why: why.into() },
            State::Gone { since, in_vain, .. } => {
                count(&self.meters.failures, 1);
                State::Gone { since: *since, in_vain: in_vain.saturating_add(1), why: why.into() }
            }
        };
        *state = next;
    }

    pub(super) fn peer(&self) -> Option<Arc<Peer>> {
        match &*self.state.lock() {
            State::There(peer) => Some(Arc::clone(peer)),
            State::Gone { .. } => None,
        }
    }

    /// Every address was tried in vain, or nobody was reached for long enough.
    pub(super) fn away(&self, now: Instant) -> Option<Away> {
        match &*self.state.lock() {
            State::There(_) => None,
            State::Gone { since, in_vain, why } => {
                let is_away = *in_vain >= self.addresses || now.duration_since(*since) >= AWAY_AFTER;
                is_away.then(|| Away { since: *since, why: Arc::clone(why) })
            }
        }
    }

    pub(super) fn count_expired(&self, many: usize) {
        count(&self.meters.expired, many);
    }

    pub(super) fn counts(&self) -> Counts {
        let read = |meter: &AtomicU64| meter.load(Ordering::Relaxed);
        let meters = &self.meters;
        Counts {
            connections: read(&meters.connections),
            failures: read(&meters.failures),
            messages: read(&meters.messages),
            asks: read(&meters.asks),
            answers: read(&meters.answers),
            expired: read(&meters.expired),
            rules_refused: read(&meters.rules_refused),
        }
    }
}

pub(super) fn count(meter: &AtomicU64, many: usize) {
    meter.fetch_add(u64::try_from(many).unwrap_or(u64::MAX), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn welcome() -> Welcome {
        Welcome {
            feature_level: 1,
            node: NodeId(1),
            node_name: "n".into(),
            region: String::new(),
            asks_max: 1,
        }
    }

    #[tokio::test]
    async fn nobody_is_away_before_every_address_was_tried_or_a_second_passed() {
        let now = Instant::now();
        let standing = Standing::new(2, now);
        assert_eq!(standing.away(now), None);
        standing.gone("refused");
        assert_eq!(standing.away(now), None);
        assert!(standing.away(now + AWAY_AFTER).is_some());
        standing.gone("refused as well");
        assert_eq!(standing.away(now).map(|away| away.why), Some("refused as well".into()));
    }

    #[tokio::test]
    async fn a_lost_connection_begins_the_count_anew() {
        let standing = Standing::new(1, Instant::now());
        standing.gone("refused");
        standing.there(&Address::Tcp("a:1".into()), welcome());
        assert_eq!(standing.away(Instant::now()), None);
        assert_eq!(standing.peer().unwrap().name, "n");
        standing.gone("reset");
        assert_eq!(standing.away(Instant::now()), None);
        assert_eq!(standing.peer(), None);
        standing.gone("refused");
        assert!(standing.away(Instant::now()).is_some());
    }
}
