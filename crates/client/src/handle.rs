//! A counter that many requests in a row are charged to, resolved once.
//!
//! Invariant: nothing is taken here that [`Client::check`] would not take: as soon as other rules hold, or several limits
//! apply, or the limit is one that isn't leased, the check is the general one.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use leasehold_decide::{CheckError, Host, Terms, bounds};
use leasehold_lease::Held;
use leasehold_limit::check::{Answer, Attribute, Verdict};
use leasehold_model::{Key, Nanos};

use crate::holder::Spent;
use crate::{Client, Upstream};

/// Requests with one set of names and values. To be kept and shared.
pub struct Handle<U: Upstream> {
    client: Client<U>,
    domain: String,
    attributes: Vec<(String, Vec<u8>)>,
    resolved: ArcSwap<Resolved>,
}

/// What is known without asking or waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtOnce {
    /// Go ahead; the units are charged.
    Allowed {
        /// Units left of the lease.
        left: u64,
    },
    /// Nothing is to be had.
    Denied {
        /// When to come back.
        retry_after: Nanos,
    },
    /// It takes a [`Handle::check`].
    Unknown,
}

#[derive(Debug)]
struct Resolved {
    generation: u64,
    counter: Option<Key>,
    cell: Option<Held>,
}

impl<U: Upstream> fmt::Debug for Handle<U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values may be secrets.
        f.debug_struct("Handle").field("domain", &self.domain).finish_non_exhaustive()
    }
}

impl<U: Upstream> Handle<U> {
    pub(crate) fn new<V: AsRef<[u8]>>(
        client: Client<U>,
        domain: &str,
        attributes: &[(&str, V)],
    ) -> Result<Self, CheckError> {
        bounds::domain(domain)?;
        let attributes: Vec<_> =
            attributes.iter().map(|(name, value)| ((*name).to_owned(), value.as_ref().to_vec())).collect();
        bounds::attributes("attributes", &borrowed(&attributes))?;
        let resolved = resolve(&client, domain, &attributes);
        Ok(Self { client, domain: domain.to_owned(), attributes, resolved: ArcSwap::from_pointee(resolved) })
    }

    /// Takes `cost` units out of a lease that is held, or says what is known of a refusal. Takes no lock that other
    /// counters share, allocates nothing and never waits.
    #[inline]
    #[must_use]
    pub fn spend(&self, cost: u64) -> AtOnce {
        let resolved = self.resolved.load();
        if resolved.generation == self.client.in_force().generation()
            && let (Some(key), Some(cell)) = (resolved.counter, &resolved.cell)
        {
            match at_once(self.client.authority().spend(key, cell.cell(), cost)) {
                AtOnce::Unknown => {}
                known @ (AtOnce::Allowed { .. } | AtOnce::Denied { .. }) => return known,
            }
        }
        self.look_up(&resolved, cost)
    }

    /// As [`Handle::spend`], and asks when that doesn't know.
    ///
    /// # Errors
    /// As [`Client::check`].
    pub async fn is_allowed(&self, cost: u64) -> Result<bool, CheckError> {
        match self.spend(cost) {
            AtOnce::Allowed { .. } => Ok(true),
            AtOnce::Denied { .. } => Ok(false),
            AtOnce::Unknown => Ok(self.check(cost).await?.verdict == Verdict::Allowed),
        }
    }

    /// The whole answer, as [`Client::check`] gives it.
    ///
    /// # Errors
    /// As [`Client::check`].
    pub async fn check(&self, cost: u64) -> Result<Answer, CheckError> {
        self.client.check_attributes(&self.domain, borrowed(&self.attributes), cost).await
    }

    /// The cell is not known, or has nothing: the key may have another by now.
    #[cold]
    fn look_up(&self, known: &Resolved, cost: u64) -> AtOnce {
        let generation = self.client.in_force().generation();
        let next = if known.generation == generation {
            let Some(key) = known.counter else { return AtOnce::Unknown };
            let cell = self.client.authority().cell(key);
            let same = match (&cell, &known.cell) {
                (Some(cell), Some(known)) => cell.is_same(known),
                (None, _) => true,
                (Some(_), None) => false,
            };
            if same {
                return AtOnce::Unknown;
            }
            Resolved { cell, ..*known }
        } else {
            resolve(&self.client, &self.domain, &self.attributes)
        };
        let spent = match (next.counter, &next.cell) {
            (Some(key), Some(cell)) => at_once(self.client.authority().spend(key, cell.cell(), cost)),
            _ => AtOnce::Unknown,
        };
        self.resolved.store(Arc::new(next));
        spent
    }
}

const fn at_once(spent: Spent) -> AtOnce {
    match spent {
        Spent::Taken { left, .. } => AtOnce::Allowed { left },
        Spent::Denied(denial) => AtOnce::Denied { retry_after: denial.retry_after },
        Spent::No => AtOnce::Unknown,
    }
}

/// The one counter that these are charged to, if it is one and may be held here.
fn resolve<U: Upstream>(client: &Client<U>, domain: &str, attributes: &[(String, Vec<u8>)]) -> Resolved {
    // Read first: rules that come in between are noticed at the next spend.
    let generation = client.in_force().generation();
    let counter = client.in_force().active().and_then(|active| {
        let matched = active.book.matching(domain, &borrowed(attributes))?;
        let [only] = &matched[..] else { return None };
        let leasable = |key: &Key| {
            !only.rule.shadow && client.authority().is_leasable(*key, only.owner(), &Terms::of(only))
        };
        active.counter(only).filter(leasable)
    });
    let cell = counter.and_then(|key| client.authority().cell(key));
    Resolved { generation, counter, cell }
}

fn borrowed(attributes: &[(String, Vec<u8>)]) -> Vec<Attribute<'_>> {
    attributes.iter().map(|(name, value)| Attribute { name, value }).collect()
}
