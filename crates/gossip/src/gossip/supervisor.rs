//! Keeps chitchat's task running and carries values between it and the members' table.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use chitchat::transport::Transport;
use chitchat::{Chitchat, ChitchatConfig, ChitchatHandle, ChitchatId, FailureDetectorConfig, NodeState};
use leasehold_model::NodeId;
use rand::seq::IteratorRandom;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use super::Shared;
use crate::config::GossipConfig;
use crate::counters::{Counts, Reason};
use crate::members::{Change, Sighting};
use crate::message::IDS_MAX;
use crate::seal::Boot;
use crate::seeds::Seeds;
use crate::state::{self, LEAVING};

/// A node is dead when it has been silent for this many times its usual interval.
const SILENT_INTERVALS: f64 = 6.0;

/// Heartbeats that tell a node's usual interval. So few that the interval assumed at first (twice the gossip's) always
/// has half the say: the time to see a death stays between 6 and 12 gossip intervals however fast heartbeats come.
const HEARTBEATS: usize = 5;

/// How long chitchat itself remembers a dead boot of a node, and tells of it for the first half.
const DEAD_BOOT_KEPT: Duration = Duration::from_secs(120);

/// How long a deleted value is remembered as deleted.
const DELETED_KEPT: Duration = Duration::from_secs(60);

/// Values, of all boots of all nodes, that are kept. Beyond it gossip starts afresh: only a holder of the key can have
/// told so many.
const VALUES_MAX: usize = IDS_MAX * 80;

/// Without a heartbeat of its own for so long, chitchat's task is taken for stuck.
const STUCK_AFTER: Duration = Duration::from_secs(5);

/// Wait before a restart; doubles with each that follows shortly.
const RESTART_WAIT: Duration = Duration::from_millis(100);

/// The longest wait before a restart.
const RESTART_WAIT_MAX: Duration = Duration::from_secs(5);

/// Having run for so long, chitchat's task has recovered and the next restart waits briefly again.
const RECOVERED_AFTER: Duration = Duration::from_secs(30);

/// How often a seed is asked while others are live, so that two halves of a cluster find each other again.
const SEED_EVERY: Duration = Duration::from_secs(1);

/// How often refused datagrams make a line in the log at most.
const REFUSED_EVERY: Duration = Duration::from_secs(60);

pub(super) struct Supervisor {
    id: NodeId,
    boot: Boot,
    cluster: String,
    own_address: SocketAddr,
    interval: Duration,
    seeds: Seeds,
    transport: Box<dyn Transport>,
    shared: Arc<Shared>,
    stop: CancellationToken,
}

enum Ended {
    Stopped,
    Failed(String),
}

/// What one run of chitchat's task has shown so far.
struct Progress {
    heartbeat: u64,
    moved_at: Instant,
    seeded_at: Option<Instant>,
    refused: Counts,
    refused_at: Instant,
    /// Boots that have been live. Others are not reported: chitchat takes everybody for dead until a second heartbeat
    /// is heard, which would have all members die whenever its task is started again.
    confirmed: BTreeSet<ChitchatId>,
}

