//! Several demands at once, and looks: what is at hand first, the rest of its owners in one acquire.
//!
//! Invariant: what was taken from cells is put back unless the request is known to be admitted, also when its caller goes
//! away meanwhile.

use leasehold_decide::{Proposal, ProposeError, Proposed, Terms};
use leasehold_lease::{Generation, Known};
use leasehold_limit::Decision;
use leasehold_limit::check::Source;
use leasehold_model::Key;
use leasehold_shard::{Acquire, Acquired, Command, Demand, LimitSpec, Reply};
use std::sync::Arc;
use tokio::time::Instant;

use super::decision::{denied, taken, untaken};
use super::{LeaseAuthority, UNKNOWN, at};
use crate::Upstream;
use crate::holder::{Spent, Way};

/// What is at hand for the demands of one request, a place each.
#[derive(Debug)]
struct AtHand<'a, U: Upstream> {
    authority: &'a LeaseAuthority<U>,
    found: Vec<Option<(Decision, Source)>>,
    /// To be put back, unless the request is admitted.
    taken: Vec<Taken>,
}

/// Units out of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Taken {
    key: Key,
    units: u64,
    from: Generation,
}

impl<U: Upstream> Drop for AtHand<'_, U> {
    fn drop(&mut self) {
        for Taken { key, units, from } in self.taken.drain(..) {
            self.authority.meters.put_back(units);
            self.authority.holder.put_back(key, units, from);
        }
    }
}

impl<U: Upstream> AtHand<'_, U> {
    /// Whether a place's demand was refused or isn't known: what was taken stays where it is.
    fn is_open(&self, place: usize) -> bool {
        self.found.get(place).is_none_or(|found| found.is_none_or(|(decision, _)| !decision.allowed))
    }

    /// The answer, all demands being decided.
    fn answer(mut self, demands: &[Demand]) -> Proposed {
        let passes = |(demand, found): (&Demand, &Option<(Decision, Source)>)| {
            demand.shadow || found.is_some_and(|(decision, _)| decision.allowed)
        };
        let admitted = demands.iter().zip(&self.found).all(passes);
        if admitted {
            self.taken.clear();
        }
        let found: Vec<_> = self.found.iter().copied().flatten().collect();
        let decisions =
            found.iter().map(|&(decision, _)| if admitted { decision } else { untaken(decision) });
        let reply = Reply::Acquired(Acquired { admitted, at: UNKNOWN, decisions: decisions.collect() });
        Proposed { reply, sources: found.iter().map(|&(_, source)| source).collect() }
    }
}

impl<U: Upstream> LeaseAuthority<U> {
    /// Takes from every counter, or from none.
    pub(super) async fn several(
        &self,
        proposal: Proposal,
        deadline: Instant,
    ) -> Result<Proposed, ProposeError> {
        let Proposal { mut batch, terms } = proposal;
        let Some(Command::Acquire(Acquire { id, remember_denial, demands })) = batch.commands.pop() else {
            return Err(ProposeError::Unreachable);
        };
        let mut hand = self.take(&demands, &batch.limits, &terms);
        if hand.found.iter().all(Option::is_some) {
            for (_, source) in hand.found.iter().flatten() {
                self.meters.decided(*source);
            }
            return Ok(hand.answer(&demands));
        }
        let open: Vec<usize> = (0..demands.len()).filter(|&place| hand.is_open(place)).collect();
        let rest = open.iter().map(|&place| demands[place]).collect();
        let leased = self.ways(&demands, &open, &batch.limits, &terms);
        batch.commands = vec![Command::Acquire(Acquire { id, remember_denial, demands: rest })];
        let answered = self.exact(Proposal { batch, terms }, deadline).await?;
        let Proposed { reply: Reply::Acquired(acquired), .. } = answered else { return Ok(answered) };
        for (&place, decision) in open.iter().zip(&acquired.decisions) {
            hand.found[place] = Some((*decision, Source::Owner));
        }
        for (place, way) in leased {
            if let Some((decision, _)) = &hand.found[place] {
                let Demand { key, ask, .. } = demands[place];
                self.holder.decided_elsewhere(key, &way, ask.max, decision);
            }
        }
        for _ in 0..demands.len() - open.len() {
            self.meters.decided(Source::Lease);
        }
        Ok(hand.answer(&demands))
    }

