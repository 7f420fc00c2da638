//! A slow shard that is easy to believe, beside the real one: whole states in an ordered map, copied for every acquire,
//! no packing, no interning, no sweep; and all leases that have ended are let end before each command.

use std::collections::BTreeMap;

use leasehold_lease::Ledger;
use leasehold_limit::{Decision, State};
use proptest::prelude::*;

use super::traffic::{Rules, limits, trace};
use super::*;

#[derive(Clone)]
struct Held {
    spec: LimitSpec,
    state: State,
    /// The last change of numbers, in whole seconds rounded up.
    carried: Option<u64>,
}

struct Model {
    /// Whether a counter forgets whose numbers it had once it equals a fresh one. If not, nothing is ever forgotten.
    forgets: bool,
    last: Stamp,
    limits: Vec<LimitSpec>,
    counters: BTreeMap<Key, Held>,
    replies: BTreeMap<RequestId, (Stamp, Command, Reply)>,
    ledger: Ledger,
}

impl Model {
    fn apply(&mut self, at: Stamp, command: &Command) -> Reply {
        self.last = self.last.max(at);
        for (&key, held) in &mut self.counters {
            self.ledger.settle(key, &held.spec.limit, &mut held.state, self.last);
        }
        let (id, remembers) = match command {
            Command::Acquire(acquire) => (acquire.id, acquire.demands.iter().any(|d| d.ask.max > 0)),
            Command::Refund(refund) => {
                (Some(refund.id), refund.items.iter().any(|item| self.holds(item.key)))
            }
            Command::Reset(_) => (None, false),
            Command::Lease(lease) => (lease.id, true),
        };
        let window = Bounds::default().retry_window;
        self.replies.retain(|_, (then, _, _)| self.last.since(*then) < window);
        if let Some((_, first, reply)) = id.and_then(|id| self.replies.get(&id)) {
            let same = content(first) == content(command);
            return if same {
                reply.clone()
            } else {
                Reply::Refused(leasehold_shard::Refusal::RequestIdReused)
            };
        }
        let reply = match command {
            Command::Acquire(acquire) => Reply::Acquired(self.acquire(&acquire.demands)),
            Command::Refund(refund) => {
                Reply::Refunded(refund.items.iter().map(|item| self.refund(item)).collect())
            }
            Command::Reset(reset) => {
                let held = reset.keys.iter().map(|&key| {
                    let held = self.holds(key);
                    self.reset(key);
                    u32::from(held)
                });
                Reply::Reset(held.sum())
            }
            Command::Lease(lease) => self.lease(lease),
        };
        let took = match &reply {
            Reply::Leased(leased) => leased.granted > 0 || leased.sync > 0,
            Reply::Acquired(_) | Reply::Refunded(_) | Reply::Reset(_) | Reply::Refused(_) => true,
        };
        if let Some(id) = id.filter(|_| remembers && took) {
            self.replies.insert(id, (self.last, command.clone(), reply.clone()));
        }
        reply
    }

    fn holds(&self, key: Key) -> bool {
        let used = |held: &Held| held.spec.limit.fresh_at(&held.state) > self.last;
        self.ledger.holds(key) || self.counters.get(&key).is_some_and(used)
    }

    fn reset(&mut self, key: Key) {
        let out = self.ledger.out(key, self.last);
        match self.counters.get_mut(&key) {
            Some(held) if out.units() > 0 => held.state = held.spec.limit.fresh_beside(self.last, out),
            Some(_) | None => drop(self.counters.remove(&key)),
        }
    }

    fn lease(&mut self, lease: &LeaseCommand) -> Reply {
        let (before, at, key) = (self.counters.clone(), self.last, lease.ask.key);
        let spec = self.limits[usize::try_from(lease.limit).expect("small")].clone();
        let mut held = self.find(key, &spec, true).clone();
        let room = usize::try_from(Bounds::default().leases_max).expect("small");
        let asked = self.ledger.ask(&held.spec.limit, &mut held.state, at, &lease.ask, room);
        if asked.counter {
            self.counters.insert(key, held);
        } else {
            self.counters = before;
        }
        Reply::Leased(asked.leased)
    }

    /// The counter as an ask under `spec` finds it, put in place.
    fn find(&mut self, key: Key, spec: &LimitSpec, first: bool) -> &mut Held {
        let at = self.last;
        let out = self.ledger.out(key, at);
        let fresh = Held { spec: spec.clone(), state: spec.limit.fresh(), carried: None };
        if self.forgets && first && !self.holds(key) {
            self.counters.insert(key, fresh.clone());
        }
        let held = self.counters.entry(key).or_insert(fresh);
        if held.spec.version <= spec.version && held.spec != *spec {
            if held.spec.limit != spec.limit {
                // A second demand finds a counter that the first may have charged just now.
                let newer = first && spec.version > held.spec.version;
                let takes_hold = if newer { spec.since.min(at) } else { at };
                spec.limit.carry_over_beside(&held.spec.limit, &mut held.state, takes_hold, out);
                held.carried = Some(at.0.div_ceil(1_000_000_000));
            }
            held.spec = spec.clone();
        }
        held
    }