impl Supervisor {
    pub(super) fn new(
        config: &GossipConfig,
        listening: SocketAddr,
        seeds: Seeds,
        transport: Box<dyn Transport>,
        shared: Arc<Shared>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            id: config.id,
            boot: config.boot,
            cluster: config.keys.cluster().to_owned(),
            own_address: config.advertise.unwrap_or(listening),
            interval: config.interval,
            seeds,
            transport,
            shared,
            stop,
        }
    }

    pub(super) async fn run(self) {
        let mut wait = RESTART_WAIT;
        for restarts in 0_u64.. {
            let started = Instant::now();
            let ended = self.run_once(restarts).await;
            self.shared.healthy.store(false, Ordering::Release);
            match ended {
                Ended::Stopped => return,
                Ended::Failed(reason) => error!(reason, restarts, "gossip ended, starting it again"),
            }
            self.shared.counters.restarted();
            if started.elapsed() > RECOVERED_AFTER {
                wait = RESTART_WAIT;
            }
            if self.stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
                return;
            }
            wait = wait.saturating_mul(2).min(RESTART_WAIT_MAX);
        }
    }

    async fn run_once(&self, restarts: u64) -> Ended {
        let values = self.own_values().into_iter().collect();
        let handle =
            match chitchat::spawn_chitchat(self.chitchat_config(restarts), values, &*self.transport).await {
                Ok(handle) => handle,
                Err(error) => return Ended::Failed(error.to_string()),
            };
        self.shared.healthy.store(true, Ordering::Release);
        let ended = self.attend(&handle).await;
        match &ended {
            Ended::Stopped => self.leave(handle).await,
            Ended::Failed(_) => handle.abort(),
        }
        ended
    }

    fn chitchat_config(&self, restarts: u64) -> ChitchatConfig {
        let generation = self.boot.0.saturating_add(restarts);
        ChitchatConfig {
            chitchat_id: ChitchatId::new(format!("{:x}", self.id.0), generation, self.own_address),
            cluster_id: self.cluster.clone(),
            gossip_interval: self.interval,
            listen_addr: self.own_address,
            // Seeds are asked by the supervisor: chitchat looks names up once a minute and waits for them at start.
            seed_nodes: Vec::new(),
            failure_detector_config: FailureDetectorConfig {
                phi_threshold: SILENT_INTERVALS,
                sampling_window_size: HEARTBEATS,
                max_interval: self.interval.saturating_mul(10),
                initial_interval: self.interval.saturating_mul(2),
                dead_node_grace_period: DEAD_BOOT_KEPT,
            },
            marked_for_deletion_grace_period: DELETED_KEPT,
            catchup_callback: None,
            extra_liveness_predicate: None,
        }
    }

    async fn attend(&self, handle: &ChitchatHandle) -> Ended {
        let now = Instant::now();
        let refused = self.shared.counters.read();
        let mut progress = Progress {
            heartbeat: 0,
            moved_at: now,
            seeded_at: None,
            refused,
            refused_at: now,
            confirmed: BTreeSet::new(),
        };
        let ended = handle.termination_watcher();
        tokio::pin!(ended);
        let mut tick = tokio::time::interval(self.interval);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return Ended::Stopped,
                result = &mut ended => {
                    return Ended::Failed(result.err().map_or("it returned".to_owned(), |error| error.to_string()));
                }
                () = self.shared.own_changed.notified() => {
                    let values = self.own_values();
                    handle.with_chitchat(|chitchat| tell(chitchat.self_node_state(), &values)).await;
                }
                _ = tick.tick() => {
                    if let Err(reason) = self.round(handle, &mut progress).await {
                        return Ended::Failed(reason.to_owned());
                    }
                }
            }
        }
    }

    async fn round(&self, handle: &ChitchatHandle, progress: &mut Progress) -> Result<(), &'static str> {
        let values = self.own_values();
        let confirmed = &mut progress.confirmed;
        let report = handle.with_chitchat(|chitchat| Report::take(chitchat, &values, confirmed)).await;
        let now = Instant::now();
        if report.heartbeat != progress.heartbeat {
            (progress.heartbeat, progress.moved_at) = (report.heartbeat, now);
        }
        if now.duration_since(progress.moved_at) > STUCK_AFTER {
            return Err("it is stuck");
        }
        if report.ids > IDS_MAX || report.values > VALUES_MAX {
            return Err("it was told of more nodes or values than are kept");
        }
        self.ask_seeds(handle, report.sightings.iter().filter(|seen| seen.live).count() > 1, now, progress);
        self.take_in(report, now);
        self.log_refused(now, progress);
        Ok(())
    }

    fn take_in(&self, report: Report, now: Instant) {
        let counters = &self.shared.counters;
        counters.dropped_many(Reason::Value, report.bad_values);
        let mut roster = self.shared.roster.lock();
        let before = roster.members().clone();
        let left_out = roster.report(now.into_std(), report.sightings);
        counters.dropped_many(Reason::Members, left_out);
        for change in roster.members().changes_since(&before) {
            match change {
                Change::Joined(id) => info!(node = %id, "node heard of"),
                Change::Died(id) => info!(node = %id, "node no longer heard"),
                Change::Returned(id) => info!(node = %id, "node heard again"),
                Change::Gone(id) => info!(node = %id, "node made room for another"),
                Change::Changed(id) => debug!(node = %id, "node tells something new"),
            }
        }
        self.shared.publish(&roster);
    }

    /// Asks all seeds while nobody is live, one a second otherwise.
    fn ask_seeds(&self, handle: &ChitchatHandle, in_company: bool, now: Instant, progress: &mut Progress) {
        let due = progress.seeded_at.is_none_or(|at| now.duration_since(at) >= SEED_EVERY);
        if in_company && !due {
            return;
        }
        progress.seeded_at = Some(now);
        let seeds = self.seeds.addresses(self.own_address);
        let asked = if in_company { 1 } else { seeds.len() };
        for seed in seeds.into_iter().choose_multiple(&mut rand::rng(), asked) {
            // Fails only if the task has ended, which is noticed next.
            let _ = handle.gossip(seed);
        }
    }

    fn log_refused(&self, now: Instant, progress: &mut Progress) {
        if now.duration_since(progress.refused_at) < REFUSED_EVERY {
            return;
        }
        let counts = self.shared.counters.read();
        let since = |reason| counts.dropped_for(reason) - progress.refused.dropped_for(reason);
        let (forged, replayed, malformed) = (
            since(Reason::Forged),
            since(Reason::Replayed) + since(Reason::OldBoot),
            since(Reason::Malformed),
        );
        if forged + replayed + malformed > 0 {
            warn!(forged, replayed, malformed, "gossip datagrams refused in the last minute");
        }
        (progress.refused, progress.refused_at) = (counts, now);
    }

    /// Says goodbye, gives that two rounds to be heard, and stops.
    async fn leave(&self, handle: ChitchatHandle) {
        handle.with_chitchat(|chitchat| chitchat.self_node_state().set(LEAVING.0, LEAVING.1)).await;
        tokio::time::sleep(self.interval.saturating_mul(2)).await;
        if let Err(error) = handle.shutdown().await {
            debug!(%error, "gossip ended badly");
        }
    }

    fn own_values(&self) -> BTreeMap<String, String> {
        self.shared.own.lock().encode(self.id)
    }
}

