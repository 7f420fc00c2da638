//! What a member does once a second: moves its shards' time on, tells how busy it is, listens for the control group's leader
//! and looks for it elsewhere when it isn't heard.

use std::sync::Arc;
use std::time::Duration;

use leasehold_consensus::types::GroupId;
use leasehold_control::{Command, Control, NodeRecord, Refusal, Reply};
use leasehold_gossip::Load;
use leasehold_model::{BootTime, Nanos, NodeId};
use leasehold_wire::peer::{ReplicaStatus, StatusReply, StatusRequest};
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::gauges::count_leaders;
use super::{Inner, Part, Phase, place};
use crate::calls::{FORM, STATUS};

/// How often.
const EVERY: Duration = Duration::from_secs(1);
/// How long the leader may take to say that it leads.
const STATUS_MAX: Duration = Duration::from_secs(1);
/// Nodes asked for the leader at a time.
const ASKED_MAX: usize = 4;
/// How long a seed may take to answer.
const ASK_MAX: Duration = Duration::from_secs(1);
/// How long registering may take.
const REGISTER_MAX: Duration = Duration::from_secs(3);
/// Without word of the control group's leader for so long, a node says that it isn't ready. Elections take under a second.
const SILENT_MAX: Nanos = Nanos::from_secs(4);
/// Without it for so long, it looks for the others at the seeds.
const SEEK_AFTER: Nanos = Nanos::from_secs(2);
/// Gossip that is down for so long makes a line in the log.
const GOSSIP_DOWN_MAX: Nanos = Nanos::from_secs(10);

/// What a member waits for until it knows its cluster's state.
pub(super) const LEADERLESS: &str = "waiting for a leader of the control group";

/// When this node last had word of the control group's leader.
#[derive(Debug, Default)]
pub(super) struct Vitals(Mutex<Heard>);

#[derive(Clone, Debug, Default)]
struct Heard {
    leader_at: Option<BootTime>,
    /// The leader says that this node has no part in the group.
    outside: bool,
    gossip_at: Option<BootTime>,
    gossip_told: bool,
    /// Why the data directory doesn't belong here.
    misplaced: Option<String>,
}

/// What the control group's leader said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    /// It leads, and this node has a part in the group.
    Inside,
    /// It leads, and this node has none.
    Outside,
    /// Nothing.
    Silence,
}

impl Vitals {
    /// # Errors
    /// Why this node isn't ready, in words.
    pub(super) fn check(&self, now: BootTime) -> Result<(), String> {
        let heard = self.0.lock().clone();
        if let Some(why) = heard.misplaced {
            return Err(why);
        }
        if heard.outside {
            return Err("the control group's leader says that this node has no part in the group".to_owned());
        }
        let silent = heard.leader_at.map_or(Nanos::MAX, |at| now.since(at));
        if silent > SILENT_MAX {
            return Err("no leader of the control group is heard: this node is cut off from most others, \
                        or most of them are down"
                .to_owned());
        }
        Ok(())
    }

    /// Why the data directory doesn't belong here, if that is so.
    pub(super) fn misplaced(&self) -> Option<String> {
        self.0.lock().misplaced.clone()
    }

    pub(super) fn set_misplaced(&self, why: Option<String>) {
        self.0.lock().misplaced = why;
    }

    fn silent(&self, now: BootTime) -> Nanos {
        self.0.lock().leader_at.map_or(Nanos::MAX, |at| now.since(at))
    }

    fn take(&self, word: Word, now: BootTime) {
        let mut heard = self.0.lock();
        match word {
            Word::Inside => (heard.leader_at, heard.outside) = (Some(now), false),
            Word::Outside => heard.outside = true,
            Word::Silence => {}
        }
    }

