//! The owners of all keys: the ledger that lends, and beside it one that doesn't couple what it lends to what refills.

use std::collections::BTreeMap;

use leasehold_lease::{LeaseAsk, LeaseId, Leased, Ledger};
use leasehold_limit::{Ask, Limit, State};
use leasehold_model::{Key, RequestId, Stamp};

use super::super::net::{Place, REGIONS, owner};

/// Entries of a ledger: more than any run has.
const ROOM: usize = 1_000_000;

pub(crate) struct Owners {
    limit: Limit,
    counters: Vec<State>,
    lending: Lending,
    /// Answers by ask, as a majority keeps them: an ask that comes again is not carried out again.
    answered: BTreeMap<RequestId, Leased>,
}

enum Lending {
    /// One ledger a region.
    Coupled(Box<[Ledger; REGIONS]>),
    /// When each lease was granted, and what came back of it.
    Uncoupled(BTreeMap<LeaseId, (Stamp, u64)>),
}

impl Owners {
    pub(crate) fn coupled(limit: Limit, keys: usize) -> Self {
        Self::new(limit, keys, Lending::Coupled(Box::default()))
    }

    pub(crate) fn uncoupled(limit: Limit, keys: usize) -> Self {
        Self::new(limit, keys, Lending::Uncoupled(BTreeMap::new()))
    }

    fn new(limit: Limit, keys: usize, lending: Lending) -> Self {
        Self { counters: vec![limit.fresh(); keys], limit, lending, answered: BTreeMap::new() }
    }

    /// Answers an ask at `at`; says besides how many units are consumed by it now.
    pub(crate) fn ask(&mut self, id: RequestId, ask: &LeaseAsk, at: Stamp) -> (Leased, u64) {
        if let Some(&leased) = self.answered.get(&id) {
            return (leased, 0);
        }
        let key = index(ask.key);
        let counter = &mut self.counters[key];
        let leased = match (&mut self.lending, owner(key)) {
            (Lending::Coupled(ledgers), Place::Node(region)) => {
                ledgers[region].ask(&self.limit, counter, at, ask, ROOM).leased
            }
            (Lending::Uncoupled(leases), _) => lend_uncoupled(&self.limit, counter, leases, ask, at),
            (Lending::Coupled(_), Place::Edge(_)) => unreachable!("nodes own keys"),
        };
        self.answered.insert(id, leased);
        (leased, leased.sync)
    }

    /// Another leader goes on from what a majority has: the record of the ledger, and the counters.
    pub(crate) fn restart(&mut self, region: usize) {
        if let Lending::Coupled(ledgers) = &mut self.lending {
            ledgers[region] = Ledger::restore(&ledgers[region].record()).expect("its own record");
        }
    }
}

/// Charges a lease as a request is charged, and lets it refill at once.
fn lend_uncoupled(
    limit: &Limit,
    counter: &mut State,
    leases: &mut BTreeMap<LeaseId, (Stamp, u64)>,
    ask: &LeaseAsk,
    at: Stamp,
) -> Leased {
    for usage in &ask.usage {
        if let Some((granted_at, returned)) = leases.get_mut(&usage.lease) {
            limit.refund(counter, at, usage.returned_total.saturating_sub(*returned), *granted_at);
            *returned = usage.returned_total.max(*returned);
        }
    }
    let want = ask.want.max(ask.need);
    let decision = limit.acquire(counter, at, Ask { min: want.min(1), max: want });
    let sync = decision.granted.min(ask.need);
    let granted = decision.granted - sync;
    let lease = (granted > 0).then(|| LeaseId(u64::try_from(leases.len()).expect("few")));
    lease.map(|lease| leases.insert(lease, (at, 0)));
    Leased {
        lease,
        granted,
        sync,
        lifetime: ask.lifetime,
        gate: None,
        retry_after: decision.retry_after.filter(|_| sync < ask.need),
        remaining: decision.remaining,
        reset_after: decision.reset_after,
        slot: None,
        at,
    }
}

/// A key of the simulation as the ledger and the wallet have it.
pub(super) fn key(index: usize) -> Key {
    Key { high: 0, low: u64::try_from(index).expect("few keys") }
}

/// And back.
pub(super) fn index(key: Key) -> usize {
    usize::try_from(key.low).expect("made of an index")
}
