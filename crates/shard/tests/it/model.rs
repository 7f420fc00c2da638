//! A slow shard that is easy to believe, beside the real one: whole states in an ordered map, copied for every acquire,
//! no packing, no interning, no sweep.

use std::collections::BTreeMap;

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
}

impl Model {
    fn apply(&mut self, at: Stamp, command: &Command) -> Reply {
        self.last = self.last.max(at);
        let (id, remembers) = match command {
            Command::Acquire(acquire) => (acquire.id, acquire.demands.iter().any(|d| d.ask.max > 0)),
            Command::Refund(refund) => {
                (Some(refund.id), refund.items.iter().any(|item| self.holds(item.key)))
            }
            Command::Reset(_) => (None, false),
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
                    self.counters.remove(&key);
                    u32::from(held)
                });
                Reply::Reset(held.sum())
            }
        };
        if let Some(id) = id.filter(|_| remembers) {
            self.replies.insert(id, (self.last, command.clone(), reply.clone()));
        }
        reply
    }

    fn holds(&self, key: Key) -> bool {
        self.counters.get(&key).is_some_and(|held| held.spec.limit.fresh_at(&held.state) > self.last)
    }

    /// The counter as an ask under `spec` finds it, put in place.
    fn find(&mut self, key: Key, spec: &LimitSpec, first: bool) -> &mut Held {
        let at = self.last;
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
                spec.limit.carry_over(&held.spec.limit, &mut held.state, takes_hold);
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
            let held = self.find(demand.key, &spec, first);
            let decision = held.spec.limit.acquire(&mut held.state, at, demand.ask);
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
            let held = self.find(demand.key, &spec, true);
            let untouched = held.spec.limit.decide(&held.state, at, Ask::PEEK);
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
        held.spec.limit.refund(&mut held.state, at, item.cost, item.charged_at)
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