    fn acquire(&mut self, demands: &[Demand]) -> Acquired {
        let (before, at) = (self.counters.clone(), self.last);
        let mut decisions: Vec<Decision> = Vec::new();
        let mut taken_of = BTreeMap::new();
        for demand in demands {
            let spec = self.limits[usize::try_from(demand.limit).expect("small")].clone();
            let first = !taken_of.contains_key(&demand.key);
            let ledger = self.ledger.clone();
            let out = ledger.out(demand.key, at);
            let Held { spec, state, .. } = self.find(demand.key, &spec, first);
            let decision = spec.limit.decide_beside(state, at, demand.ask, out);
            if decision.granted > 0 {
                spec.limit.charge_beside(state, at, decision.granted, out.units());
            }
            *taken_of.entry(demand.key).or_insert(0) += u128::from(decision.granted);
            decisions.push(decision);
        }
        let admitted =
            decisions.iter().zip(demands).all(|(decision, demand)| decision.allowed || demand.shadow);
        if admitted {
            // A counter that nothing was taken from stays as it was, numbers and all.
            for (key, _) in taken_of.into_iter().filter(|&(_, taken)| taken == 0) {
                match before.get(&key) {
                    Some(held) => self.counters.insert(key, held.clone()),
                    None => self.counters.remove(&key),
                };
            }
            return Acquired { admitted, at, decisions };
        }
        for (decision, demand) in
            decisions.iter_mut().zip(demands).filter(|(decision, _)| decision.granted > 0)
        {
            self.counters.clone_from(&before);
            let spec = self.limits[usize::try_from(demand.limit).expect("small")].clone();
            let ledger = self.ledger.clone();
            let held = self.find(demand.key, &spec, true);
            let out = ledger.out(demand.key, at);
            let untouched = held.spec.limit.decide_beside(&held.state, at, Ask::PEEK, out);
            *decision = Decision { allowed: true, granted: 0, retry_after: None, wait: None, ..untouched };
        }
        self.counters = before;
        Acquired { admitted, at, decisions }
    }

    fn refund(&mut self, item: &RefundItem) -> u64 {
        let at = self.last;
        if at.since(item.charged_at) >= Bounds::default().retry_window {
            return 0;
        }
        let Some(held) = self.counters.get_mut(&item.key) else { return 0 };
        if held
            .carried
            .is_some_and(|carried| u128::from(item.charged_at.0) <= u128::from(carried) * 1_000_000_000)
        {
            return 0;
        }
        let out = self.ledger.out(item.key, at);
        held.spec.limit.refund_beside(&mut held.state, at, item.cost, item.charged_at, out)
    }
}

/// What makes two commands the same request.
fn content(command: &Command) -> (u8, Vec<(Key, u64, u64)>) {
    match command {
        Command::Acquire(acquire) => {
            (0, acquire.demands.iter().map(|d| (d.key, d.ask.min, d.ask.max)).collect())
        }
        Command::Refund(refund) => {
            (1, refund.items.iter().map(|item| (item.key, item.cost, item.charged_at.0)).collect())
        }
        Command::Reset(_) => (2, Vec::new()),
        Command::Lease(LeaseCommand { ask, .. }) => {
            let edge = Key::from_u128(ask.edge.0);
            (3, vec![(ask.key, ask.need, ask.want), (edge, 0, 0)])
        }
    }
}

fn check(forgets: bool, trace: &[(Stamp, Command)]) {
    let mut bench = Bench::new(limits());
    let mut model = Model {
        forgets,
        last: Stamp::ZERO,
        limits: limits(),
        counters: BTreeMap::new(),
        replies: BTreeMap::new(),
        ledger: Ledger::default(),
    };
    for (i, (at, command)) in trace.iter().enumerate() {
        let batch =
            Batch { limits: bench.limits.clone(), commands: vec![command.clone()], ..Batch::default() };
        let replies = bench.shard.apply(&batch, *at);
        assert_eq!(replies, [model.apply(*at, command)], "command {i} at {at}: {command:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn eviction_changes_no_answer(trace in trace(Rules::Constant, 150)) {
        check(false, &trace);
    }

    #[test]
    fn every_answer_is_the_slow_models_while_rules_change(trace in trace(Rules::Changing, 150)) {
        check(true, &trace);
    }
}
