//! No interval admits more than its limit, whatever edges do with their leases and whenever they say so.
//!
//! The meter counts units as they are spent: by edges, up to the last nanosecond before the owner counts their leases as
//! over, and at the owner. Words of edges get lost, come twice, late and in any order; replies get lost; limits change.
//! Beside the owner runs another that lets leases end at once and is restored from its record before each step: it must
//! answer the same.

use leasehold_lease::{
    EdgeId, LeaseAsk, LeaseId, Leased, Ledger, MilliRate, Usage, edge_lifetime, owner_lifetime,
};
use leasehold_limit::{Algorithm, Ask, Decision, Limit, State, Window};
use leasehold_model::{Key, Nanos, Stamp};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

const KEY: Key = Key { high: 1, low: 2 };
const PERIOD: Nanos = Nanos::from_secs(10);
const EDGES: usize = 3;
const ROOM: usize = 1_000;

#[derive(Clone, Debug)]
enum Step {
    /// An edge asks; `tells` says how, and whether its reply gets lost.
    Ask { edge: usize, need: u64, want: u64, lifetime: Nanos, tells: Tells, lost: bool },
    /// An edge spends of what it holds.
    Spend { edge: usize, units: u64 },
    /// An edge lowers what it holds, to give it back with its next word.
    Lower { edge: usize, units: u64 },
    /// Somebody asks the owner.
    Acquire(u64),
    /// Of the last charges of that kind one comes back in part.
    Refund { which: usize, units: u64 },
    /// Other numbers.
    Change(u64),
}

/// What an edge says of its leases.
#[derive(Clone, Copy, Debug)]
enum Tells {
    Nothing,
    Everything,
    /// What it said so many words ago, again.
    Old(usize),
}

#[derive(Clone, Debug)]
struct Held {
    usage: Usage,
    left: u64,
    /// The first stamp at which the edge must not spend it.
    over: Stamp,
}

/// One owner: a counter and its ledger.
struct Owner {
    state: State,
    ledger: Ledger,
}

struct World {
    limit: Limit,
    limits: Vec<Limit>,
    at: Stamp,
    lazy: Owner,
    eager: Owner,
    edges: [Vec<Held>; EDGES],
    said: Vec<(usize, Vec<Usage>)>,
    /// Units by when they were spent; a refund lowers them.
    meter: Vec<(Stamp, u64)>,
    /// Places in the meter of charges since the last change.
    charges: Vec<usize>,
}

impl Owner {
    fn decide(&mut self, limit: &Limit, at: Stamp, ask: Ask) -> Decision {
        self.ledger.settle(KEY, limit, &mut self.state, at);
        let out = self.ledger.out(KEY, at);
        let decision = limit.decide_beside(&self.state, at, ask, out);
        if decision.granted > 0 {
            limit.charge_beside(&mut self.state, at, decision.granted, out.units());
        }
        decision
    }

    fn refund(&mut self, limit: &Limit, at: Stamp, units: u64, charged_at: Stamp) -> u64 {
        self.ledger.settle(KEY, limit, &mut self.state, at);
        limit.refund_beside(&mut self.state, at, units, charged_at, self.ledger.out(KEY, at))
    }

    fn change(&mut self, old: &Limit, new: &Limit, at: Stamp) {
        self.ledger.settle(KEY, old, &mut self.state, at);
        new.carry_over_beside(old, &mut self.state, at, self.ledger.out(KEY, at));
    }

    /// Lets every lease end that has, at its own end, and comes back from its record.
    fn hurry(&mut self, limit: &Limit, at: Stamp) {
        while let Some(ended) = self.ledger.leases().map(|lease| lease.expires).min().filter(|end| *end <= at)
        {
            self.ledger.settle(KEY, limit, &mut self.state, ended);
        }
        self.ledger = Ledger::restore(&self.ledger.record()).expect("its own record");
    }
}

impl World {
    fn new(algorithm: Algorithm) -> Self {
        let limit = limit(algorithm, 10);
        let owner = || Owner { state: limit.fresh(), ledger: Ledger::default() };
        Self {
            limits: vec![limit.clone()],
            at: Stamp(1_000_000_000_000),
            lazy: owner(),
            eager: owner(),
            limit,
            edges: Default::default(),
            said: Vec::new(),
            meter: Vec::new(),
            charges: Vec::new(),
        }
    }

