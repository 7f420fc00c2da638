//! What can be wrong with a scenario that is well-formed: names that mean nothing, faults that can't be done, loads without
//! bounds.

use super::{FaultKind, FaultSpec, LoadSpec, Scenario, Target};
use crate::scenario::{Doors, Drawn, LimitSpec};

/// Processes of one run: machines have few cores, and the scheduler isn't what is tested.
const PROCESSES_MAX: usize = 10;

/// Checks a second of all loads together.
const RATE_MAX: u32 = 2_000;

/// Checks under way of one load.
const WORKERS_MAX: u32 = 64;

/// Datagrams or requests a second of a flood.
const FLOOD_MAX: f64 = 5_000.0;

/// The field, what is wrong with it, and what to write instead.
type Mistake = (String, String, String);

fn mistake<T>(
    field: impl Into<String>,
    message: impl Into<String>,
    fix: impl Into<String>,
) -> Result<T, Mistake> {
    Err((field.into(), message.into(), fix.into()))
}

/// # Errors
/// The first mistake.
pub(super) fn check(scenario: &Scenario) -> Result<(), Mistake> {
    let topology = &scenario.topology;
    if topology.nodes == 0 || topology.nodes + topology.edges > PROCESSES_MAX {
        let message = format!("{} nodes and {} edges", topology.nodes, topology.edges);
        return mistake(
            "topology.nodes",
            message,
            format!("run at least a node, and {PROCESSES_MAX} processes at most"),
        );
    }
    if scenario.limits.is_empty() {
        return mistake("limit", "there is none", "add a [[limit]]");
    }
    if scenario.loads.is_empty() {
        return mistake("load", "there is none", "add a [[load]]");
    }
    for (number, limit) in scenario.limits.iter().enumerate() {
        check_limit(number, limit)?;
    }
    for (number, load) in scenario.loads.iter().enumerate() {
        check_load(scenario, number, load)?;
    }
    let rate: u32 = scenario.loads.iter().map(|load| load.rate).sum();
    if rate > RATE_MAX {
        return mistake(
            "load.rate",
            format!("{rate} checks a second in all"),
            format!("ask for {RATE_MAX} at most"),
        );
    }
    scenario.faults.iter().enumerate().try_for_each(|(number, fault)| check_fault(scenario, number, fault))
}

fn check_limit(number: usize, limit: &LimitSpec) -> Result<(), Mistake> {
    let field = |name: &str| format!("limit[{number}].{name}");
    if limit.amount == 0 || limit.period_s == 0 {
        return mistake(
            field("amount"),
            "nothing would ever be admitted",
            "amount and period_s are 1 at least",
        );
    }
    if limit.burst.is_some() && !limit.has_burst() {
        return mistake(field("burst"), format!("{:?} has none", limit.algorithm), "leave it out");
    }
    Ok(())
}

fn check_load(scenario: &Scenario, number: usize, load: &LoadSpec) -> Result<(), Mistake> {
    let field = |name: &str| format!("load[{number}].{name}");
    let known = |name: &String| scenario.limits.iter().any(|limit| limit.name == *name);
    if load.limits.is_empty() {
        return mistake(field("limits"), "names none", "name a [[limit]]");
    }
    if let Some(unknown) = load.limits.iter().find(|name| !known(name)) {
        return mistake(field("limits"), format!("no limit is called {unknown:?}"), "name a [[limit]]");
    }
    if load.values == 0 || load.rate == 0 || load.workers == 0 || load.workers > WORKERS_MAX {
        let fix = format!("values and rate are 1 at least, workers 1 to {WORKERS_MAX}");
        return mistake(field("workers"), "nothing, or too much, would be asked", fix);
    }
    if load.doors == Doors::Edges && scenario.topology.edges == 0 {
        return mistake(field("doors"), "there are no edges", "set topology.edges, or ask nodes");
    }
    if load.doors == Doors::Edges && load.ids {
        return mistake(field("ids"), "an edge decides nothing by leases that has an id", "leave ids out");
    }
    Ok(())
}