    /// Whether it is time to say that gossip is down.
    fn gossip(&self, runs: bool, now: BootTime) -> bool {
        let mut heard = self.0.lock();
        if runs {
            (heard.gossip_at, heard.gossip_told) = (Some(now), false);
            return false;
        }
        let since = *heard.gossip_at.get_or_insert(now);
        let due = now.since(since) > GOSSIP_DOWN_MAX && !heard.gossip_told;
        heard.gossip_told |= due;
        due
    }
}

/// Starts it all.
pub(super) fn run(inner: &Arc<Inner>) {
    let beating = Arc::clone(inner);
    inner.tasks.spawn(async move {
        let stop = beating.stop.clone();
        stop.run_until_cancelled(beat(&beating)).await;
    });
    let listening = Arc::clone(inner);
    inner.tasks.spawn(async move {
        let stop = listening.stop.clone();
        stop.run_until_cancelled(listen(&listening)).await;
    });
    let watching = Arc::clone(inner);
    inner.tasks.spawn(async move {
        let stop = watching.stop.clone();
        stop.run_until_cancelled(place::watch(&watching)).await;
    });
    let Some(events) = inner.part.get().map(|part| part.runner.events()) else { return };
    let counting = Arc::clone(inner);
    inner.tasks.spawn(async move {
        let stop = counting.stop.clone();
        stop.run_until_cancelled(count_leaders(events, &counting.leader_changes)).await;
    });
}

/// What takes no time.
async fn beat(inner: &Inner) {
    let mut tick = every();
    let mut before = Usage::read(inner);
    loop {
        tick.tick().await;
        let Some(part) = inner.part.get() else { return };
        part.router.tick();
        let now = Usage::read(inner);
        let led = crate::whereabouts::led(&part.runner, inner.data.node());
        let leading = u64::try_from(led.len()).unwrap_or(u64::MAX);
        inner.whereabouts.tell(now.load_since(before, leading), led);
        before = now;
        if inner.vitals.gossip(inner.whereabouts.healthy(), inner.clock.boot()) {
            tracing::warn!("gossip is down: leaders are found more slowly, nothing else changes");
        }
    }
}

/// What asks others.
async fn listen(inner: &Inner) {
    let mut tick = every();
    loop {
        tick.tick().await;
        let Some(part) = inner.part.get() else { return };
        let word = ask_leader(inner, part).await;
        inner.vitals.take(word, inner.clock.boot());
        let control = Arc::clone(&inner.control.borrow());
        if word == Word::Outside || (word == Word::Inside && is_stale(inner, &control)) {
            register(inner, part).await;
        }
        if inner.vitals.silent(inner.clock.boot()) > SEEK_AFTER {
            let strangers = seek(inner).await;
            tell_missing(inner, &strangers);
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

fn every() -> tokio::time::Interval {
    let mut tick = interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tick
}

/// What was used and done so far.
#[derive(Clone, Copy, Debug)]
struct Usage {
    at: BootTime,
    cpu: Nanos,
    commands: u64,
    keys: u64,
}

impl Usage {
    fn read(inner: &Inner) -> Self {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let nanos = |number: i64| u64::try_from(number).unwrap_or(0);
        let counts = inner.part.get().map(|part| part.router.counts()).unwrap_or_default();
        Self {
            at: inner.clock.boot(),
            cpu: Nanos(nanos(time.tv_sec).saturating_mul(1_000_000_000).saturating_add(nanos(time.tv_nsec))),
            commands: counts.commands.saturating_add(counts.unlogged),
            keys: inner.part.get().map(|part| part.holdings().keys).unwrap_or_default(),
        }
    }

    fn load_since(self, before: Self, leading: u64) -> Load {
        let millis = (self.at.since(before.at).0 / 1_000_000).max(1);
        let cpu_micros = self.cpu.0.saturating_sub(before.cpu.0) / 1_000;
        let commands = self.commands.saturating_sub(before.commands);
        Load {
            cpu_millicores: cpu_micros / millis,
            keys: self.keys,
            decisions_per_second: commands.saturating_mul(1_000) / millis,
            leading,
        }
    }
}
