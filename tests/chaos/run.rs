//! One run of one scenario: trouble, healing, calm; a history of it, and the logs of its processes.
//!
//! Invariant: it ends. Every part has its time, every load its bound, and whoever interrupts it takes its processes along.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use leasehold_model::planted::Bug;
use leasehold_tests::{Deadline, is_required, require};
use serde_json::json;
use thiserror::Error;

use crate::faults::{Driver, rules_version};
use crate::history::{Event, PhaseName, Rules, Run};
use crate::isolate;
use crate::record::Record;
use crate::report::HISTORY;
use crate::scenario::{LimitSpec, Need, Planned, Scenario, plan};
use crate::traffic::Traffic;
use crate::world::World;

/// Loads have begun and every edge holds something.
const SETTLES: Duration = Duration::from_secs(2);

/// A limit that refills in no less than this hardly does while a run lasts: what is used of it is compared with what was
/// admitted.
const HARDLY_REFILLS_S: u64 = 3_600;

/// Leases are over by then: five seconds, and what clocks may differ.
const LEASES_END: Duration = Duration::from_millis(5_600);

/// What is asked of a run.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) seed: u64,
    /// How long the trouble lasts; `None`: as the scenario says.
    pub(crate) minutes: Option<f64>,
    /// Where runs are kept, a folder each.
    pub(crate) out: PathBuf,
    /// The bug that its processes have.
    pub(crate) planted: Option<Bug>,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub(crate) enum Ran {
    /// There is a history of it.
    Done(PathBuf),
    /// This machine doesn't have what it needs.
    Skipped(Need),
}

/// Why there is no run.
#[derive(Debug, Error)]
pub(crate) enum RunError {
    /// Whoever runs it said that it must be there.
    #[error("{scenario} needs {}, which can't be used here, and LEASEHOLD_REQUIRE says that it must be", need.name())]
    Required { scenario: String, need: Need },
    /// The harness's own trouble.
    #[error("{doing}: {source}")]
    Io { doing: String, source: io::Error },
}

impl RunError {
    fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }
}

/// Runs a scenario, whatever comes of it.
///
/// # Errors
/// When it can't be run at all.
pub(crate) async fn run(scenario: &Scenario, order: &Order) -> Result<Ran, RunError> {
    if let Some(need) = lacking(scenario, is_there, is_required)? {
        return Ok(Ran::Skipped(need));
    }
    let folder = order.out.join(format!("{}-{}", scenario.name, order.seed));
    fs::create_dir_all(&folder).map_err(RunError::io(format!("making {}", folder.display())))?;
    let planned = plan(scenario, order.seed, scenario.trouble(order.minutes));
    let mut world = World::start(scenario, order.seed, order.planted)
        .await
        .map_err(RunError::io(format!("starting {}", scenario.name)))?;
    let record = Record::create(&folder.join(HISTORY)).map_err(RunError::io("beginning a history"))?;
    let outcome = parts(scenario, order, &planned, &mut world, &record).await;
    world.write_logs(&folder.join("logs")).map_err(RunError::io("writing logs"))?;
    outcome.map_err(RunError::io(scenario.name.clone()))?;
    Ok(Ran::Done(folder))
}

/// What this machine doesn't have of what a scenario needs, if it may be skipped.
fn lacking(
    scenario: &Scenario,
    is_there: impl Fn(Need) -> bool,
    is_required: impl Fn(&str) -> bool,
) -> Result<Option<Need>, RunError> {
    match scenario.needs().into_iter().find(|need| !is_there(*need)) {
        Some(need) if is_required(need.name()) => {
            Err(RunError::Required { scenario: scenario.name.clone(), need })
        }
        lacking => Ok(lacking),
    }
}

