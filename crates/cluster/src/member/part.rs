//! Taking part: from the moment that the node belongs to a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use leasehold_consensus::election::Timing;
use leasehold_consensus::runner::{CreateError, Runner, RunnerConfig};
use leasehold_consensus::types::GroupId;
use leasehold_control::NodeRecord;
use leasehold_model::NodeId;
use leasehold_wire::peer::Founding;

use super::gauges::count_leaders;
use super::{Inner, Phase, contact, load, place};
use crate::StartError;
use crate::coordinator::{Coordinator, Parts};
use crate::data::blocking;
use crate::follow::{self, Follower};
use crate::join::{self, JoinHandler};
use crate::machine::machines;
use crate::router::{Router, RouterParts};

/// Founders that vote in the control group at first. More would slow it down; the planner changes who votes later.
const CONTROL_VOTERS_MAX: usize = 7;

/// How long a node whose disk is full tries to hand over what it leads.
const HAND_OVER_MAX: Duration = Duration::from_secs(2);

/// What a member runs.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) runner: Runner,
    pub(super) router: Router,
    pub(super) coordinator: Coordinator,
    /// Kept: it is answered for as long as it is there.
    _joins: Arc<JoinHandler>,
}

/// Starts the replicas and all that follows from them. `peers` are those that were told when the node was let in.
pub(super) async fn take(inner: &Arc<Inner>, peers: Vec<(NodeId, String)>) -> Result<(), StartError> {
    inner.phase.send_replace(Phase::Waiting(contact::LEADERLESS.to_owned()));
    let founding = inner.identity.founded();
    introduce(inner, founding.as_ref(), &peers)?;
    let runner = open_runner(inner).await?;
    join_control(&runner, founding.as_ref(), inner.data.node()).await?;
    let (hinting, control) = (Arc::downgrade(inner), inner.control.subscribe());
    let router = Router::new(RouterParts {
        node: inner.data.node(),
        runner: runner.clone(),
        transport: inner.transport.clone(),
        clock: Arc::clone(&inner.clock),
        control: control.clone(),
        hint: Arc::new(move |group| hinting.upgrade()?.whereabouts.hint(group)),
    });
    router.serve();
    let joins = Arc::new(JoinHandler {
        name: inner.config.name.clone(),
        request: inner.identity.request().clone(),
        runner: runner.clone(),
        transport: inner.transport.clone(),
        router: router.clone(),
        control,
    });
    join::serve(&joins);
    let coordinator = coordinator(inner, &runner, &router, founding.clone());
    coordinator.serve();
    let first = founding.as_ref().and_then(follow::first_map);
    let follower = Follower {
        me: inner.data.node(),
        data: Arc::clone(&inner.data),
        clock: Arc::clone(&inner.clock),
        runner: runner.clone(),
        transport: inner.transport.clone(),
        control: inner.control.subscribe(),
        first,
        full: inner.log.full(),
        told: BTreeMap::new(),
        preferred: BTreeMap::new(),
    };
    coordinator.run(&inner.stop);
    if inner.part.set(Part { runner, router, coordinator, _joins: joins }).is_err() {
        return Ok(());
    }
    run(inner, follower);
    Ok(())
}

fn coordinator(
    inner: &Arc<Inner>,
    runner: &Runner,
    router: &Router,
    founding: Option<Founding>,
) -> Coordinator {
    let (hearing, router) = (Arc::downgrade(inner), router.clone());
    Coordinator::new(Parts {
        node: inner.data.node(),
        name: inner.config.name.clone(),
        runner: runner.clone(),
        transport: inner.transport.clone(),
        control: inner.control.subscribe(),
        members: Arc::new(move || {
            hearing.upgrade().map_or_else(Arc::default, |inner| inner.whereabouts.members())
        }),
        commands: Arc::new(move |command, deadline| {
            let router = router.clone();
            Box::pin(async move { router.command(command, deadline).await })
        }),
        founding,
        rules: inner.config.rules.clone(),
        replace_after: inner.config.replace_after,
        full: inner.log.full(),
        leaving: false.into(),
    })
}

