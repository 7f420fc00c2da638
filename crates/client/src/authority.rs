//! Decides by what is held, and asks the owners for the rest.
//!
//! Invariant: units leave a wallet for a request that is admitted, or they are put back. What can't be lent (a caller's
//! own request id, a limit that is never leased, a shaper) is decided by its owner, exactly.

mod decision;
mod several;

use std::sync::Arc;
use std::time::Duration;

use leasehold_decide::{Authority, Proposal, ProposeError, Proposed, Terms};
use leasehold_lease::{Answer, Held, KeyCell, Known, Leased, Paid, Settings as WalletSettings};
use leasehold_limit::check::Source;
use leasehold_limit::rules::Lease;
use leasehold_limit::{Algorithm, Decision, Limit};
use leasehold_model::{BootTime, Key, Stamp};
use leasehold_shard::{Acquire, Acquired, Command, Demand, LimitSpec, Reply, Settled};
use tokio::time::Instant;

use crate::counts::Meters;
use crate::holder::{Begun, Heard, Holder, Lending, Patience, Spent, Way};
use crate::set_aside::Wanted;
use crate::{Clock, Counts, NoGrant, Upstream, UpstreamAsk};
use decision::{denied, denied_by, taken};

/// How a [`LeaseAuthority`] behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthoritySettings {
    /// How long a request waits that names no time.
    pub patience: Duration,
    /// What is held, and for how long.
    pub wallet: WalletSettings,
}

impl Default for AuthoritySettings {
    fn default() -> Self {
        Self { patience: Duration::from_secs(1), wallet: WalletSettings::default() }
    }
}

/// Spends leases, and asks its upstream for the rest.
#[derive(Debug)]
pub struct LeaseAuthority<U: Upstream> {
    holder: Holder<U>,
    meters: Meters,
    patience: Duration,
}

impl<U: Upstream> LeaseAuthority<U> {
    /// Holds nothing yet. `clock` is the process's one.
    ///
    /// # Panics
    /// Outside a tokio runtime: a task brings in the answers.
    #[must_use]
    pub fn start(upstream: Arc<U>, clock: Arc<dyn Clock>, settings: AuthoritySettings) -> Self {
        let AuthoritySettings { patience, wallet } = settings;
        Self { holder: Holder::start(upstream, clock, wallet), meters: Meters::default(), patience }
    }

    /// Who is asked for what isn't held.
    pub fn upstream(&self) -> &U {
        self.holder.upstream()
    }

    /// Other rules hold: refusals are forgotten. What is held stays, and goes back as it isn't used any more.
    pub fn rules_changed(&self) {
        self.holder.forget_refusals();
    }

    /// Hands back everything that is held, and holds nothing from here on; requests are decided by the owners. Returns
    /// whether they had confirmed all of it by `deadline`; what is left then ends with its leases.
    pub async fn return_all(&self, deadline: Instant) -> bool {
        self.holder.return_all(deadline).await
    }

    /// Lends to a child, as its owner would, out of what is held here; it waits until `deadline` at the latest. The same ask
    /// gets the same answer, until [`Self::child_settled`] says that it isn't asked again.
    ///
    /// # Errors
    /// Why nothing is lent, or known.
    pub async fn lend(&self, ask: UpstreamAsk, deadline: Instant) -> Result<Leased, NoGrant> {
        let UpstreamAsk { id, spec, terms, ask } = ask;
        match self.holder.lend(id, &ask, &Way { spec, terms }, deadline) {
            Lending::Answered(leased) => Ok(leased),
            Lending::Waiting(answer) => answer.await.ok().flatten().ok_or(NoGrant::Unreachable),
            Lending::NoRoom => Err(NoGrant::Overloaded),
        }
    }

    /// A child asks under none of its session's sequences below a number again.
    pub fn child_settled(&self, settled: Settled) {
        self.holder.child_settled(settled);
    }

    /// Sub-leases that children hold now, and how many children do. Walks everything that is held: for a metrics page.
    pub fn sub_leases(&self) -> (usize, usize) {
        self.holder.sub_leases()
    }

    /// What it did so far.
    pub fn counts(&self) -> Counts {
        let (totals, keys) = self.holder.totals();
        self.meters.read(totals, keys)
    }

    /// A key's cell, if the key is held.
    pub(crate) fn cell(&self, key: Key) -> Option<Held> {
        self.holder.cell(key)
    }

    /// Spends from a cell that was looked up before.
    #[inline]
    pub(crate) fn spend(&self, key: Key, cell: KeyCell<'_>, cost: u64) -> Spent {
        let now = self.holder.now();
        let spent = Spent::from(cell, cost, now);
        self.note(key, &spent, now);
        spent
    }

    /// Whether units of the counter may be held here.
    pub(crate) fn is_leasable(&self, key: Key, limit: &Limit, terms: &Terms) -> bool {
        terms.lease == Lease::Auto
            && !matches!(limit.algorithm(), Algorithm::Shaper { .. })
            && !self.upstream().is_here(key)
    }

