//! What an acquire would do, worked out beside the stored counters: `apply` commits it, `preview` only shows it.
//!
//! Invariant: evaluation changes nothing, and committing it needs no further decision. A stored counter that equals a
//! fresh one counts as absent, so whether the sweep has been there yet changes no answer. Fresh is what its own numbers
//! say, since the sweep knows no others.

use leasehold_limit::{Ask, Decision, State};
use leasehold_model::planted::{self, Bug};
use leasehold_model::{Key, Nanos, Stamp, TenantId};

use crate::intern::Under;
use crate::table::Held;
use crate::{Acquired, Demand, LimitSpec, Refusal, Shard};

/// An acquire, decided.
#[derive(Debug)]
pub(crate) struct Evaluation {
    pub(crate) acquired: Acquired,
    /// What to store, one for each distinct counter. Empty when nothing was admitted.
    pub(crate) touched: Vec<Touched>,
}

/// One counter as the acquire would leave it.
#[derive(Debug)]
pub(crate) struct Touched {
    pub(crate) key: Key,
    pub(crate) numbers: Numbers,
    /// With the charge in it. `None`: the stored wide state, of which nothing is out, still to be charged in its place.
    pub(crate) state: Option<State>,
    /// Units taken by demands whose charge isn't in `state` yet.
    pub(crate) taken: u64,
    /// See [`Under::carried`].
    pub(crate) carried: Stamp,
    pub(crate) stored: bool,
    changed: bool,
    enforced: bool,
}

/// Where the numbers that decide are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// Interned under this id: those the counter was written under.
    Stored(u32),
    /// At this index of the batch's limits.
    Asked(usize),
}

/// One evaluation under way.
struct Evaluator<'a> {
    shard: &'a Shard,
    limits: &'a [LimitSpec],
    at: Stamp,
    touched: Vec<Touched>,
}

impl Shard {
    /// Decides every demand in order, each after the ones before it; all are taken or none.
    pub(crate) fn evaluate(
        &self,
        limits: &[LimitSpec],
        demands: &[Demand],
        at: Stamp,
    ) -> Result<Evaluation, Refusal> {
        let touched = Vec::with_capacity(demands.len());
        let mut evaluator = Evaluator { shard: self, limits, at, touched };
        let mut decisions = Vec::with_capacity(demands.len());
        let mut admitted = true;
        for demand in demands {
            let decision = evaluator.demand(demand)?;
            admitted &= decision.allowed || demand.shadow;
            decisions.push(decision);
        }
        if admitted {
            evaluator.charge_all();
            evaluator.fit_bounds(demands, &mut decisions)?;
        } else {
            evaluator.take_back(demands, &mut decisions)?;
        }
        Ok(Evaluation { acquired: Acquired { admitted, at, decisions }, touched: evaluator.touched })
    }

    /// The counter as a command finds it at `at`, under the numbers that hold for it. Leases that have ended by then are
    /// spent in it.
    pub(crate) fn load(&self, key: Key, asked: usize, spec: &LimitSpec, at: Stamp) -> Touched {
        let numbers = Numbers::Asked(asked);
        let fresh = |stored| Touched {
            key,
            numbers,
            state: Some(spec.limit.fresh()),
            taken: 0,
            carried: Stamp::ZERO,
            stored,
            changed: false,
            enforced: false,
        };
        let Some(counter) = self.table.get(key) else { return fresh(false) };
        let Under { spec: under, carried } = self.limits.get(counter.limit);
        let held = self.beside(key, &under.limit, counter.state, at);
        let out = self.ledger.out(key, at);
        if out.units() == 0 && under.limit.fresh_at(held.get()) <= at {
            return fresh(true);
        }
        let stored = Touched { carried: *carried, ..fresh(true) };
        if under.same_numbers(spec) || is_older(spec, under) {
            let state = match held {
                Held::Narrow(state) => Some(state),
                Held::Wide(_) => None,
            };
            return Touched { state, numbers: Numbers::Stored(counter.limit), ..stored };
        }
        let mut state = held.into_owned();
        if under.limit == spec.limit {
            return Touched { state: Some(state), ..stored };
        }
        spec.limit.carry_over_beside(&under.limit, &mut state, takes_hold(under, spec, at), out);
        Touched { state: Some(state), carried: carried_at(at), ..stored }
    }

    /// Whether one more counter of `tenant` has room beside these new ones.
    pub(crate) fn has_room(&self, tenant: TenantId, new: &[TenantId]) -> bool {
        let of_tenant = new.iter().filter(|&&other| other == tenant).count();
        let within = |held: usize, new: usize, max: u32| {
            held.saturating_add(new) < usize::try_from(max).unwrap_or(usize::MAX)
        };
        let held = usize::try_from(self.limits.keys_of(tenant)).unwrap_or(usize::MAX);
        within(held, of_tenant, self.bounds.keys_per_tenant_max)
            && within(self.table.len(), new.len(), self.bounds.keys_max)
    }
}

/// Whether a counter keeps the numbers it has, those that came along being of an older rule set.
fn is_older(spec: &LimitSpec, under: &LimitSpec) -> bool {
    spec.version < under.version && !planted::is(Bug::RulesOutOfOrder)
}