    /// Takes what the cells have.
    fn take(&self, demands: &[Demand], limits: &[LimitSpec], terms: &[Terms]) -> AtHand<'_, U> {
        let mut hand = AtHand {
            authority: self,
            found: vec![None; demands.len()],
            taken: Vec::with_capacity(demands.len()),
        };
        let now = self.holder.now();
        for (found, demand) in hand.found.iter_mut().zip(demands) {
            let Some((cost, (spec, _))) =
                self.leased_cost(demand, limits, terms).zip(at(demand, limits, terms))
            else {
                continue;
            };
            match self.holder.spend(demand.key, cost, now) {
                Some(Spent::Taken { left, low, generation, known: Known { beside, reset_after } }) => {
                    hand.taken.push(Taken { key: demand.key, units: cost, from: generation });
                    let decision = taken(&spec.limit, cost, left.saturating_add(beside), reset_after);
                    *found = Some((decision, Source::Lease));
                    if low {
                        self.holder.low(demand.key, now);
                    }
                }
                Some(Spent::Denied(denial)) => *found = Some((denied(denial), Source::DenyCache)),
                Some(Spent::No) | None => {}
            }
        }
        hand
    }

    /// Of the places, those whose counters may be held here, with what their asks need.
    fn ways(
        &self,
        demands: &[Demand],
        places: &[usize],
        limits: &[LimitSpec],
        terms: &[Terms],
    ) -> Vec<(usize, Way)> {
        let way = |&place: &usize| {
            let demand = &demands[place];
            self.leased_cost(demand, limits, terms).filter(|&cost| cost > 0)?;
            let (spec, terms) = at(demand, limits, terms)?;
            Some((place, Way { spec: Arc::new(spec.clone()), terms: *terms }))
        };
        places.iter().filter_map(way).collect()
    }

    /// What an acquire would be answered: by what is held, and by the owners for the rest.
    pub(super) async fn look(
        &self,
        limits: &[LimitSpec],
        terms: &[Terms],
        acquire: &Acquire,
        deadline: Instant,
    ) -> Result<Proposed, ProposeError> {
        let Acquire { id, remember_denial, demands } = acquire;
        let mut hand =
            AtHand { authority: self, found: Vec::with_capacity(demands.len()), taken: Vec::new() };
        hand.found.extend(demands.iter().map(|demand| self.seen(demand, limits, terms)));
        let open: Vec<usize> = (0..demands.len()).filter(|&place| hand.found[place].is_none()).collect();
        if !open.is_empty() {
            if self.upstream().away().is_some() {
                return Err(ProposeError::Unreachable);
            }
            let rest = open.iter().map(|&place| demands[place]).collect();
            let rest = Acquire { id: *id, remember_denial: *remember_denial, demands: rest };
            self.meters.exact();
            let reply = self.upstream().preview(limits, terms, &rest, deadline).await?;
            let Reply::Acquired(acquired) = reply else { return Ok(Proposed::by_owner(reply)) };
            for (&place, decision) in open.iter().zip(&acquired.decisions) {
                hand.found[place] = Some((*decision, Source::Owner));
            }
        }
        Ok(hand.answer(demands))
    }

    /// What is known of a counter without asking.
    fn seen(&self, demand: &Demand, limits: &[LimitSpec], terms: &[Terms]) -> Option<(Decision, Source)> {
        let cost = self.leased_cost(demand, limits, terms)?;
        let (spec, _) = at(demand, limits, terms)?;
        match self.holder.spend(demand.key, 0, self.holder.now())? {
            Spent::Taken { left, known: Known { beside, reset_after }, .. } if left >= cost.max(1) => {
                let left = (left - cost).saturating_add(beside);
                Some((taken(&spec.limit, cost, left, reset_after), Source::Lease))
            }
            Spent::Denied(denial) => Some((denied(denial), Source::DenyCache)),
            Spent::Taken { .. } | Spent::No => None,
        }
    }
}
