//! What this edge may spend without its owners: its part of what they keep back (`on_unavailable: local`) and of what a
//! limit may be exceeded by (`max_overshoot`).
//!
//! Invariant: the two are counted apart, so that neither is spent for the other; and a request under several limits takes
//! of all or of none.

use std::collections::BTreeMap;

use leasehold_decide::Terms;
use leasehold_lease::{Allowances, SLOT_LIFETIME};
use leasehold_limit::{Decision, Limit, RetryAfter};
use leasehold_model::{BootTime, Key, ShardId};
use parking_lot::Mutex;

/// Keys of one shard that are counted here. Beyond, a further one is refused by its declared behaviour until another's
/// share is full again; a counter takes some 200 bytes.
const KEYS_MAX: usize = 65_536;

/// By shard, since numbers are given by shard.
#[derive(Debug, Default)]
pub(crate) struct SetAside {
    shards: Mutex<BTreeMap<ShardId, Shares>>,
}

/// One demand on what is set aside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) shard: ShardId,
    pub(crate) key: Key,
    pub(crate) limit: &'a Limit,
    pub(crate) terms: Terms,
    pub(crate) cost: u64,
    pub(crate) shadow: bool,
}

#[derive(Debug)]
struct Shares {
    /// Into how many parts this edge's share is divided, one being its own.
    parts: u32,
    kept_back: Allowances,
    on_top: Allowances,
}

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    KeptBack,
    OnTop,
}

impl SetAside {
    /// An owner gave this edge a number, in the answer to an ask that was sent at `sent`.
    pub(crate) fn slot(&self, shard: ShardId, number: u16, parts: u32, sent: BootTime) {
        let mut shards = self.shards.lock();
        let shares = shards.entry(shard).or_insert_with(|| Shares {
            parts,
            kept_back: Allowances::new(KEYS_MAX),
            on_top: Allowances::new(KEYS_MAX),
        });
        shares.parts = parts.max(1);
        shares.kept_back.handle_slot(number, sent);
        shares.on_top.handle_slot(number, sent);
    }

    /// Whether this edge has a number that holds for a while yet.
    pub(crate) fn is_numbered(&self, shard: ShardId, now: BootTime) -> bool {
        let soon = BootTime(now.0.saturating_add(SLOT_LIFETIME.0 / 4));
        self.shards.lock().get(&shard).is_some_and(|shares| shares.kept_back.slot(soon).is_some())
    }

    /// Decides without waiting, by what the limit may be exceeded by. `None`: ask, or wait.
    pub(crate) fn at_once(&self, wanted: Wanted<'_>, now: BootTime) -> Option<Decision> {
        let mut shards = self.shards.lock();
        let shares = shards.get_mut(&wanted.shard)?;
        shares.acquire(Kind::OnTop, &wanted, wanted.cost, now).filter(|decision| decision.allowed)
    }

    /// Decides what nobody could be asked: one for each, `None` where nothing is set aside. All are taken, or none.
    pub(crate) fn stand_in(&self, wanted: &[Wanted<'_>], now: BootTime) -> Vec<Option<Decision>> {
        let mut shards = self.shards.lock();
        let mut looks: Vec<Look> = Vec::with_capacity(wanted.len());
        for one in wanted {
            let look =
                shards.get_mut(&one.shard).map_or(Look::NOTHING, |shares| shares.look(one, &looks, now));
            looks.push(look);
        }
        let admitted = wanted.iter().zip(&looks).all(|(one, look)| one.shadow || look.passes(one.terms));
        let decide = |(one, look): (&Wanted<'_>, Look)| {
            // Whoever declared that it passes then isn't refused for want of a share.
            let (kind, decision) = look.found.filter(|_| look.fits || !one.terms.lets_pass())?;
            if !admitted && look.fits {
                return Some(decision);
            }
            if !admitted && look.comes_second {
                let retry_after = Some(RetryAfter::In(decision.reset_after));
                return Some(Decision { allowed: false, retry_after, ..decision });
            }
            shards.get_mut(&one.shard)?.acquire(kind, one, one.cost, now)
        };
        wanted.iter().zip(looks).map(decide).collect()
    }
}

/// What one demand would find.
#[derive(Clone, Copy, Debug)]
struct Look {
    key: Option<Key>,
    cost: u64,
    found: Option<(Kind, Decision)>,
    fits: bool,
    /// It would fit, but for what others of the request take of the same.
    comes_second: bool,
}

impl Look {
    const NOTHING: Self = Self { key: None, cost: 0, found: None, fits: false, comes_second: false };

    fn passes(&self, terms: Terms) -> bool {
        self.fits || terms.lets_pass()
    }
}

impl Shares {
    /// The first of the two that has enough, besides what `before` it takes; else the first that there is.
    fn look(&mut self, one: &Wanted<'_>, before: &[Look], now: BootTime) -> Look {
        let mut first = None;
        for kind in [Kind::KeptBack, Kind::OnTop] {
            let Some(mut decision) = self.acquire(kind, one, 0, now) else { continue };
            let same =
                |look: &&Look| look.key == Some(one.key) && look.found.is_some_and(|(of, _)| of == kind);
            let taken: u64 = before.iter().filter(same).map(|look| look.cost).sum();
            let alone = decision.remaining >= one.cost.max(1);
            decision.remaining = decision.remaining.saturating_sub(taken);
            if decision.remaining >= one.cost.max(1) {
                let found = Some((kind, decision));
                return Look { key: Some(one.key), cost: one.cost, found, fits: true, comes_second: false };
            }
            first = first.or(Some((kind, decision, alone)));
        }
        let found = first.map(|(kind, decision, _)| (kind, decision));
        Look { found, comes_second: first.is_some_and(|(_, _, alone)| alone), ..Look::NOTHING }
    }

    fn acquire(&mut self, kind: Kind, one: &Wanted<'_>, cost: u64, now: BootTime) -> Option<Decision> {
        let (allowances, share) = match kind {
            Kind::KeptBack => (&mut self.kept_back, one.terms.local?),
            Kind::OnTop => (&mut self.on_top, one.terms.overshoot?),
        };
        let edges = u32::from(one.terms.edges);
        allowances.acquire(one.key, one.limit, share.split(self.parts), edges, cost, now)
    }
}

#[cfg(test)]
mod tests;