    fn step(&mut self, step: &Step) {
        self.eager.hurry(&self.limit, self.at);
        match *step {
            Step::Ask { edge, need, want, lifetime, tells, lost } => {
                let ask = self.word(edge, need, need.saturating_add(want), lifetime, tells);
                self.ask(edge, &ask, lost);
            }
            Step::Spend { edge, units } => self.spend(edge, units),
            Step::Lower { edge, mut units } => {
                for held in self.edges[edge].iter_mut().rev().filter(|held| self.at < held.over) {
                    let lowered = units.min(held.left);
                    held.left -= lowered;
                    held.usage.returned_total += lowered;
                    units -= lowered;
                }
            }
            Step::Acquire(cost) => {
                let decision = self.lazy.decide(&self.limit, self.at, Ask::exactly(cost));
                assert_eq!(decision, self.eager.decide(&self.limit, self.at, Ask::exactly(cost)));
                if decision.granted > 0 {
                    self.charges.push(self.meter.len());
                    self.meter.push((self.at, decision.granted));
                }
            }
            Step::Refund { which, units } => self.refund(which, units),
            Step::Change(n) => {
                let new = limit(self.limit.algorithm().clone(), n);
                self.lazy.change(&self.limit, &new, self.at);
                self.eager.change(&self.limit, &new, self.at);
                self.limit = new.clone();
                self.limits.push(new);
                self.charges.clear();
            }
        }
    }

    fn word(&mut self, edge: usize, need: u64, want: u64, lifetime: Nanos, tells: Tells) -> LeaseAsk {
        let now: Vec<Usage> = self.edges[edge].iter().map(|held| held.usage).collect();
        let (edge, usage) = match tells {
            Tells::Nothing => (edge, Vec::new()),
            Tells::Everything => (edge, now),
            Tells::Old(ago) => match self.said.len().checked_sub(ago + 1) {
                Some(at) => self.said[at].clone(),
                None => (edge, Vec::new()),
            },
        };
        self.said.push((edge, usage.clone()));
        let (edge, rate) = (EdgeId(u128::try_from(edge).expect("small")), MilliRate(want * 500));
        LeaseAsk { edge, key: KEY, need, want, rate, lifetime, usage }
    }

    fn ask(&mut self, edge: usize, ask: &LeaseAsk, lost: bool) {
        let leased = self.lazy.ledger.ask(&self.limit, &mut self.lazy.state, self.at, ask, ROOM).leased;
        let same = self.eager.ledger.ask(&self.limit, &mut self.eager.state, self.at, ask, ROOM).leased;
        assert_eq!(leased, same);
        // Requests waited for them, whether they were told or not.
        self.meter.push((self.at, leased.sync));
        let Leased { lease: Some(lease), granted, lifetime, .. } = leased else { return };
        // An old word may have been another edge's; it has no lease of it then.
        let own = ask.edge == EdgeId(u128::try_from(edge).expect("small"));
        if !lost && own {
            assert!(edge_lifetime(lifetime) < owner_lifetime(lifetime));
            let usage = Usage { lease, spent_total: 0, returned_total: 0 };
            self.edges[edge].push(Held {
                usage,
                left: granted,
                over: self.at.after(owner_lifetime(lifetime)),
            });
        }
    }

    fn spend(&mut self, edge: usize, mut units: u64) {
        for held in self.edges[edge].iter_mut().filter(|held| self.at < held.over) {
            let spent = units.min(held.left);
            held.left -= spent;
            held.usage.spent_total += spent;
            units -= spent;
            self.meter.push((self.at, spent));
        }
    }

    fn refund(&mut self, which: usize, units: u64) {
        let Some(&place) = self.charges.iter().rev().nth(which) else { return };
        let (charged_at, spent) = &mut self.meter[place];
        let units = units.min(*spent);
        *spent -= units;
        let returned = self.lazy.refund(&self.limit, self.at, units, *charged_at);
        assert_eq!(returned, self.eager.refund(&self.limit, self.at, units, *charged_at));
    }

    fn highest(&self, of: impl Fn(&Limit) -> u64) -> u128 {
        u128::from(self.limits.iter().map(of).max().unwrap_or(0))
    }

    /// Units spent from the stamp of one to that of another, for each two.
    fn spans(&self) -> impl Iterator<Item = (Stamp, Stamp, u128)> {
        self.meter.iter().enumerate().flat_map(|(place, &(from, _))| {
            self.meter[place..].iter().scan(0_u128, move |sum, &(to, units)| {
                *sum += u128::from(units);
                Some((from, to, *sum))
            })
        })
    }

    fn spent_in(&self, from: u64, to: u64) -> u128 {
        let inside = self.meter.iter().filter(|(at, _)| (from..to).contains(&at.0));
        inside.map(|&(_, units)| u128::from(units)).sum()
    }

