//! A member's contact with the control group's leader: it asks once a second, registers what has changed, and looks elsewhere
//! for a leader that it doesn't hear.
//!
//! Invariant: who answers at an address proves itself before anything is believed.

use std::sync::Arc;
use std::time::Duration;

use leasehold_consensus::types::GroupId;
use leasehold_control::{Command, Control, NodeRecord, Refusal, Reply};
use leasehold_model::{Nanos, NodeId};
use leasehold_wire::peer::{ReplicaStatus, StatusReply, StatusRequest};
use tokio::time::Instant;

use super::vitals::Word;
use super::{Inner, Part, Phase, each_second};
use crate::calls::{FORM, STATUS};

/// How long the leader may take to say that it leads.
const STATUS_MAX: Duration = Duration::from_secs(1);
/// Nodes asked for the leader at a time.
const ASKED_MAX: usize = 4;
/// How long a seed may take to answer.
const ASK_MAX: Duration = Duration::from_secs(1);
/// How long registering may take.
const REGISTER_MAX: Duration = Duration::from_secs(3);
/// Without word of the leader for so long, a member looks for the others at the seeds.
const SEEK_AFTER: Nanos = Nanos::from_secs(2);

/// What a member waits for until it knows its cluster's state.
pub(super) const LEADERLESS: &str = "waiting for a leader of the control group";

/// Goes on until the node stops.
pub(super) async fn keep(inner: Arc<Inner>) {
    let mut tick = each_second();
    loop {
        tick.tick().await;
        let Some(part) = inner.part.get() else { return };
        let word = ask_leader(&inner, part).await;
        inner.vitals.take(word, inner.clock.boot());
        let control = Arc::clone(&inner.control.borrow());
        if word == Word::Outside || (word == Word::Inside && is_stale(&inner, &control)) {
            register(&inner, part).await;
        }
        if inner.vitals.silent(inner.clock.boot()) > SEEK_AFTER {
            let strangers = seek(&inner).await;
            tell_missing(&inner, &strangers);
        }
    }
}

/// Asks the leader, or whoever may know it.
async fn ask_leader(inner: &Inner, part: &Part) -> Word {
    let me = inner.data.node();
    if part.runner.is_leader(GroupId::CONTROL) {
        return Word::Inside;
    }
    let connected = inner.transport.peers().into_iter().filter(|(_, up)| *up).map(|(node, _)| node);
    let mut ask: Vec<NodeId> =
        [part.runner.leader(GroupId::CONTROL), inner.whereabouts.hint(GroupId::CONTROL)]
            .into_iter()
            .flatten()
            .chain(connected)
            .filter(|node| *node != me)
            .collect();
    ask.reverse();
    for _ in 0..ASKED_MAX {
        let Some(node) = ask.pop() else { break };
        let Some(replica) = control_replica(inner, node).await else { continue };
        if replica.serving {
            let votes = replica.voters.iter().any(|voters| voters.contains(&me));
            return if votes || replica.learners.contains(&me) { Word::Inside } else { Word::Outside };
        }
        ask.extend(replica.leader.filter(|leader| *leader != me && *leader != node));
    }
    Word::Silence
}

async fn control_replica(inner: &Inner, node: NodeId) -> Option<ReplicaStatus> {
    let request = StatusRequest { groups: vec![GroupId::CONTROL.0], hash: false }.encode();
    let answer = inner.transport.call(node, STATUS, GroupId::CONTROL, request, STATUS_MAX).await.ok()?;
    let reply = StatusReply::decode(answer).ok()?;
    reply.replicas.into_iter().find(|replica| replica.group == GroupId::CONTROL.0)
}

/// Whether something else may be registered of this node than what it is. A node that doesn't hear what the control group
/// decides, although its leader answers, may have moved: it isn't found where it was.
fn is_stale(inner: &Inner, control: &Control) -> bool {
    if control.cluster().is_none() {
        return true;
    }
    let own = &inner.identity.request().record;
    let known = control.nodes().get(&own.id);
    known.is_some_and(|known| NodeRecord { standing: own.standing, ..known.clone() } != *own)
}

async fn register(inner: &Inner, part: &Part) {
    let record = inner.identity.request().record.clone();
    let (id, command) = (record.id, Command::Register(record));
    match part.router.command(command, Instant::now() + REGISTER_MAX).await {
        Ok(Reply::Refused(Refusal::Replaced(_))) => {
            inner.fatal.tell(&crate::follow::FollowError::Dead(id).to_string());
        }
        Ok(Reply::Refused(Refusal::NotCreated)) => tracing::debug!("there is nothing to register with yet"),
        Ok(Reply::Refused(why)) => tracing::warn!(%why, "this node can't register"),
        Ok(Reply::Done | Reply::Rules(_) | Reply::Map(_)) => tracing::debug!("registered"),
        Err(error) => tracing::debug!(%error, "not registered yet"),
    }
}

/// Nodes may have moved while this one was away: what answers at the seeds and what gossip says of others is tried where the
/// known address leads nowhere. Who answers there proves itself before anything is believed. Returns the seeds where nodes
/// of other clusters answer.
async fn seek(inner: &Inner) -> Vec<String> {
    let mut strangers = Vec::new();
    let Some(me) = inner.transport.identity() else { return strangers };
    let away = |node: NodeId| node != me.node && !inner.transport.peers().contains(&(node, true));
    for seed in &inner.config.seeds {
        let question = inner.identity.request().clone().encode();
        let answer = inner.transport.call_address(seed, FORM, question, ASK_MAX).await;
        match answer {
            Ok((Some(answers), _)) if answers.cluster != me.cluster => strangers.push(seed.clone()),
            Ok((Some(answers), _)) if away(answers.node) => inner.transport.set_peer(answers.node, seed),
            Ok(_) | Err(_) => {}
        }
    }
    let known = Arc::clone(&inner.control.borrow());
    for member in inner.whereabouts.members().live() {
        let address = &member.profile.peer_address;
        let moved = known.nodes().get(&member.id).is_some_and(|node| node.peer_address != *address);
        if moved && away(member.id) {
            inner.transport.set_peer(member.id, address);
        }
    }
    strangers
}

/// Says whom a node waits for that belongs to a cluster and knows nothing of it yet.
fn tell_missing(inner: &Inner, strangers: &[String]) {
    let founders = inner.identity.founding().map(|founding| founding.founders).unwrap_or_default();
    let name = |node: NodeId| {
        let record = founders.iter().find(|founder| founder.id == node);
        record.map_or_else(|| format!("node {node}"), |record| record.peer_address.to_string())
    };
    let away: Vec<String> =
        inner.transport.peers().into_iter().filter(|(_, up)| !up).map(|(node, _)| name(node)).collect();
    let mut text = LEADERLESS.to_owned();
    if !away.is_empty() {
        text = format!("{text}; not reached: {}", away.join(", "));
    }
    if !strangers.is_empty() {
        text = format!(
            "{text}; at {} a node of another cluster answers: if that is the right one, empty this node's data \
             directory, it will join there",
            strangers.join(", ")
        );
    }
    let told = inner.phase.send_if_modified(|phase| match phase {
        Phase::Waiting(known) if *known != text => {
            known.clone_from(&text);
            true
        }
        Phase::Waiting(_) | Phase::Member(_) => false,
    });
    if told {
        tracing::info!("{text}");
    }
}