/// Says where the others are, as far as is known before the control group tells.
fn introduce(
    inner: &Inner,
    founding: Option<&Founding>,
    peers: &[(NodeId, String)],
) -> Result<(), StartError> {
    for founder in founding.iter().flat_map(|founding| &founding.founders) {
        inner.transport.set_peer(founder.id, &founder.peer_address);
    }
    for (node, address) in inner.data.peers()? {
        inner.transport.set_peer(node, &address);
    }
    for (node, address) in peers {
        inner.transport.set_peer(*node, address);
    }
    Ok(())
}

async fn open_runner(inner: &Arc<Inner>) -> Result<Runner, StartError> {
    let log = inner.log.clone();
    let cleared = blocking(&inner.data, move |data| Ok(data.drop_unbegun(&log)?)).await;
    cleared.map_err(|error| StartError::System {
        what: "looking through the replicas",
        source: io::Error::other(error),
    })?;
    let ending = inner.fatal.clone();
    let config = RunnerConfig {
        control_timing: Timing::far_apart(),
        snapshot_every: inner.config.snapshot_every,
        keep_entries: inner.config.keep_entries,
        ..RunnerConfig::new(
            inner.data.node(),
            inner.data.groups(),
            inner.data.boot(),
            Arc::new(move |group: GroupId, reason: &str| {
                ending.tell(&format!("the replica of group {group} failed: {reason}"));
            }),
        )
    };
    let machines = machines(inner.config.bounds, Arc::clone(&inner.clock), inner.control.clone());
    Ok(Runner::open(config, inner.log.clone(), inner.transport.clone(), machines).await?)
}

/// Founders found the control group's replica, all others start it empty.
async fn join_control(runner: &Runner, founding: Option<&Founding>, me: NodeId) -> Result<(), CreateError> {
    let founders = founding.map(voters).filter(|founders| founders.contains(&me));
    let started = match founders {
        Some(founders) => runner.create_group(GroupId::CONTROL, &founders).await,
        None => runner.join_group(GroupId::CONTROL).await,
    };
    match started {
        Err(CreateError::Exists) => Ok(()),
        started => started,
    }
}

fn voters(founding: &Founding) -> BTreeSet<NodeId> {
    founding.founders.iter().map(|founder: &NodeRecord| founder.id).take(CONTROL_VOTERS_MAX).collect()
}

/// Starts what a member does beside serving.
fn run(inner: &Arc<Inner>, follower: Follower) {
    inner.spawn_until_stopped(follow_control(Arc::clone(inner), follower));
    inner.spawn_until_stopped(pass_on(Arc::clone(inner)));
    inner.spawn_until_stopped(mind_the_disk(Arc::clone(inner)));
    inner.spawn_until_stopped(load::tell(Arc::clone(inner)));
    inner.spawn_until_stopped(contact::keep(Arc::clone(inner)));
    inner.spawn_until_stopped(place::watch(Arc::clone(inner)));
    if let Some(events) = inner.part.get().map(|part| part.runner.events()) {
        let counting = Arc::clone(inner);
        inner.spawn_until_stopped(async move { count_leaders(events, &counting.leader_changes).await });
    }
}

async fn follow_control(inner: Arc<Inner>, follower: Follower) {
    if let Err(error) = follower.run().await {
        inner.fatal.tell(&error.to_string());
    }
}

/// A node whose disk is full can't lead: what it leads is handed over, as far as its successors have all of it already.
async fn mind_the_disk(inner: Arc<Inner>) {
    let mut full = inner.log.full();
    while full.changed().await.is_ok() {
        if *full.borrow_and_update() {
            tracing::error!("the disk is full: the node leaves service until there is room for the log");
            if let Some(part) = inner.part.get() {
                part.coordinator.step_back(HAND_OVER_MAX).await;
            }
        } else {
            tracing::info!("there is room for the log again: the node is back in service");
        }
    }
}

/// Passes the control state on.
async fn pass_on(inner: Arc<Inner>) {
    let mut control = inner.control.subscribe();
    control.mark_changed();
    while control.changed().await.is_ok() {
        let control = Arc::clone(&control.borrow_and_update());
        if control.cluster().is_some() {
            inner.whereabouts.follow(&control);
            inner.phase.send_replace(Phase::Member(control));
        }
    }
}