    fn within_limit(&self) -> TestCaseResult {
        let (n, cap, period) = (self.highest(Limit::n), self.highest(Limit::cap), PERIOD.0);
        for (from, to, spent) in self.spans() {
            let length = to.since(from);
            let most = match self.limit.algorithm() {
                // In parts of a unit: what the bucket holds and what refills.
                Algorithm::TokenBucket { .. } | Algorithm::LeakyBucket { .. } => {
                    let parts = cap * u128::from(period) + n * u128::from(length.0);
                    prop_assert!(spent * u128::from(period) <= parts, "{} from {} to {}", spent, from, to);
                    continue;
                }
                Algorithm::FixedWindow(_) => from.0 / period == to.0 / period,
                Algorithm::SlidingLog => length < PERIOD,
                Algorithm::SlidingCounter => {
                    let start = to.0 / period * period;
                    let (before, now) =
                        (self.spent_in(start - period, start), self.spent_in(start, to.0 + 1));
                    let weight = u128::from(period - (to.0 - start));
                    let estimate = before * weight / u128::from(period) + now;
                    prop_assert!(estimate <= n, "an estimate of {} at {}", estimate, to);
                    continue;
                }
                Algorithm::Shaper { .. } => continue,
            };
            prop_assert!(!most || spent <= n, "{} from {} to {}", spent, from, to);
        }
        Ok(())
    }
}

fn limit(algorithm: Algorithm, n: u64) -> Limit {
    Limit::new(algorithm, n, PERIOD).expect("valid")
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let edge = 0..EDGES;
    let tells = prop_oneof![
        1 => Just(Tells::Nothing),
        3 => Just(Tells::Everything),
        1 => (0usize..4).prop_map(Tells::Old),
    ];
    let lifetime = (0u64..12_000).prop_map(Nanos::from_millis);
    let ask =
        (edge.clone(), 0u64..3, prop_oneof![Just(0u64), 0u64..9], lifetime, tells, prop::bool::weighted(0.1));
    let step = prop_oneof![
        6 => ask.prop_map(|(edge, need, want, lifetime, tells, lost)| Step::Ask { edge, need, want, lifetime, tells, lost }),
        6 => (edge.clone(), 1u64..9).prop_map(|(edge, units)| Step::Spend { edge, units }),
        3 => (edge, 1u64..4).prop_map(|(edge, units)| Step::Lower { edge, units }),
        3 => (1u64..6).prop_map(Step::Acquire),
        1 => (0usize..3, 1u64..6).prop_map(|(which, units)| Step::Refund { which, units }),
        1 => prop::sample::select(vec![7u64, 10, 14]).prop_map(Step::Change),
    ];
    let gap = prop_oneof![
        3 => Just(0u64),
        6 => 0..1_500_000_000u64,
        2 => 0..9_000_000_000u64,
        // To the last moment of a default lease and around a window's end.
        1 => prop::sample::select(vec![5_009_999_999u64, 5_010_000_000, 9_999_999_999, 10_000_000_000]),
    ];
    prop::collection::vec((gap, step), 1..120)
}

fn check(algorithm: Algorithm, steps: &[(u64, Step)]) -> TestCaseResult {
    let mut world = World::new(algorithm);
    for (gap, step) in steps {
        world.at = world.at.after(Nanos(*gap));
        world.step(step);
    }
    for owner in [&world.lazy, &world.eager] {
        prop_assert!(owner.ledger.totals().conserved() && owner.ledger.violations() == 0);
    }
    world.within_limit()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    #[test]
    fn no_interval_takes_more_from_a_bucket_with_leases_than_burst_and_refill(steps in steps()) {
        check(Algorithm::TokenBucket { burst: 12 }, &steps)?;
        check(Algorithm::LeakyBucket { burst: 40 }, &steps)?;
    }

    #[test]
    fn no_window_with_leases_admits_more_than_its_limit(steps in steps()) {
        check(Algorithm::FixedWindow(Window::Epoch), &steps)?;
    }

    #[test]
    fn no_span_of_a_sliding_log_with_leases_admits_more_than_its_limit(steps in steps()) {
        check(Algorithm::SlidingLog, &steps)?;
    }

    #[test]
    fn no_estimate_of_what_was_spent_passes_a_sliding_counters_limit(steps in steps()) {
        check(Algorithm::SlidingCounter, &steps)?;
    }
}

#[test]
fn schedules_lend_spend_return_and_strand() {
    let mut world = World::new(Algorithm::TokenBucket { burst: 40 });
    let ask = |need, want, tells| Step::Ask {
        edge: 0,
        need,
        want,
        lifetime: Nanos::from_secs(5),
        tells,
        lost: false,
    };
    for step in
        [ask(1, 20, Tells::Nothing), Step::Spend { edge: 0, units: 5 }, Step::Lower { edge: 0, units: 3 }]
    {
        world.step(&step);
    }
    world.step(&ask(0, 0, Tells::Everything));
    world.at = world.at.after(Nanos::from_secs(6));
    world.step(&ask(1, 0, Tells::Old(0)));
    let totals = world.lazy.ledger.totals();
    assert_eq!((totals.granted, totals.spent, totals.returned, totals.lapsed), (20, 5, 3, 12));
    assert_eq!(world.meter.iter().map(|(_, units)| units).sum::<u64>(), 7);
    assert_eq!(world.lazy.ledger.leases().map(|lease| lease.id).collect::<Vec<LeaseId>>(), []);
}
