//! What is to be done for a message of asks. Pure.
//!
//! Invariant: every ask is in exactly one piece of work or is answered at once. Asks for tokens of one shard are one piece,
//! so that they reach it in one batch; each ask for owners is its own, since each has its own deadline.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_lease::EdgeId;
use leasehold_limit::rules::Scope;
use leasehold_model::{Key, Nanos, RequestId, ShardId};
use leasehold_placement::Shards;
use leasehold_shard::{
    Acquire, Batch, Command, Demand, LeaseCommand, LimitSpec, Refund, Refusal, Reset, Settled,
};
use leasehold_wire::lease::{Answer, Ask, AskedLease, AskedLimit, Asks, Outcome, What};

use super::ChildAsk;

/// Sessions of one stream that are kept in mind: an edge has one for each part of its wallet and one more. Of further ones
/// nothing is told to owners, who then forget later.
const SESSIONS_MAX: usize = 1_024;

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// To have commands applied; `tags[i]` is asked by the i-th.
    Apply { tags: Vec<u64>, batch: Batch, within: Duration },
    /// To look what an acquire would be answered.
    Look { tag: u64, limits: Vec<LimitSpec>, acquire: Acquire, within: Duration },
    /// To lend out of what the node holds.
    Lend { tag: u64, ask: ChildAsk, within: Duration },
}

/// What the node knows beside the message.
pub(super) struct Terms<'a> {
    pub(super) edge: EdgeId,
    pub(super) shards: Option<Shards>,
    /// Whether edges may make counters fresh.
    pub(super) reset: bool,
    /// How long an ask is worth waiting for at most.
    pub(super) patience: Duration,
    /// Whether the node lends tokens of a counter itself.
    pub(super) lends: &'a dyn Fn(Key, Scope) -> bool,
}

/// What each session has settled, as far as its edge said.
#[derive(Debug, Default)]
pub(super) struct Sessions(BTreeMap<u128, u64>);

impl Sessions {
    pub(super) fn note(&mut self, settled: Settled) {
        if self.0.len() < SESSIONS_MAX || self.0.contains_key(&settled.session) {
            let below = self.0.entry(settled.session).or_default();
            *below = settled.below.max(*below);
        }
    }

    fn of(&self, session: u128) -> Option<Settled> {
        self.0.get(&session).map(|&below| Settled { session, below })
    }
}

/// The work for a message, and what is answered without any.
pub(super) fn plan(asks: Asks, sessions: &Sessions, terms: &Terms<'_>) -> (Vec<Work>, Vec<Answer>) {
    let Asks { limits, asks, settled: _ } = asks;
    let mut planning = Planning { limits: &limits, sessions, terms, leases: BTreeMap::new() };
    let (mut work, mut answers) = (Vec::new(), Vec::new());
    for ask in asks {
        let tag = ask.tag;
        match planning.one(ask) {
            Ok(alone) => work.extend(alone),
            Err(refusal) => answers.push(Answer { tag, outcome: Outcome::Refused(refusal) }),
        }
    }
    let within = terms.patience;
    let leases = planning.leases.into_values();
    work.extend(leases.map(|Group { tags, batch, .. }| Work::Apply { tags, batch, within }));
    (work, answers)
}

/// What an ask needs by itself; `None`: it goes with others.
type Planned = Result<Option<Work>, Refusal>;

struct Planning<'a> {
    limits: &'a [AskedLimit],
    sessions: &'a Sessions,
    terms: &'a Terms<'a>,
    leases: BTreeMap<ShardId, Group>,
}

/// Asks for tokens of one shard.
#[derive(Default)]
struct Group {
    tags: Vec<u64>,
    batch: Batch,
    places: BTreeMap<u32, u32>,
}

impl Planning<'_> {
    fn one(&mut self, Ask { tag, id, budget, what }: Ask) -> Planned {
        let within = self.within(budget);
        match what {
            What::Lease(lease) => self.lease(tag, id, lease, within),
            What::Acquire(demands) => {
                let (limits, demands) = self.demands(demands);
                let acquire = Acquire { id: Some(id), remember_denial: true, demands };
                self.alone(tag, id, limits, Command::Acquire(acquire), within)
            }
            What::Preview(demands) => {
                let (limits, demands) = self.demands(demands);
                let acquire = Acquire { id: None, remember_denial: false, demands };
                Ok(Some(Work::Look { tag, limits, acquire, within }))
            }
            What::Refund(items) => {
                self.alone(tag, id, Vec::new(), Command::Refund(Refund { id, items }), within)
            }
            What::Reset(keys) if self.terms.reset => {
                self.alone(tag, id, Vec::new(), Command::Reset(Reset { keys }), within)
            }
            What::Reset(_) | What::Later => Err(Refusal::Malformed),
        }
    }

    fn within(&self, budget: Option<Nanos>) -> Duration {
        let budget = budget.map_or(self.terms.patience, |budget| Duration::from_nanos(budget.0));
        budget.min(self.terms.patience)
    }

    fn lease(&mut self, tag: u64, id: RequestId, lease: AskedLease, within: Duration) -> Planned {
        let Some(AskedLimit { spec, scope }) = at(self.limits, lease.limit) else {
            return Err(Refusal::Malformed);
        };
        let (key, place) = (lease.key, lease.limit);
        let ask = lease.by(self.terms.edge);
        // Whoever asks for nothing and tells nothing is after the number that comes with the owner's answer.
        let only_number = ask.need == 0 && ask.want == 0 && ask.usage.is_empty();
        if !only_number && (self.terms.lends)(key, *scope) {
            let ask = ChildAsk { id, spec: spec.clone(), ask };
            return Ok(Some(Work::Lend { tag, ask, within }));
        }
        let shard = self.terms.shards.map_or(ShardId(0), |shards| shards.of(key));
        let group = self.leases.entry(shard).or_default();
        let limit = *group.places.entry(place).or_insert_with(|| {
            group.batch.limits.push(spec.clone());
            last(&group.batch.limits)
        });
        if let Some(settled) = self.sessions.of(id.session)
            && !group.batch.settled.contains(&settled)
        {
            group.batch.settled.push(settled);
        }
        group.tags.push(tag);
        // Usage is told in totals: it may be told twice.
        let id = (ask.need > 0 || ask.want > 0).then_some(id);
        group.batch.commands.push(Command::Lease(LeaseCommand { id, limit, ask }));
        Ok(None)
    }

    fn alone(
        &self,
        tag: u64,
        id: RequestId,
        limits: Vec<LimitSpec>,
        command: Command,
        within: Duration,
    ) -> Planned {
        let settled = self.sessions.of(id.session).into_iter().collect();
        let batch = Batch { limits, commands: vec![command], settled, ..Batch::default() };
        Ok(Some(Work::Apply { tags: vec![tag], batch, within }))
    }

    /// The demands with the limits that they refer to, and no others.
    fn demands(&self, mut demands: Vec<Demand>) -> (Vec<LimitSpec>, Vec<Demand>) {
        let mut limits = Vec::new();
        let mut places = BTreeMap::new();
        for demand in &mut demands {
            demand.limit = *places.entry(demand.limit).or_insert_with(|| {
                limits.extend(at(self.limits, demand.limit).map(|limit| limit.spec.clone()));
                last(&limits)
            });
        }
        (limits, demands)
    }
}

fn at(limits: &[AskedLimit], place: u32) -> Option<&AskedLimit> {
    limits.get(usize::try_from(place).ok()?)
}

/// The position of the last.
fn last<T>(list: &[T]) -> u32 {
    u32::try_from(list.len().saturating_sub(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