impl<'a> Evaluator<'a> {
    fn demand(&mut self, demand: &Demand) -> Result<Decision, Refusal> {
        let asked = usize::try_from(demand.limit).map_err(|_| Refusal::Malformed)?;
        let spec = self.limits.get(asked).ok_or(Refusal::Malformed)?;
        let i = match self.touched.iter().position(|touched| touched.key == demand.key) {
            Some(i) => {
                self.again(i, asked, spec);
                i
            }
            None => {
                self.touched.push(self.shard.load(demand.key, asked, spec, self.at));
                self.touched.len() - 1
            }
        };
        let decision = self.decide(i, demand.ask);
        let touched = &mut self.touched[i];
        touched.taken = decision.granted;
        touched.changed |= decision.granted > 0;
        touched.enforced |= decision.granted > 0 && !demand.shadow;
        Ok(decision)
    }

    /// A second demand on a counter finds it as the first leaves it, and may bring newer numbers.
    fn again(&mut self, i: usize, asked: usize, spec: &LimitSpec) {
        self.charge(i);
        let under = self.spec(self.touched[i].numbers);
        if under.same_numbers(spec) || is_older(spec, under) {
            return;
        }
        let (old, at) = (under.limit.clone(), self.at);
        let out = self.shard.ledger.out(self.touched[i].key, at);
        let state = self.owned(i);
        if old != spec.limit {
            spec.limit.carry_over_beside(&old, state, at, out);
            self.touched[i].carried = carried_at(at);
        }
        self.touched[i].numbers = Numbers::Asked(asked);
    }

    fn decide(&self, i: usize, ask: Ask) -> Decision {
        let touched = &self.touched[i];
        let limit = &self.spec(touched.numbers).limit;
        match &touched.state {
            Some(state) => {
                limit.decide_beside(state, self.at, ask, self.shard.ledger.out(touched.key, self.at))
            }
            None => limit.decide(self.stored(touched.key).get(), self.at, ask),
        }
    }

    /// Puts what was taken into the state, beside the stored one.
    fn charge(&mut self, i: usize) {
        let taken = std::mem::take(&mut self.touched[i].taken);
        if taken > 0 {
            let (numbers, at) = (self.touched[i].numbers, self.at);
            let out = self.shard.ledger.out(self.touched[i].key, at).units();
            self.owned(i);
            let limit = &self.spec(numbers).limit;
            if let Some(state) = &mut self.touched[i].state {
                limit.charge_beside(state, at, taken, out);
            }
        }
    }

    /// Charges every counter whose state is at hand; a wide one that was asked once is charged where it is stored.
    fn charge_all(&mut self) {
        for i in 0..self.touched.len() {
            if self.touched[i].state.is_some() {
                self.charge(i);
            }
        }
        self.touched.retain(|touched| touched.changed);
    }

    /// Refuses when a counter that must be stored has no room. A shadow demand without room is let go instead.
    fn fit_bounds(&mut self, demands: &[Demand], decisions: &mut [Decision]) -> Result<(), Refusal> {
        let mut new: Vec<TenantId> = Vec::new();
        for enforced in [true, false] {
            for i in 0..self.touched.len() {
                let touched = &self.touched[i];
                if touched.enforced != enforced || !touched.changed || touched.stored {
                    continue;
                }
                let tenant = self.spec(touched.numbers).tenant;
                if self.shard.has_room(tenant, &new) {
                    new.push(tenant);
                } else if enforced {
                    return Err(Refusal::KeysFull(tenant));
                } else {
                    let key = touched.key;
                    self.touched[i].changed = false;
                    for (decision, _) in decisions.iter_mut().zip(demands).filter(|(_, d)| d.key == key) {
                        *decision = nothing_granted(*decision, *decision);
                    }
                }
            }
        }
        self.touched.retain(|touched| touched.changed);
        Ok(())
    }

    /// Nothing is taken: a demand that would have fitted shows its counter as it stays.
    fn take_back(&mut self, demands: &[Demand], decisions: &mut [Decision]) -> Result<(), Refusal> {
        for (demand, decision) in demands.iter().zip(decisions) {
            if decision.granted > 0 {
                self.touched.clear();
                let untouched = self.demand(&Demand { ask: Ask::PEEK, ..*demand })?;
                *decision = nothing_granted(*decision, untouched);
            }
        }
        self.touched.clear();
        Ok(())
    }

    fn owned(&mut self, i: usize) -> &mut State {
        let stored = match self.touched[i].state {
            Some(_) => None,
            None => Some(self.stored(self.touched[i].key).into_owned()),
        };
        self.touched[i].state.get_or_insert_with(|| stored.expect("it was read when there was none"))
    }

    fn stored(&self, key: Key) -> Held<'a> {
        self.shard.table.get(key).expect("a touched counter without a state of its own is stored").state
    }

    fn spec(&self, numbers: Numbers) -> &'a LimitSpec {
        match numbers {
            Numbers::Stored(id) => &self.shard.limits.get(id).spec,
            Numbers::Asked(asked) => &self.limits[asked],
        }
    }
}

/// When the numbers of `spec` replace those of `under`, seen from `at`. A newer rule set's did when it came into force, so
/// that a denial, which stores nothing, changes nothing either. Of two limits of one rule set neither replaced the other
/// before.
fn takes_hold(under: &LimitSpec, spec: &LimitSpec, at: Stamp) -> Stamp {
    if spec.version > under.version { spec.since.min(at) } else { at }
}

/// Up to the next whole second, so that counters carried over by one change of rules share a few interned limits.
fn carried_at(at: Stamp) -> Stamp {
    Stamp::ZERO.after(Nanos::from_secs(at.since(Stamp::ZERO).secs_ceil()))
}

/// `decision` without its grant, over a counter that stays as `untouched` shows it.
fn nothing_granted(decision: Decision, untouched: Decision) -> Decision {
    Decision { allowed: decision.allowed, granted: 0, retry_after: None, wait: None, ..untouched }
}
