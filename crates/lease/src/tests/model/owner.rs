//! The owner: the real ledger and the real algorithm, with the shard's line, its memory of replies, and failovers.

use std::collections::BTreeMap;
use std::hash::{Hash as _, Hasher};

use crate::{LeaseAsk, Leased, Ledger, Usage};
use leasehold_limit::{Ask, Limit, State};
use leasehold_model::{Key, Nanos, RequestId, Stamp};

use super::bugs::Bug;
use super::meter::hash_state;

/// No bound in the way.
const HELD_MAX: usize = 1_000;

#[derive(Clone, Debug)]
struct Replica {
    ledger: Ledger,
    state: State,
    replies: BTreeMap<(u128, u64), Leased>,
}

#[derive(Clone, Debug)]
pub(super) struct Owner {
    replica: Replica,
    /// The replica as it was before the last thing that it answered; only a planted bug goes back to it.
    before: Option<Box<Replica>>,
    /// By how much the line is behind true time; a failover may add to it.
    behind: i64,
    last: Stamp,
}

impl Replica {
    fn hash(&self, hash: &mut impl Hasher) {
        for lease in self.ledger.leases() {
            (lease.id, lease.edge, lease.granted, lease.spent, lease.returned).hash(hash);
            (lease.granted_at, lease.expires).hash(hash);
        }
        for holder in self.ledger.record().holders {
            (holder.edge, holder.rate, holder.until).hash(hash);
        }
        hash_state(&self.state, hash);
    }
}

impl Owner {
    pub(super) fn new(limit: &Limit) -> Self {
        let replica = Replica { ledger: Ledger::default(), state: limit.fresh(), replies: BTreeMap::new() };
        Self { replica, before: None, behind: 0, last: Stamp::ZERO }
    }

    /// The shard's line at a true time.
    pub(super) fn line(&self, now: Stamp) -> Stamp {
        let line = now.0.checked_add_signed(-self.behind).expect("far from either end");
        Stamp(line).max(self.last)
    }

    /// An ask, carried out once. Also says how many units it consumed now.
    pub(super) fn ask(
        &mut self,
        limit: &Limit,
        id: RequestId,
        ask: &LeaseAsk,
        now: Stamp,
        bug: Option<Bug>,
    ) -> (Leased, u64) {
        if bug != Some(Bug::CountersAdded)
            && let Some(&leased) = self.replica.replies.get(&(id.session, id.seq))
        {
            return (leased, 0);
        }
        let at = self.begin(now, bug);
        let mut ask = ask.clone();
        if bug == Some(Bug::CountersAdded) {
            self.add_up(&mut ask.usage);
        }
        let before = self.replica.ledger.clone();
        let expired = self.unreported(at);
        let Replica { ledger, state, replies } = &mut self.replica;
        let uncoupled = state.clone();
        let leased = ledger.ask(limit, state, at, &ask, HELD_MAX).leased;
        replies.insert((id.session, id.seq), leased);
        match bug {
            Some(Bug::CreditAtExpiry) => {
                limit.refund(state, at, expired, at);
            }
            Some(Bug::Uncoupled) => {
                // As a bucket without leases: charged when lent, refilling ever after.
                let back = before
                    .leases()
                    .map(|lease| told(&ask.usage, lease.id).1.saturating_sub(lease.returned))
                    .sum();
                *state = uncoupled;
                limit.refund(state, at, back, at);
                limit.charge(state, at, leased.granted + leased.sync);
            }
            Some(Bug::RefillCreditedFromGrant) => {
                let credit: u64 = before
                    .leases()
                    .map(|lease| {
                        let spent = told(&ask.usage, lease.id).0.saturating_sub(lease.spent);
                        spent.min(refill(limit, at.since(lease.granted_at)))
                    })
                    .sum();
                limit.refund(state, at, credit, at);
            }
            _ => {}
        }
        (leased, leased.sync)
    }

    /// One unit, asked for exactly by somebody who holds nothing. Says whether it was there.
    pub(super) fn direct(&mut self, limit: &Limit, key: Key, now: Stamp, bug: Option<Bug>) -> bool {
        let at = self.begin(now, bug);
        let expired = self.unreported(at);
        let Replica { ledger, state, .. } = &mut self.replica;
        let plain = state.clone();
        ledger.settle(key, limit, state, at);
        match bug {
            Some(Bug::CreditAtExpiry) => {
                limit.refund(state, at, expired, at);
            }
            Some(Bug::Uncoupled) => *state = plain,
            _ => {}
        }
        let mut seen = state.clone();
        let out = ledger.beside(key, limit, &mut seen, at);
        let admitted = limit.decide_beside(&seen, at, Ask::exactly(1), out).allowed;
        if admitted {
            match bug {
                Some(Bug::Uncoupled) => limit.charge(state, at, 1),
                _ => limit.charge_beside(state, at, 1, out.units()),
            }
        }
        admitted
    }

    /// Whether a unit asked for exactly would be there.
    pub(super) fn has_one(&self, limit: &Limit, key: Key, now: Stamp, bug: Option<Bug>) -> bool {
        if bug.is_some() {
            return true;
        }
        let (at, mut state) = (self.line(now), self.replica.state.clone());
        let out = self.replica.ledger.beside(key, limit, &mut state, at);
        limit.decide_beside(&state, at, Ask::PEEK, out).allowed
    }

    /// Another leader: it knows all that was answered, and its line may lag, but never leads.
    pub(super) fn fail_over(&mut self, lag: Nanos, bug: Option<Bug>) {
        let lag = i64::try_from(lag.0).expect("short");
        match bug {
            Some(Bug::ClockJumps) => self.behind -= 3 * lag,
            Some(Bug::Amnesia) => {
                if let Some(before) = self.before.take() {
                    self.replica = *before;
                }
            }
            _ => self.behind += lag,
        }
    }

    /// What it goes on from; of its replies, those to `ids`.
    pub(super) fn hash(&self, ids: impl Iterator<Item = RequestId>, hash: &mut impl Hasher) {
        (self.behind, self.last).hash(hash);
        self.replica.hash(hash);
        for id in ids {
            self.replica.replies.get(&(id.session, id.seq)).hash(hash);
        }
        if let Some(before) = &self.before {
            before.hash(hash);
        }
    }

    pub(super) fn violations(&self) -> u64 {
        self.replica.ledger.violations()
    }

    /// The stamp of a command, and the replica as it was.
    fn begin(&mut self, now: Stamp, bug: Option<Bug>) -> Stamp {
        if bug == Some(Bug::Amnesia) {
            self.before = Some(Box::new(self.replica.clone()));
        }
        self.last = self.line(now);
        self.last
    }

    /// Units of leases that end by `at` of which nobody said anything.
    fn unreported(&self, at: Stamp) -> u64 {
        let ended = self.replica.ledger.leases().filter(|lease| lease.expires <= at);
        ended.map(|lease| lease.granted - lease.spent - lease.returned).sum()
    }

    fn add_up(&self, usage: &mut [Usage]) {
        for told in usage {
            if let Some(lease) = self.replica.ledger.leases().find(|lease| lease.id == told.lease) {
                told.spent_total += lease.spent;
                told.returned_total += lease.returned;
            }
        }
    }
}

fn told(usage: &[Usage], lease: crate::LeaseId) -> (u64, u64) {
    let told = usage.iter().find(|told| told.lease == lease);
    told.map_or((0, 0), |told| (told.spent_total, told.returned_total))
}

fn refill(limit: &Limit, over: Nanos) -> u64 {
    over.0 * limit.n() / limit.period().0
}