/// Trouble, healing, calm.
async fn parts(
    scenario: &Scenario,
    order: &Order,
    planned: &[Planned],
    world: &mut World,
    record: &Record,
) -> io::Result<()> {
    record.write(&Event::Run(about(scenario, order.seed)));
    let version = rules_version(world).await.unwrap_or(1);
    let limits = scenario.limits.iter().map(LimitSpec::describe).collect();
    record.write(&Event::Rules(Rules { version, pushed: 0, in_force: Some(0), limits }));

    let mut traffic =
        Traffic::new(record.clone(), world.node_doors(), world.edge_doors(), &scenario.limits, order.seed);
    traffic.begin(&scenario.loads[0]).await;
    world.find_hot().await;
    for (number, load) in scenario.loads.iter().enumerate() {
        traffic.start(number, load);
    }
    let watching = tokio::spawn(world.watched().watch(record.clone()));
    tokio::time::sleep(SETTLES).await;

    record.phase(PhaseName::Trouble);
    let trouble = Deadline::after(scenario.trouble(order.minutes));
    Driver::new(world, record.clone()).run(planned).await?;
    tokio::time::sleep(trouble.left()).await;

    record.phase(PhaseName::Heal);
    let unserved = world.heal(Duration::from_secs(scenario.phases.heal_s)).await;
    if !unserved.is_empty() {
        record.reached("not-healed", unserved.join("; "));
    }
    // What dead edges held comes back no sooner.
    tokio::time::sleep(if scenario.topology.edges > 0 { LEASES_END } else { SETTLES }).await;

    record.phase(PhaseName::Calm);
    tokio::time::sleep(Duration::from_secs(scenario.phases.calm_s)).await;
    traffic.stop().await;
    let (unknown, answered) = traffic.ask_again().await;
    say(&format!(
        "{} checks; {unknown} asked again for their outcome, {answered} for the same answer",
        traffic.begun()
    ));
    // Edges hand back what they don't use; what a lease holds is used.
    tokio::time::sleep(if scenario.topology.edges > 0 { LEASES_END } else { SETTLES }).await;
    watching.abort();
    let quotas: Vec<&LimitSpec> =
        scenario.limits.iter().filter(|limit| limit.period_s >= HARDLY_REFILLS_S).collect();
    traffic.peek(&scenario.loads, &quotas).await;
    world.watched().look(record).await;
    record.phase(PhaseName::End);
    Ok(())
}

/// The first line of a history.
fn about(scenario: &Scenario, seed: u64) -> Run {
    let (hold, topology) = (&scenario.hold, &scenario.topology);
    let mut described = format!("{} nodes, {} sidecars", topology.nodes, topology.edges);
    if !topology.regions.is_empty() {
        described.push_str(&format!(", regions {}", topology.regions.join(" and ")));
    }
    described.push_str(if isolate::is_inside() { ", in namespaces" } else { ", on the loopback" });
    // What isn't said is as whoever reads it takes it.
    let said =
        json!({ "scenario": scenario.name, "seed": seed, "topology": "", "commit": "", "started": "" });
    let defaults: Run = serde_json::from_value(said).expect("a run needs no more");
    Run {
        topology: described,
        commit: printed(Command::new("git").args(["rev-parse", "--short=12", "HEAD"])),
        started: printed(Command::new("date").args(["--utc", "+%FT%TZ"])),
        machine: machine(),
        clock_ppm: hold.clock_ppm.unwrap_or(defaults.clock_ppm),
        regrant_ns: hold.regrant_ms.map_or(defaults.regrant_ns, |ms| ms * 1_000_000),
        memory_max: hold.memory_max_mib.map(|mib| mib << 20),
        must_reach: hold.must_reach.clone(),
        ..defaults
    }
}

/// Cores, and how busy they were before.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().next().unwrap_or("unknown");
    format!("{cores} cores, load {load} at the start")
}

/// What a program prints; empty when it can't.
fn printed(command: &mut Command) -> String {
    let output = command.output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&output).trim().to_owned()
}

fn is_there(need: Need) -> bool {
    match need {
        Need::Namespaces => isolate::is_inside(),
        Need::Mount => isolate::is_inside() || rustix::process::geteuid().is_root(),
        Need::Faketime => require("libfaketime").is_some(),
        Need::Cc => require("cc").is_some(),
    }
}

/// Tells whoever waits.
pub(crate) fn say(line: &str) {
    eprintln!("{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_machine_lacks_is_skipped_unless_it_is_required() {
        let scenario = Scenario::named("clock-steps").expect("it comes with the harness");
        let nothing = |_: Need| false;
        let skipped = lacking(&scenario, nothing, |_| false);
        assert!(matches!(skipped, Ok(Some(Need::Faketime))), "{skipped:?}");
        let failed = lacking(&scenario, nothing, |name| name == "libfaketime");
        let said = failed.expect_err("it is required").to_string();
        assert!(said.starts_with("clock-steps needs libfaketime, which can't be used here"), "{said}");
        assert!(matches!(lacking(&scenario, |_| true, |_| true), Ok(None)));
    }
}