fn check_fault(scenario: &Scenario, number: usize, fault: &FaultSpec) -> Result<(), Mistake> {
    let field = |name: &str| format!("fault[{number}].{name}");
    let kind = fault.kind.name();
    match (&fault.target, fault.kind.has_target()) {
        (None, true) => {
            return mistake(field("target"), format!("{kind} is done to somebody"), "name the target");
        }
        (Some(_), false) => {
            return mistake(field("target"), format!("{kind} has none"), "leave it out");
        }
        _ => {}
    }
    if let Some(target) = &fault.target {
        check_target(scenario, fault.kind, target)
            .or_else(|(message, fix)| mistake(field("target"), message, fix))?;
    }
    let given = [
        ("one_way", fault.one_way.is_some(), fault.kind == FaultKind::Cut),
        ("seconds", fault.seconds.is_some(), fault.kind == FaultKind::ClockStep),
        ("percent", fault.percent.is_some(), fault.kind == FaultKind::ClockDrift),
        ("sync_ms", fault.sync_ms.is_some(), fault.kind == FaultKind::SlowDisk),
    ];
    if let Some((name, ..)) = given.iter().find(|(_, given, suits)| *given && !suits) {
        return mistake(field(name), format!("{kind} knows nothing of it"), "leave it out");
    }
    let needed = [
        ("seconds", fault.seconds, FaultKind::ClockStep),
        ("percent", fault.percent, FaultKind::ClockDrift),
        ("sync_ms", fault.sync_ms, FaultKind::SlowDisk),
        ("rate", fault.rate, FaultKind::Flood),
        ("rate", fault.rate, FaultKind::GossipAttack),
    ];
    if let Some((name, ..)) = needed.iter().find(|(_, given, of)| *of == fault.kind && given.is_none()) {
        return mistake(field(name), format!("{kind} needs it"), "write a number, or [least, most]");
    }
    if fault.for_s.is_none() && !fault.kind.ends_by_itself() {
        return mistake(field("for_s"), format!("{kind} has to end"), "say how many seconds it lasts");
    }
    check_numbers(number, fault)
}

fn check_target(scenario: &Scenario, kind: FaultKind, target: &Target) -> Result<(), (String, String)> {
    let topology = &scenario.topology;
    if target.is_edges() && topology.edges == 0 {
        return Err(("there are no edges".to_owned(), "set topology.edges".to_owned()));
    }
    if target.is_edges() && !kind.suits_edges() {
        return Err((format!("{} is done to nodes", kind.name()), "name nodes".to_owned()));
    }
    if let Target::ThisNode(node) = target
        && *node >= topology.nodes
    {
        return Err((format!("there is no node-{node}"), format!("count from 0 to {}", topology.nodes - 1)));
    }
    if let Target::Region(region) = target {
        if !topology.regions.contains(region) {
            return Err((
                format!("there is no region {region:?}"),
                "name one of topology.regions".to_owned(),
            ));
        }
        if kind != FaultKind::Cut {
            return Err((format!("a region can't have {}", kind.name()), "cut it".to_owned()));
        }
    }
    Ok(())
}

fn check_numbers(number: usize, fault: &FaultSpec) -> Result<(), Mistake> {
    let field = |name: &str| format!("fault[{number}].{name}");
    let within = |name: &str, drawn: Option<Drawn>, least: f64, most: f64| {
        let (from, to) = drawn.map_or((least, most), Drawn::bounds);
        if from < least || to > most || from > to {
            return mistake(
                field(name),
                format!("{:?}", drawn),
                format!("write {least} to {most}, the less first"),
            );
        }
        Ok(())
    };
    within("at_s", Some(fault.at_s), 0.0, 3_600.0)?;
    within("every_s", fault.every_s, 0.5, 3_600.0)?;
    within("for_s", fault.for_s, 0.1, 600.0)?;
    within("seconds", fault.seconds, -1_000_000.0, 1_000_000.0)?;
    within("percent", fault.percent, -10.0, 10.0)?;
    within("sync_ms", fault.sync_ms, 1.0, 2_000.0)?;
    within("rate", fault.rate, 1.0, FLOOD_MAX)?;
    within("loss_percent", fault.loss_percent, 0.0, 50.0)?;
    within("duplicate_percent", fault.duplicate_percent, 0.0, 50.0)?;
    within("reorder_percent", fault.reorder_percent, 0.0, 50.0)?;
    within("delay_ms", fault.delay_ms, 0.0, 1_000.0)?;
    within("jitter_ms", fault.jitter_ms, 0.0, 1_000.0)
}