    /// The units that a demand asks of a counter that may be held here.
    fn leased_cost(&self, demand: &Demand, limits: &[LimitSpec], terms: &[Terms]) -> Option<u64> {
        let (spec, terms) = at(demand, limits, terms)?;
        let cost = demand.ask.max;
        // What its limit can never hold, its owner refuses in so many words.
        let fits = demand.ask.min == cost && cost <= spec.limit.cap();
        (fits && self.is_leasable(demand.key, &spec.limit, terms)).then_some(cost)
    }

    /// Counts what a cell said, and has its wallet look when it runs low.
    #[inline]
    fn note(&self, key: Key, spent: &Spent, now: BootTime) {
        match spent {
            Spent::Taken { low, .. } => {
                self.meters.decided(Source::Lease);
                if *low {
                    self.holder.low(key, now);
                }
            }
            Spent::Denied(_) => self.meters.decided(Source::DenyCache),
            Spent::No => {}
        }
    }

    /// One demand: from the cell, or by waiting for the wallet.
    async fn single(
        &self,
        proposal: Proposal,
        demand: Demand,
        cost: u64,
        deadline: Instant,
    ) -> Result<Proposed, ProposeError> {
        let now = self.holder.now();
        let limit = || &proposal.batch.limits[0].limit;
        if let Some(spent) = self.holder.spend(demand.key, cost, now) {
            self.note(demand.key, &spent, now);
            match spent {
                Spent::Taken { left, known: Known { beside, reset_after }, .. } => {
                    let decision = taken(limit(), cost, left.saturating_add(beside), reset_after);
                    return Ok(proposed(&demand, decision, Source::Lease));
                }
                Spent::Denied(denial) => return Ok(proposed(&demand, denied(denial), Source::DenyCache)),
                Spent::No => {}
            }
        }
        self.wait(proposal, demand, cost, deadline).await
    }

    async fn wait(
        &self,
        proposal: Proposal,
        demand: Demand,
        cost: u64,
        deadline: Instant,
    ) -> Result<Proposed, ProposeError> {
        let way = Way { spec: Arc::new(proposal.batch.limits[0].clone()), terms: proposal.terms[0] };
        let patience =
            if self.upstream().away().is_some() { Patience::None } else { Patience::Until(deadline) };
        let started = self.holder.now();
        let heard = match self.holder.check(demand.key, &way, cost, patience) {
            Begun::NoRoom => return self.exact(proposal, deadline).await,
            Begun::Answered(answer) => Some(Heard::Answer(answer)),
            Begun::Waiting(wait) => {
                let wanted = self.wanted(&demand, &way.spec, way.terms);
                if let Some(decision) = self.holder.set_aside().at_once(wanted, started) {
                    wait.leave();
                    self.meters.decided(Source::Fallback);
                    return Ok(proposed(&demand, decision, Source::Fallback));
                }
                let heard = wait.until(deadline).await;
                self.meters.waited(self.holder.now().since(started));
                if way.terms.sets_aside() {
                    // A broker's answers bring none.
                    self.holder.keep_number(demand.key, &way);
                }
                heard
            }
        };
        self.heard(&demand, &way.spec.limit, cost, heard)
    }

    /// What a request hears of its wallet.
    fn heard(
        &self,
        demand: &Demand,
        limit: &Limit,
        cost: u64,
        heard: Option<Heard>,
    ) -> Result<Proposed, ProposeError> {
        let (decision, source) = match heard {
            Some(Heard::Answer(Answer::Taken { paid, remaining, reset_after })) => {
                let source = match paid {
                    Paid::Owner => Source::Owner,
                    Paid::Lease => Source::Lease,
                };
                (taken(limit, cost, remaining, reset_after), source)
            }
            Some(Heard::Answer(Answer::Denied { retry_after, reset_after, asked })) => {
                let Known { beside, .. } = self.holder.known(demand.key, self.holder.now());
                let source = if asked { Source::Owner } else { Source::DenyCache };
                (denied_by(limit, cost, beside, retry_after, reset_after), source)
            }
            Some(Heard::Refused(refusal)) => return Ok(Proposed::by_owner(Reply::Refused(refusal))),
            Some(Heard::Overloaded) => {
                return Err(ProposeError::Overloaded("the counter's owner has too much to do"));
            }
            Some(Heard::Answer(Answer::Undecided)) | None => {
                self.meters.undecided(1);
                return Err(ProposeError::Unreachable);
            }
        };
        self.meters.decided(source);
        Ok(proposed(demand, decision, source))
    }

