//! Hears what really happens, and tells each invariant what it needs.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use leasehold_lease::{LeaseId, owner_lifetime};
use leasehold_limit::{Limit, State as Counter};
use leasehold_model::{Key, RequestId, Stamp};
use leasehold_shard::{Batch, Command, Reply, Shard};

use super::acked_survives::AckedSurvives;
use super::all_or_none::{AllOrNone, RETURN_SALT};
use super::bounded_overshoot::{BoundedOvershoot, Consumed};
use super::bounded_resources::BoundedResources;
use super::conservation::Conservation;
use super::epoch_monotonic::EpochMonotonic;
use super::equal_prefix_equal_hash::EqualPrefixEqualHash;
use super::heals::Heals;
use super::lease_once::{LeaseOnce, Record};
use super::one_granter::OneGranter;
use super::rules_monotonic::RulesMonotonic;
use super::stops_first::StopsFirst;
use super::{Finding, Findings};
use crate::clocks::Time;
use crate::ctx::Verdict;
use crate::log::{Body, Entry};
use crate::machine::{Machine, Replies};
use crate::plan::{Class, Plan};
use crate::reached::{Reached, State};

/// A replica applied an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Applied<'a> {
    /// Of which group.
    pub(crate) group: usize,
    /// The entry.
    pub(crate) entry: &'a Entry,
    /// What it was answered.
    pub(crate) replies: &'a Replies,
    /// The machine after it.
    pub(crate) machine: &'a Machine,
    /// Whose replica.
    pub(crate) node: usize,
    /// In which of its lives.
    pub(crate) life: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Watch {
    plan: Rc<Plan>,
    findings: Findings,
    /// States visited.
    pub(crate) reached: Reached,
    /// P2.
    pub(crate) conservation: Conservation,
    overshoot: BoundedOvershoot,
    once: LeaseOnce,
    stops: StopsFirst,
    epochs: EpochMonotonic,
    granters: OneGranter,
    equal: EqualPrefixEqualHash,
    acked: AckedSurvives,
    all: AllOrNone,
    rules: RulesMonotonic,
    resources: BoundedResources,
    /// P5.
    pub(crate) heals: Heals,
    /// The last entry that anybody applied, a group.
    newest: BTreeMap<usize, u64>,
    /// Lives of nodes.
    lives: BTreeMap<usize, u64>,
    /// Asks that somebody was told the answer of.
    told: BTreeSet<(usize, RequestId)>,
    granted_at: BTreeMap<(Key, LeaseId), Stamp>,
    /// Requests that a client gave up, and their groups.
    unknown: BTreeMap<RequestId, BTreeSet<usize>>,
    /// Sub-leases by the life of the node that lent them.
    brokers: BTreeMap<(Key, LeaseId), (usize, u64)>,
    /// Units admitted and requests, for the figures.
    pub(crate) units: u64,
}

impl Watch {
    /// Over a world.
    #[must_use]
    pub(crate) fn new(plan: Rc<Plan>) -> Self {
        let limits = first_limits(&plan);
        let broken = plan.has(Class::BrokenClocks);
        Self {
            findings: Findings::default(),
            reached: Reached::default(),
            conservation: Conservation::default(),
            overshoot: BoundedOvershoot::new(limits, broken),
            once: LeaseOnce::default(),
            stops: StopsFirst::default(),
            epochs: EpochMonotonic::default(),
            granters: OneGranter::default(),
            equal: EqualPrefixEqualHash::default(),
            acked: AckedSurvives::default(),
            all: AllOrNone::default(),
            rules: RulesMonotonic::default(),
            resources: BoundedResources,
            heals: Heals::default(),
            newest: BTreeMap::new(),
            lives: BTreeMap::new(),
            told: BTreeSet::new(),
            granted_at: BTreeMap::new(),
            unknown: BTreeMap::new(),
            brokers: BTreeMap::new(),
            units: 0,
            plan,
        }
    }

    /// What was found.
    #[must_use]
    pub(crate) fn findings(&self) -> &[Finding] {
        self.findings.all()
    }

    /// The largest overshoot, in thousandths of a limit. Known at the end.
    #[must_use]
    pub(crate) const fn overshoot_per_mille(&self) -> u64 {
        self.overshoot.per_mille
    }

    /// A node begins a life.
    pub(crate) fn born(&mut self, node: usize, life: u64) {
        self.lives.insert(node, life);
    }

    /// A replica leads.
    pub(crate) fn leads(&mut self, group: usize, term: u64, node: usize, now: Time) {
        self.granters.leads(group, term, node, now, &mut self.findings);
    }

    /// Whether a leader in that term has a successor.
    #[must_use]
    pub(crate) fn is_deposed(&self, group: usize, term: u64) -> bool {
        self.granters.newest(group) > term
    }