/// Makes chitchat's values of this node those that it has to tell; also undoes what others claim in its name.
fn tell(state: &mut NodeState, values: &BTreeMap<String, String>) {
    let superfluous: Vec<String> = state
        .key_values()
        .map(|(key, _)| key)
        .filter(|key| !values.contains_key(*key))
        .map(str::to_owned)
        .collect();
    for key in superfluous {
        state.delete(&key);
    }
    for (key, value) in values {
        state.set(key, value);
    }
}

/// Everything that is read from chitchat in one round.
struct Report {
    sightings: Vec<Sighting>,
    heartbeat: u64,
    ids: usize,
    values: usize,
    bad_values: u64,
}

impl Report {
    fn take(
        chitchat: &mut Chitchat,
        own_values: &BTreeMap<String, String>,
        confirmed: &mut BTreeSet<ChitchatId>,
    ) -> Self {
        tell(chitchat.self_node_state(), own_values);
        confirmed.retain(|id| chitchat.node_state(id).is_some());
        let live: BTreeSet<&ChitchatId> = chitchat.live_nodes().collect();
        let mut report = Self {
            heartbeat: chitchat
                .node_state(chitchat.self_chitchat_id())
                .map_or(0, |own| own.heartbeat().into()),
            ids: chitchat.node_states().len(),
            sightings: Vec::new(),
            values: 0,
            bad_values: 0,
        };
        let mut latest: BTreeMap<NodeId, Sighting> = BTreeMap::new();
        for (id, node_state) in chitchat.node_states() {
            report.values += node_state.key_values_including_deleted().count();
            let (sighting, bad_values) = sight(id, node_state, live.contains(id));
            report.bad_values += bad_values;
            if live.contains(id) {
                confirmed.insert(id.clone());
            }
            if let Some(sighting) = sighting.filter(|_| confirmed.contains(id)) {
                // Ordered by generation: the latest boot of a node comes last.
                latest.insert(sighting.id, sighting);
            }
        }
        report.sightings = latest.into_values().collect();
        report
    }
}

fn sight(id: &ChitchatId, node_state: &NodeState, live: bool) -> (Option<Sighting>, u64) {
    let Some(node) = u64::from_str_radix(&id.node_id, 16).ok().map(NodeId) else { return (None, 1) };
    let decoded = state::decode(node, node_state.key_values());
    let sighting = decoded.profile.map(|profile| Sighting {
        id: node,
        boot: Boot(id.generation_id),
        gossip_address: id.gossip_advertise_addr,
        profile,
        live: live && !decoded.left,
    });
    (sighting, decoded.bad)
}
