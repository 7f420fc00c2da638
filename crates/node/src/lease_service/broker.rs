//! A node as the broker of its region: it lends edges what it holds of counters whose owners are in other regions.
//!
//! Invariant: which way an ask goes is a choice of where the units come from, never of how many there are: they were
//! charged at the owner before, to the edge or to this node. A leader that changes regions changes the way, and what an
//! edge says then of leases from the other way is passed over: their rest counts as spent when their time is over.
//!
//! Numbers for shares are the owner's to give: an ask for one goes past the broker.

use std::sync::Arc;

use leasehold_client::{NoGrant, UpstreamAsk};
use leasehold_cluster::{Cluster, Phase};
use leasehold_decide::Terms;
use leasehold_limit::rules::{Lease, OnUnavailable, Scope};
use leasehold_model::Key;
use leasehold_shard::Settled;
use leasehold_wire::lease::{Outcome, Unanswered};
use tokio::sync::watch;
use tokio::time::Instant;

use super::{ChildAsk, Lender};
use crate::authority::{ClusterAuthority, NodeLeases};

/// What the wallet hands on with an ask, and nobody in a cluster reads.
const TERMS: Terms = Terms {
    lease: Lease::Auto,
    scope: Scope::Global,
    on_unavailable: OnUnavailable::Deny,
    local: None,
    overshoot: None,
    edges: 0,
};

/// See the module.
#[derive(Debug)]
pub(crate) struct Broker {
    leases: Option<Arc<NodeLeases>>,
    cluster: Cluster,
    phase: watch::Receiver<Phase>,
    /// Of this node. Empty: regions aren't named, and nothing is far.
    region: String,
}

impl Broker {
    /// Lends what `authority` holds, in `region`.
    pub(crate) fn new(authority: &ClusterAuthority, region: String) -> Self {
        let cluster = authority.cluster().clone();
        Self { leases: authority.leases().cloned(), phase: cluster.phase(), cluster, region }
    }

    /// Whether the counter's owner is known to be in another region.
    fn is_far(&self, key: Key) -> Option<bool> {
        let control = match &*self.phase.borrow() {
            Phase::Member(control) => Arc::clone(control),
            Phase::Waiting(_) => return None,
        };
        let leader = self.cluster.leader(control.layout()?.shards.of(key))?;
        let region = &control.nodes().get(&leader)?.region;
        Some(!region.is_empty() && **region != *self.region)
    }
}

impl Lender for Broker {
    fn lends(&self, key: Key, scope: Scope) -> bool {
        let may = self.leases.is_some() && scope == Scope::Global && !self.region.is_empty();
        may && self.is_far(key) == Some(true)
    }

    async fn lend(&self, ask: ChildAsk, deadline: Instant) -> Outcome {
        let ChildAsk { id, spec, ask } = ask;
        let Some(leases) = &self.leases else { return Outcome::Unanswered(Unanswered::Unreachable) };
        let ask = UpstreamAsk { id, spec: Arc::new(spec), terms: TERMS, ask };
        match leases.lend(ask, deadline).await {
            Ok(leased) => Outcome::Leased { leased, slot_parts: 1 },
            Err(NoGrant::Unreachable) => Outcome::Unanswered(Unanswered::Unreachable),
            Err(NoGrant::Overloaded) => Outcome::Unanswered(Unanswered::Overloaded),
            Err(NoGrant::Refused(refusal)) => Outcome::Refused(refusal),
        }
    }

    fn settled(&self, settled: Settled) {
        if let Some(leases) = &self.leases {
            leases.child_settled(settled);
        }
    }
}