    /// A leader answers from its own state.
    pub(crate) fn served(&mut self, group: usize, term: u64, node: usize, now: Time) {
        self.granters.served(group, term, node, now, &mut self.findings);
    }

    /// An entry's answers go out.
    pub(crate) fn acked(&mut self, group: usize, index: u64, term: u64) {
        self.acked.acked(group, index, term);
    }

    /// A leader tells somebody the answer to an ask. It may have come with a snapshot, taken after an entry.
    pub(crate) fn telling(
        &mut self,
        (group, node): (usize, usize),
        id: RequestId,
        reply: &Reply,
        restored_at: u64,
        now: Time,
    ) {
        let record = self.once.record(group, id);
        let grants = match reply {
            Reply::Acquired(acquired) => acquired.admitted,
            Reply::Leased(leased) => leased.granted > 0 || leased.sync > 0,
            Reply::Refunded(_) | Reply::Reset(_) | Reply::Refused(_) => false,
        };
        if grants {
            let in_log = self.once.is_in_log(group, id, reply);
            self.granters.told(in_log, group, node, now, &mut self.findings);
        }
        if self.told.insert((group, id))
            && let Some(record) = record
            && self.lives.get(&record.by.0) != Some(&record.by.1)
        {
            self.reached.note(State::KilledBeforeReply);
            if restored_at >= record.index {
                self.reached.note(State::KilledBeforeReplyThenSnapshot);
            }
        }
    }

    /// A replica applied an entry.
    pub(crate) fn applied(&mut self, applied: &Applied<'_>, now: Time) {
        let Applied { group, entry, replies, machine, node, life } = *applied;
        self.acked.applied(group, entry.index, entry.term, now, &mut self.findings);
        self.equal.applied((group, entry.index, node), replies, machine, now, &mut self.findings);
        if let Some(control) = machine.control() {
            self.epochs.seen((node, life), control, now, &mut self.findings);
        }
        let newest = self.newest.entry(group).or_default();
        if entry.index <= *newest {
            return;
        }
        *newest = entry.index;
        if let (Body::Shard(batch), Replies::Shard(replies), Some(shard)) =
            (&entry.body, replies, machine.shard())
        {
            self.stops.line(group, shard.last(), entry.proposed.0);
            self.committed(group, entry, batch, replies, shard, now);
        }
    }

