//! Many questions become one message, each distinct limit once.
//!
//! Invariant: what is packed keeps within the bounds of a message, by number and by bytes, and every ask refers to the limit
//! that its question named.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_lease::LeaseAsk;
use leasehold_limit::rules::Scope;
use leasehold_model::{Nanos, RequestId};
use leasehold_shard::{Command, Demand, LimitSpec};
use leasehold_wire::lease::{
    ASKS_MAX, Ask, AskedLease, AskedLimit, Asks, ITEMS_MAX, REQUEST_BYTES_MAX, USAGE_MAX, What,
};

/// Bytes at most of a limit, its calendar's zone included.
const LIMIT_BYTES: usize = 160;
/// Bytes at most of an ask without what it lists.
const ASK_BYTES: usize = 128;
/// Bytes at most of each lease, demand, item or key that an ask lists.
const LISTED_BYTES: usize = 64;
/// Half of what a node reads: the estimate needn't be exact.
const MESSAGE_BYTES: usize = REQUEST_BYTES_MAX / 2;

/// What is asked, under which limits.
#[derive(Clone, Debug)]
pub(super) enum Question {
    /// For tokens.
    Lease { spec: Arc<LimitSpec>, scope: Scope, ask: LeaseAsk },
    /// What only owners decide. Positions in it are those of `limits`.
    Exact { limits: Vec<(LimitSpec, Scope)>, what: What },
}

impl Question {
    /// For tokens. `None`: no node would read it.
    pub(super) fn lease(spec: Arc<LimitSpec>, scope: Scope, ask: LeaseAsk) -> Option<Self> {
        (ask.usage.len() <= USAGE_MAX).then_some(Self::Lease { spec, scope, ask })
    }

    /// A command for owners. `None`: no node would read it.
    pub(super) fn exact(limits: Vec<(LimitSpec, Scope)>, command: Command) -> Option<Self> {
        let what = match command {
            Command::Acquire(acquire) => What::Acquire(acquire.demands),
            Command::Refund(refund) => What::Refund(refund.items),
            Command::Reset(reset) => What::Reset(reset.keys),
            // Its ask has a way of its own, on which the edge's own name goes along.
            Command::Lease(_) => return None,
        };
        Self::checked(limits, what)
    }

    /// What an acquire would be answered. `None`: no node would read it.
    pub(super) fn preview(limits: Vec<(LimitSpec, Scope)>, demands: Vec<Demand>) -> Option<Self> {
        Self::checked(limits, What::Preview(demands))
    }

    fn checked(limits: Vec<(LimitSpec, Scope)>, what: What) -> Option<Self> {
        let listed = listed(&what);
        let points = |demand: &Demand| usize::try_from(demand.limit).is_ok_and(|at| at < limits.len());
        let sound = (1..=ITEMS_MAX).contains(&listed)
            && limits.len() <= ITEMS_MAX
            && demands(&what).iter().all(points);
        sound.then_some(Self::Exact { limits, what })
    }

    fn bytes(&self) -> usize {
        let (limits, listed) = match self {
            Self::Lease { ask, .. } => (1, ask.usage.len()),
            Self::Exact { limits, what } => (limits.len(), listed(what)),
        };
        ASK_BYTES + limits * LIMIT_BYTES + listed * LISTED_BYTES
    }
}

fn demands(what: &What) -> &[Demand] {
    match what {
        What::Acquire(demands) | What::Preview(demands) => demands,
        What::Lease(_) | What::Refund(_) | What::Reset(_) | What::Later => &[],
    }
}

fn listed(what: &What) -> usize {
    match what {
        What::Acquire(demands) | What::Preview(demands) => demands.len(),
        What::Refund(items) => items.len(),
        What::Reset(keys) => keys.len(),
        What::Lease(lease) => lease.usage.len(),
        What::Later => 0,
    }
}

/// Makes one message.
#[derive(Debug, Default)]
pub(super) struct Packer<'a> {
    places: BTreeMap<(&'a LimitSpec, bool), u32>,
    limits: Vec<AskedLimit>,
    asks: Vec<Ask>,
    bytes: usize,
}

impl<'a> Packer<'a> {
    /// Adds a question. `false`: the message is full, and it goes into the next.
    pub(super) fn add(&mut self, tag: u64, id: RequestId, question: &'a Question, budget: Nanos) -> bool {
        let bytes = question.bytes();
        let limits = match question {
            Question::Lease { .. } => 1,
            Question::Exact { limits, .. } => limits.len(),
        };
        let full = self.asks.len() >= ASKS_MAX
            || self.limits.len() + limits > ASKS_MAX
            || self.bytes + bytes > MESSAGE_BYTES;
        if full && !self.asks.is_empty() {
            return false;
        }
        self.bytes += bytes;
        let what = match question {
            Question::Lease { spec, scope, ask } => {
                What::Lease(AskedLease::new(ask, self.place(spec, *scope)))
            }
            Question::Exact { limits, what } => {
                let places: Vec<_> = limits.iter().map(|(spec, scope)| self.place(spec, *scope)).collect();
                moved(what.clone(), &places)
            }
        };
        self.asks.push(Ask { tag, id, budget: Some(budget), what });
        true
    }

    pub(super) fn finish(self) -> Asks {
        Asks { limits: self.limits, asks: self.asks, settled: Vec::new() }
    }

    /// Where the limit stands in the message.
    fn place(&mut self, spec: &'a LimitSpec, scope: Scope) -> u32 {
        *self.places.entry((spec, scope == Scope::Region)).or_insert_with(|| {
            self.limits.push(AskedLimit { spec: spec.clone(), scope });
            u32::try_from(self.limits.len() - 1).expect("a message has few limits")
        })
    }
}

/// The same, with each position changed to the one in `places`.
fn moved(mut what: What, places: &[u32]) -> What {
    if let What::Acquire(demands) | What::Preview(demands) = &mut what {
        for demand in demands {
            let at = usize::try_from(demand.limit).ok().and_then(|at| places.get(at));
            demand.limit = *at.expect("a question's positions were checked");
        }
    }
    what
}
