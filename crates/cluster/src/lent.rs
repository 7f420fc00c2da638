//! What is out on leases of all shards: each leader tells of its own, and the node that is asked puts it together.
//!
//! Invariant: a shard counts once, by the word of the node that answers for it. It is a look from outside: nothing waits
//! for it, and who doesn't answer in time is left out and counted.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use leasehold_consensus::runner::Runner;
use leasehold_consensus::transport::{Incoming, Refusal};
use leasehold_consensus::types::GroupId;
use leasehold_model::{NodeId, ShardId, TenantId};
use leasehold_shard::{LeaseNumbers, LentLease, LentLeases};
use leasehold_wire::peer::{LeasesReply, LeasesRequest};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;

use crate::calls;
use crate::coordinator::Parts;
use crate::machine::ShardMachine;

/// Who doesn't answer within this is left out.
const WITHIN: Duration = Duration::from_secs(1);
/// Leases that one node tells of: they fit one message. Whoever wants more gets this many.
pub(crate) const LEASES_MAX: u32 = 1_000;

/// What is out on leases, as the leaders that answered say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lent {
    /// Those with the most units out first, each with its shard.
    pub leases: Vec<(ShardId, LentLease)>,
    /// Whether there are more.
    pub more: bool,
    /// All shards together that a leader answered for.
    pub numbers: LeaseNumbers,
    /// Shards that no leader answered for.
    pub unanswered: u64,
}

/// Asks everybody for the `most` leases with the most units out; of one tenant's counters, if one is named.
pub(crate) async fn gather(parts: &Arc<Parts>, tenant: Option<TenantId>, most: u32) -> Lent {
    let control = parts.control();
    let nodes = control.nodes().keys().copied().filter(|node| parts.connected(*node)).chain([parts.node]);
    let request = LeasesRequest { most: most.min(LEASES_MAX), tenant };
    let replies = ask_all(parts, nodes.collect(), request).await;
    put_together(replies, control.map().shards.len(), usize::try_from(most).unwrap_or(usize::MAX))
}

/// Answers another node.
pub(crate) async fn answer(parts: Arc<Parts>, call: Incoming) -> Result<Bytes, Refusal> {
    let request = LeasesRequest::decode(call.payload).map_err(|_| Refusal::Malformed)?;
    Ok(of_this_node(&parts.runner, request).await.encode())
}

async fn ask_all(
    parts: &Arc<Parts>,
    nodes: BTreeSet<NodeId>,
    request: LeasesRequest,
) -> Vec<(NodeId, LeasesReply)> {
    let mut asked = JoinSet::new();
    for node in nodes {
        let parts = Arc::clone(parts);
        asked.spawn(async move {
            let answer = timeout(WITHIN, ask(&parts, node, request)).await;
            Some((node, answer.ok().flatten()?))
        });
    }
    asked.join_all().await.into_iter().flatten().collect()
}

async fn ask(parts: &Parts, node: NodeId, request: LeasesRequest) -> Option<LeasesReply> {
    if node == parts.node {
        return Some(of_this_node(&parts.runner, request).await);
    }
    let answer = parts.transport.call(node, calls::LEASES, GroupId::CONTROL, request.encode(), WITHIN).await;
    LeasesReply::decode(answer.ok()?).ok()
}

/// Walking over leases takes as long as there are many: not on a thread that others wait for.
async fn of_this_node(runner: &Runner, request: LeasesRequest) -> LeasesReply {
    let runner = runner.clone();
    // It panicked, which left a line, or the runtime is going down.
    spawn_blocking(move || look(&runner, request)).await.unwrap_or_default()
}

fn look(runner: &Runner, request: LeasesRequest) -> LeasesReply {
    let most = usize::try_from(request.most.min(LEASES_MAX)).unwrap_or(usize::MAX);
    let mut reply = LeasesReply::default();
    for group in runner.groups() {
        let Some(shard) = group.shard().filter(|_| runner.is_leader(group)) else { continue };
        let looked = runner.with_machine(group, |machine: &ShardMachine| {
            let held = &machine.shard;
            (held.lent(request.tenant, held.last(), most), held.lease_numbers())
        });
        let Some((LentLeases { leases, more }, numbers)) = looked else { continue };
        reply.shards.push((shard, numbers));
        reply.leases.extend(leases.into_iter().map(|lease| (shard, lease)));
        reply.more |= more;
    }
    reply.more |= keep(&mut reply.leases, most);
    reply
}

/// Keeps those with the most units out; whether any had to go.
fn keep(leases: &mut Vec<(ShardId, LentLease)>, most: usize) -> bool {
    leases.sort_by_key(|(shard, lease)| (Reverse(lease.out()), *shard, lease.key, lease.edge));
    let cut = leases.len() > most;
    leases.truncate(most);
    cut
}

/// Of two that tell of one shard, one has just stopped leading it: the first is as good as the other.
fn put_together(replies: Vec<(NodeId, LeasesReply)>, shards: usize, most: usize) -> Lent {
    let mut told: BTreeMap<ShardId, (NodeId, LeaseNumbers)> = BTreeMap::new();
    let mut lent = Lent::default();
    for (node, reply) in replies {
        for (shard, numbers) in reply.shards {
            told.entry(shard).or_insert((node, numbers));
        }
        let its = |shard| told.get(&shard).is_some_and(|(teller, _)| *teller == node);
        lent.leases.extend(reply.leases.into_iter().filter(|(shard, _)| its(*shard)));
        lent.more |= reply.more;
    }
    lent.more |= keep(&mut lent.leases, most);
    lent.numbers = told.values().fold(LeaseNumbers::default(), |sum, (_, numbers)| sum.plus(*numbers));
    lent.unanswered = u64::try_from(shards.saturating_sub(told.len())).unwrap_or(u64::MAX);
    lent
}

#[cfg(test)]
mod tests;