    /// An entry was applied for the first time anywhere: so it was, and so it stays.
    fn committed(
        &mut self,
        group: usize,
        entry: &Entry,
        batch: &Batch,
        replies: &[Reply],
        shard: &Shard,
        now: Time,
    ) {
        for settled in &batch.settled {
            self.once.settled(group, settled);
        }
        let mut touched: BTreeMap<usize, u64> = BTreeMap::new();
        for (command, reply) in batch.commands.iter().zip(replies) {
            self.carried_out(group, entry, command, reply, shard, now, &mut touched);
        }
        for (key, own) in touched {
            self.touched(key, own, entry, shard, now);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one call site; a struct of these would only rename them")]
    fn carried_out(
        &mut self,
        group: usize,
        entry: &Entry,
        command: &Command,
        reply: &Reply,
        shard: &Shard,
        now: Time,
        touched: &mut BTreeMap<usize, u64>,
    ) {
        let (index, by) = (entry.index, (entry.proposed.1, entry.proposed.2));
        let record = |at| Record { index, at, reply: reply.clone(), by };
        let window = self.plan.bounds.retry_window;
        match (command, reply) {
            (Command::Acquire(acquire), Reply::Acquired(acquired)) => {
                let Some(id) = acquire.id else { return };
                if !acquired.admitted && !acquire.remember_denial {
                    return;
                }
                if !self.once.answered((group, id), record(acquired.at), window, now, &mut self.findings) {
                    return;
                }
                for (demand, decision) in acquire.demands.iter().zip(&acquired.decisions) {
                    let Some(key) = self.plan.place_of(demand.key) else { continue };
                    let units = if acquired.admitted { decision.granted } else { 0 };
                    self.consume(key, units, entry, Some((group, id)));
                    *touched.entry(key).or_default() += units;
                }
            }
            (Command::Refund(refund), Reply::Refunded(_)) => {
                let first = self.once.record(group, refund.id).is_none();
                self.once.answered((group, refund.id), record(shard.last()), window, now, &mut self.findings);
                for item in &refund.items {
                    if let Some(key) = self.plan.place_of(item.key) {
                        touched.entry(key).or_default();
                    }
                }
                if first {
                    self.reached.note(State::ReturnedAcrossShards);
                }
            }
            (Command::Lease(lease), Reply::Leased(leased)) => {
                let Some(key) = self.plan.place_of(lease.ask.key) else { return };
                touched.entry(key).or_default();
                let Some(id) = lease.id.filter(|_| leased.granted > 0 || leased.sync > 0) else { return };
                if !self.once.answered((group, id), record(leased.at), window, now, &mut self.findings) {
                    return;
                }
                self.consume(key, leased.sync, entry, None);
                self.conservation.consumed(lease.ask.key, leased.sync);
                *touched.entry(key).or_default() += leased.sync;
                if let Some(id) = leased.lease {
                    let expires = leased.at.after(owner_lifetime(leased.lifetime));
                    self.stops.granted(group, lease.ask.key, id, expires);
                    self.conservation.lent(lease.ask.key, id, leased.granted);
                    self.granted_at.insert((lease.ask.key, id), leased.at);
                }
            }
            (command, Reply::Refused(refusal)) => {
                if matches!(refusal, leasehold_shard::Refusal::KeysFull(_)) {
                    self.reached.note(State::TenantFull);
                }
                let of_tenant = match command {
                    Command::Acquire(acquire) => {
                        acquire.demands.iter().any(|d| self.plan.place_of(d.key).is_some())
                    }
                    Command::Lease(_) => true,
                    Command::Refund(_) | Command::Reset(_) => false,
                };
                if of_tenant {
                    self.resources.refused(*refusal, crate::plan::TENANT, now, &mut self.findings);
                }
            }
            (Command::Acquire(_) | Command::Refund(_) | Command::Reset(_) | Command::Lease(_), _) => {}
        }
    }

    fn consume(&mut self, key: usize, units: u64, entry: &Entry, of: Option<(usize, RequestId)>) {
        if units > 0 {
            self.units += units;
            self.overshoot.consumed(key, Consumed { at: entry.proposed.0, units, line: entry.stamp, of });
        }
    }

    /// What an entry left of a counter; `own` are the units that it consumed itself.
    fn touched(&mut self, place: usize, own: u64, entry: &Entry, shard: &Shard, now: Time) {
        let key = self.plan.keys[place].key;
        let Some((under, state)) = shard.counter(key) else {
            return self.rules.counter(key, shard.last(), None, now, &mut self.findings);
        };
        let held = Some((under.spec.version, fresh_at(&under.spec.limit, &state)));
        self.rules.counter(key, shard.last(), held, now, &mut self.findings);
        let out = shard.leases().filter(|lease| lease.key == key);
        let out = out.fold(0, |sum, lease| sum + lease.granted - lease.spent - lease.returned);
        let limit = &under.spec.limit;
        let used = match &state {
            Counter::Bucket(bucket) => {
                let drained = u128::from(shard.last().since(bucket.at).0) * u128::from(limit.n());
                bucket.used.saturating_sub(drained).div_ceil(u128::from(limit.period().0))
            }
            Counter::Queue(_) | Counter::Window(_) | Counter::Log(_) | Counter::Counter(_) => 0,
        };
        let used = u64::try_from(used).unwrap_or(u64::MAX).saturating_sub(out).saturating_sub(own);
        let at = (entry.proposed.0, shard.last());
        if self.overshoot.touched(place, at, &under.spec.limit, out, used) {
            self.reached.note(State::LoweredBelowUsage);
        }
    }

    /// An edge spent units of a lease.
    pub(crate) fn spent(&mut self, key: Key, lease: LeaseId, units: u64, now: Time) {
        self.conservation.spent(key, lease, units, now, &mut self.findings);
        let root = self.stops.spent(key, lease, now).unwrap_or(lease);
        if self.brokers.get(&(key, lease)).is_some_and(|(node, life)| self.lives.get(node) != Some(life)) {
            self.reached.note(State::OutlivedBroker);
        }
        let line = self.granted_at.get(&(key, root)).copied().unwrap_or_default();
        let Some(place) = self.plan.place_of(key) else { return };
        self.units += units;
        self.overshoot.consumed(place, Consumed { at: now, units, line, of: None });
    }

    /// An answer of the owner's brought an edge units that were consumed there, and requests that had waited passed by them
    /// and by units of leases.
    pub(crate) fn delivered(&mut self, key: Key, consumed: u64, spent: u64, passed: u64, now: Time) {
        self.conservation.delivered(key, consumed);
        if passed > consumed + spent {
            self.findings.add("conservation", now, || {
                format!("requests for {passed} units of {key} passed by {consumed} consumed for them and {spent} of leases")
            });
        }
    }

    /// A broker consumed units out of its leases for a child.
    pub(crate) fn spent_by_broker(&mut self, key: Key, units: u64, now: Time) {
        self.conservation.consumed(key, units);
        // Of which lease isn't known, so windows can't be told; a broker's leases end with them as any other's.
        let is_bucket = self.plan.place_of(key).filter(|place| {
            let limit = &self.plan.keys[*place].limits[0];
            matches!(limit.algorithm(), leasehold_limit::Algorithm::TokenBucket { .. })
        });
        if let Some(place) = is_bucket.filter(|_| units > 0) {
            self.units += units;
            self.overshoot.consumed(place, Consumed { at: now, units, line: Stamp::ZERO, of: None });
        }
    }

    /// A broker lent a part of a lease on.
    pub(crate) fn sub_lent(&mut self, key: Key, lease: (LeaseId, Option<LeaseId>), units: u64, node: usize) {
        let (sub_lease, parent) = lease;
        self.conservation.lent(key, sub_lease, units);
        if let Some(parent) = parent {
            self.stops.sub_lent(key, sub_lease, parent);
        }
        let life = self.lives.get(&node).copied().unwrap_or(0);
        self.brokers.insert((key, sub_lease), (node, life));
    }

    /// Somebody goes by a rule set.
    pub(crate) fn adopted(
        &mut self,
        place: crate::net::Place,
        life: u64,
        version: leasehold_model::RulesVersion,
        now: Time,
    ) {
        self.rules.adopted(place, life, version, now, &mut self.findings);
    }

    /// A client has its answer.
    pub(crate) fn answered(&mut self, id: RequestId, verdict: Verdict, groups: BTreeSet<usize>, now: Time) {
        self.once.told(id, verdict, now, &mut self.findings);
        self.all.told(id, verdict, groups);
    }

    /// A client gives a request up.
    pub(crate) fn gave_up(&mut self, id: RequestId, groups: BTreeSet<usize>) {
        self.unknown.insert(id, groups);
    }

    /// What a request took somewhere is returned by nobody any more.
    pub(crate) fn lost_return(&mut self, id: RequestId) {
        self.all.lost_return(id);
    }

    /// Far more happens than there is reason for.
    pub(crate) fn found_endless(&mut self, now: Time) {
        self.findings.add("bounded_resources", now, || "events without end".to_owned());
    }

    /// Something is held, and so much may be.
    pub(crate) fn bounded(&mut self, what: &str, held: usize, most: usize, now: Time) {
        self.resources.bounded(what, held, most, now, &mut self.findings);
    }

    /// Looks at a replica.
    pub(crate) fn look(&mut self, machine: &Machine, entries: usize, now: Time) {
        if let Some(shard) = machine.shard() {
            self.conservation.look(shard, now, &mut self.findings);
            self.resources.look(shard, entries, &self.plan.bounds, now, &mut self.findings);
        }
    }

    /// The end: replicas as (group, node, applied, serves), with their machines.
    pub(crate) fn finish<'a>(
        &mut self,
        replicas: impl Iterator<Item = (usize, usize, u64, bool, &'a Machine)>,
        rule_set: usize,
        now: Time,
    ) {
        let mut reached = Vec::new();
        for (group, node, applied, serves, machine) in replicas {
            self.equal.state((group, applied, node), machine, now, &mut self.findings);
            reached.push((group, node, applied, serves));
        }
        for group in 0..=reached.iter().map(|(group, ..)| *group).max().unwrap_or(0) {
            let applied =
                reached.iter().filter(|(of, ..)| *of == group).map(|(_, _, applied, _)| *applied).max();
            self.acked.finish(group, applied.unwrap_or(0), now, &mut self.findings);
        }
        let first = first_limits(&self.plan);
        let once = &self.once;
        let came_back = |group, id: RequestId| {
            once.record(group, RequestId { session: id.session ^ RETURN_SALT, ..id }).is_some()
        };
        self.overshoot.finish(&first, came_back, &mut self.findings);
        if !self.plan.has(Class::BrokenClocks) {
            self.stops.finish(&mut self.findings);
        }
        self.conservation.finish(now, &mut self.findings);
        self.all.finish(&self.once, now, &mut self.findings);
        let n = self.plan.keys.last().map_or(0, |key| key.limits[rule_set].n());
        self.heals.finish(n, self.plan.quiet_at, &reached, now, &mut self.findings);
        for (id, groups) in &self.unknown {
            let committed = groups.iter().any(|group| self.once.record(*group, *id).is_some());
            self.reached.note(if committed { State::UnknownCommitted } else { State::UnknownAbsent });
        }
    }
}

fn first_limits(plan: &Plan) -> Vec<Limit> {
    plan.keys.iter().map(|key| key.limits[0].clone()).collect()
}

/// When a counter is fresh at the earliest: what is used beyond a lowered limit is forgiven.
fn fresh_at(limit: &Limit, state: &Counter) -> Stamp {
    match state {
        Counter::Bucket(bucket) => {
            let cap = u128::from(limit.cap()) * u128::from(limit.period().0);
            limit.fresh_at(&Counter::Bucket(leasehold_limit::BucketState {
                used: bucket.used.min(cap),
                ..*bucket
            }))
        }
        Counter::Queue(_) | Counter::Window(_) | Counter::Log(_) | Counter::Counter(_) => {
            limit.fresh_at(state)
        }
    }
}