    /// A command that its owners carry out.
    async fn exact(&self, proposal: Proposal, deadline: Instant) -> Result<Proposed, ProposeError> {
        let demands = match proposal.batch.commands.first() {
            Some(Command::Acquire(acquire)) => acquire.demands.len(),
            Some(Command::Lease(_) | Command::Refund(_) | Command::Reset(_)) | None => 0,
        };
        let resets = matches!(proposal.batch.commands.first(), Some(Command::Reset(_)));
        if self.upstream().away().is_some() {
            self.meters.undecided(demands);
            return Err(ProposeError::Unreachable);
        }
        self.meters.exact();
        self.keep_numbers(&proposal);
        let reply = self.upstream().propose(proposal, deadline).await;
        match &reply {
            Ok(_) if resets => self.holder.forget_refusals(),
            Ok(Reply::Acquired(_)) => (0..demands).for_each(|_| self.meters.decided(Source::Owner)),
            Ok(_) | Err(ProposeError::Overloaded(_)) => {}
            Err(ProposeError::Unreachable) => self.meters.undecided(demands),
        }
        reply.map(Proposed::by_owner)
    }

    /// Sees to it that there is a share of what is asked exactly, too, for when nobody can be asked.
    fn keep_numbers(&self, proposal: &Proposal) {
        let Proposal { batch, terms } = proposal;
        if !terms.iter().any(Terms::sets_aside) {
            return;
        }
        let Some(Command::Acquire(acquire)) = batch.commands.first() else { return };
        for demand in &acquire.demands {
            if let Some((spec, terms)) = at(demand, &batch.limits, terms)
                && terms.sets_aside()
            {
                self.holder.keep_number(demand.key, &Way { spec: Arc::new(spec.clone()), terms: *terms });
            }
        }
    }

    fn wanted<'a>(&self, demand: &Demand, spec: &'a LimitSpec, terms: Terms) -> Wanted<'a> {
        Wanted {
            shard: self.upstream().shard(demand.key),
            key: demand.key,
            limit: &spec.limit,
            terms,
            cost: demand.ask.max,
            shadow: demand.shadow,
        }
    }

    fn until(&self, deadline: Option<Instant>) -> Instant {
        deadline.unwrap_or_else(|| Instant::now() + self.patience)
    }
}

impl<U: Upstream> Authority for LeaseAuthority<U> {
    fn patience(&self) -> Option<Duration> {
        Some(self.patience)
    }

    async fn propose(&self, proposal: Proposal, deadline: Option<Instant>) -> Result<Proposed, ProposeError> {
        let deadline = self.until(deadline);
        let Some(Command::Acquire(acquire)) = proposal.batch.commands.first() else {
            return self.exact(proposal, deadline).await;
        };
        let leased = |demand: &Demand| {
            self.leased_cost(demand, &proposal.batch.limits, &proposal.terms).filter(|&cost| cost > 0)
        };
        match acquire.demands[..] {
            _ if acquire.id.is_some() => {}
            [demand] => {
                if let Some(cost) = leased(&demand) {
                    return self.single(proposal, demand, cost, deadline).await;
                }
            }
            _ if acquire.demands.iter().any(|demand| leased(demand).is_some()) => {
                return self.several(proposal, deadline).await;
            }
            _ => {}
        }
        self.exact(proposal, deadline).await
    }

    async fn preview(
        &self,
        limits: &[LimitSpec],
        terms: &[Terms],
        acquire: &Acquire,
        deadline: Option<Instant>,
    ) -> Result<Proposed, ProposeError> {
        self.look(limits, terms, acquire, self.until(deadline)).await
    }

    fn stand_in(&self, acquire: &Acquire, limits: &[LimitSpec], terms: &[Terms]) -> Vec<Option<Decision>> {
        let wanted: Option<Vec<_>> = acquire
            .demands
            .iter()
            .map(|demand| at(demand, limits, terms).map(|(spec, terms)| self.wanted(demand, spec, *terms)))
            .collect();
        let Some(wanted) = wanted else { return Vec::new() };
        let decisions = self.holder.set_aside().stand_in(&wanted, self.holder.now());
        decisions.iter().flatten().for_each(|_| self.meters.decided(Source::Fallback));
        decisions
    }

    /// An edge that can't reach its owners decides as the rules declare: that is what it is for.
    fn health(&self) -> Result<(), String> {
        Ok(())
    }
}

/// A demand's limit and terms. A proposal has both for each; a broken one is refused by its owner.
fn at<'a>(
    demand: &Demand,
    limits: &'a [LimitSpec],
    terms: &'a [Terms],
) -> Option<(&'a LimitSpec, &'a Terms)> {
    let place = usize::try_from(demand.limit).ok()?;
    limits.get(place).zip(terms.get(place))
}

/// The answer to a single demand.
fn proposed(demand: &Demand, decision: Decision, source: Source) -> Proposed {
    let acquired =
        Acquired { admitted: decision.allowed || demand.shadow, at: UNKNOWN, decisions: vec![decision] };
    Proposed { reply: Reply::Acquired(acquired), sources: vec![source] }
}

/// The stamp of what was decided here: the owner's time line isn't this process's, and nothing is refunded by it.
const UNKNOWN: Stamp = Stamp::ZERO;
