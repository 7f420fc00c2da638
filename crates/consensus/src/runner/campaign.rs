//! Asking the other voters, and electing when they agree.
//!
//! Invariant: Raft's own election starts only on a majority's word, and only if no leader was heard, and no vote given, while it was asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use leasehold_model::{Nanos, NodeId};
use leasehold_wire::raft;
use tokio::task::JoinSet;

use super::contact::ROUND_TRIP_MAX;
use super::group::Group;
use super::messages;
use crate::clock;
use crate::election::{Opinion, Verdict, tally};
use crate::transport::{Kind, Transport};
use crate::types::GroupId;

/// Voters that don't answer in this time, and in the time that a message there and back takes, have no opinion.
const ASK_MAX: Duration = Duration::from_millis(150);
/// The longest that a voter's word that it hears a leader is believed without asking again.
const LEADER_FOR_MS_MAX: u64 = 10_000;

/// Asks once, acts on the verdict, and says when to ask again.
pub(super) async fn campaign(group: &Arc<Group>) {
    let known = || (group.contact.mark(), group.vote());
    let before = known();
    let verdict = ask(group).await;
    tracing::debug!(group = group.id.0, ?verdict, "asked to lead");
    if verdict == Verdict::Elect && !group.leads() && known() == before {
        group.contact.vote(clock::now());
        // A replica that has failed is told of where it failed.
        let _ = group.raft.trigger().elect().await;
    }
    group.election.lock().answered(clock::now(), verdict);
}

async fn ask(group: &Group) -> Verdict {
    let voter_sets = group.voter_sets();
    let voters: BTreeSet<u64> = voter_sets.iter().flatten().copied().collect();
    if !voters.contains(&group.me) {
        return Verdict::NoMajority;
    }
    let last = group.last_log().as_ref().map(messages::log_id);
    let question = raft::encode(&raft::PreVoteRequest { last });
    let mut asked = JoinSet::new();
    for voter in voters.into_iter().filter(|voter| *voter != group.me) {
        let (transport, question) = (group.transport.clone(), question.clone());
        let id = group.id;
        asked.spawn(async move { (voter, opinion(&transport, id, voter, question).await) });
    }
    // Its own promise holds as well: a leader that only this replica heard may serve until it is over.
    let own = Opinion {
        leader_for: group.contact.promised_for(clock::now(), group.candidate_for()),
        behind: false,
    };
    let mut opinions = BTreeMap::from([(group.me, own)]);
    let mut verdict = tally(&voter_sets, &opinions);
    while let Some(answer) = asked.join_next().await {
        if let Ok((voter, Some(opinion))) = answer {
            opinions.insert(voter, opinion);
            verdict = tally(&voter_sets, &opinions);
        }
        if verdict == Verdict::Elect {
            break;
        }
    }
    verdict
}

async fn opinion(
    transport: &Transport,
    group: GroupId,
    voter: u64,
    question: bytes::Bytes,
) -> Option<Opinion> {
    let within = ASK_MAX + transport.round_trip(NodeId(voter)).unwrap_or_default().min(ROUND_TRIP_MAX);
    let answer = transport.call(NodeId(voter), Kind::PRE_VOTE, group, question, within).await.ok()?;
    let reply: raft::PreVoteReply = raft::decode(answer).ok()?;
    // A peer can put a question off for a while, not for ever.
    let leader_for = Nanos::from_millis(reply.leader_for_ms.min(LEADER_FOR_MS_MAX));
    Some(Opinion { leader_for, behind: reply.behind })
}
