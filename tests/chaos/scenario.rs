//! A scenario: what runs, by which rules, under which load, what is done to it when, and what must hold. Data, from a TOML file.
//!
//! Invariant: a scenario that was read can be run: every name in it means something, and whatever can't be is refused with
//! the field and what to write instead. Nothing here starts anything, and what is drawn comes from the run's seed alone.

mod check;
mod fault;
mod plan;
mod rules;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;
use thiserror::Error;

pub(crate) use fault::{Drawn, FaultKind, FaultSpec, OneWay, Target};
pub(crate) use plan::{Planned, plan};
pub(crate) use rules::{DOMAIN, LimitSpec, yaml};

/// Every scenario that comes with the harness: its name and its text.
const FILES: &[(&str, &str)] = &[
    ("clock-drift", include_str!("scenarios/clock-drift.toml")),
    ("clock-steps", include_str!("scenarios/clock-steps.toml")),
    ("cut-edges", include_str!("scenarios/cut-edges.toml")),
    ("disk-fails", include_str!("scenarios/disk-fails.toml")),
    ("disk-full", include_str!("scenarios/disk-full.toml")),
    ("flipped-byte", include_str!("scenarios/flipped-byte.toml")),
    ("gossip-attack", include_str!("scenarios/gossip-attack.toml")),
    ("key-flood", include_str!("scenarios/key-flood.toml")),
    ("kill-all", include_str!("scenarios/kill-all.toml")),
    ("kill-edges", include_str!("scenarios/kill-edges.toml")),
    ("kill-leaders", include_str!("scenarios/kill-leaders.toml")),
    ("lossy-network", include_str!("scenarios/lossy-network.toml")),
    ("partitions", include_str!("scenarios/partitions.toml")),
    ("quiet", include_str!("scenarios/quiet.toml")),
    ("region-cut", include_str!("scenarios/region-cut.toml")),
    ("replaced-node", include_str!("scenarios/replaced-node.toml")),
    ("rolling-restart", include_str!("scenarios/rolling-restart.toml")),
    ("rules-midway", include_str!("scenarios/rules-midway.toml")),
    ("stopped-processes", include_str!("scenarios/stopped-processes.toml")),
];

/// What every change has to pass.
const SHORT: &[&str] = &["kill-leaders", "cut-edges", "partitions", "clock-steps", "disk-fails"];

/// See the module.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    /// The name of its file.
    #[serde(skip)]
    pub(crate) name: String,
    /// One sentence for people.
    pub(crate) about: String,
    pub(crate) topology: Topology,
    pub(crate) phases: Phases,
    #[serde(rename = "limit")]
    pub(crate) limits: Vec<LimitSpec>,
    #[serde(rename = "load")]
    pub(crate) loads: Vec<LoadSpec>,
    #[serde(rename = "fault", default)]
    pub(crate) faults: Vec<FaultSpec>,
    #[serde(default)]
    pub(crate) hold: Hold,
}

/// What runs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Topology {
    pub(crate) nodes: usize,
    #[serde(default)]
    pub(crate) edges: usize,
    #[serde(default = "shards")]
    pub(crate) shards: u32,
    /// Nodes, and edges, are in these by turns. Empty: there are none.
    #[serde(default)]
    pub(crate) regions: Vec<String>,
    /// How long a packet is on its way to another region.
    #[serde(default)]
    pub(crate) between_regions_ms: u64,
    /// More lines of every node's configuration, at the left margin.
    #[serde(default)]
    pub(crate) node_config: String,
    /// More lines of every node's section `cluster:`, indented by two spaces.
    #[serde(default)]
    pub(crate) cluster_config: String,
    /// More lines of every edge's configuration.
    #[serde(default)]
    pub(crate) edge_config: String,
}

const fn shards() -> u32 {
    8
}

/// How long its parts last.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Phases {
    /// Faults come and go; `--minutes` replaces it.
    pub(crate) trouble_s: u64,
    /// By then everything must be served again.
    #[serde(default = "heal_s")]
    pub(crate) heal_s: u64,
    #[serde(default = "calm_s")]
    pub(crate) calm_s: u64,
}

const fn heal_s() -> u64 {
    30
}

const fn calm_s() -> u64 {
    8
}

/// Checks that are asked all the time.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoadSpec {
    /// The limits that each check counts on.
    pub(crate) limits: Vec<String>,
    /// So many counters of each, by turns.
    #[serde(default = "one")]
    pub(crate) values: usize,
    pub(crate) doors: Doors,
    /// Whether checks have request ids, and are sent again under them until there is an answer.
    #[serde(default)]
    pub(crate) ids: bool,
    /// Checks a second at most, of all workers.
    pub(crate) rate: u32,
    /// Checks under way at once at most.
    #[serde(default = "workers")]
    pub(crate) workers: u32,
    #[serde(default = "unit")]
    pub(crate) cost: u64,
}

const fn one() -> usize {
    1
}

const fn unit() -> u64 {
    1
}

const fn workers() -> u32 {
    4
}

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Doors {
    Nodes,
    Edges,
}

/// What must hold beside the promises, and what a run is for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hold {
    /// The longest time without a decision on the first limit, in the whole run. Absent: not looked at.
    pub(crate) silence_max_ms: Option<u64>,
    /// By how many millionths clocks may run fast beside the slew. Absent: as they are.
    pub(crate) clock_ppm: Option<u64>,
    /// From an owner's death until its keys are granted again, at worst. Absent: promise P5.
    pub(crate) regrant_ms: Option<u64>,
    /// Resident MiB of a process.
    pub(crate) memory_max_mib: Option<u64>,
    /// States without which a run has no result.
    #[serde(default)]
    pub(crate) must_reach: Vec<String>,
}

/// Something that a machine may not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    Namespaces,
    Mount,
    Faketime,
    Cc,
}

impl Need {
    /// As `LEASEHOLD_REQUIRE` names it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Mount => "mount",
            Self::Faketime => "libfaketime",
            Self::Cc => "cc",
        }
    }
}

/// Why a scenario can't be run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{file}: {field}: {message}; {fix}")]
pub(crate) struct ScenarioError {
    pub(crate) file: String,
    pub(crate) field: String,
    pub(crate) message: String,
    pub(crate) fix: String,
}

impl Scenario {
    /// Reads and checks one.
    ///
    /// # Errors
    /// The first mistake: where it is and what to write instead.
    pub(crate) fn read(name: &str, text: &str) -> Result<Self, ScenarioError> {
        let wrong = |field: String, message: String, fix: &str| ScenarioError {
            file: format!("{name}.toml"),
            field,
            message,
            fix: fix.to_owned(),
        };
        let reader = toml::Deserializer::parse(text)
            .map_err(|error| wrong("toml".to_owned(), one_line(&error), "write TOML 1.0"))?;
        let scenario: Self = serde_path_to_error::deserialize(reader).map_err(|error| {
            let field = error.path().to_string();
            wrong(field, one_line(error.inner()), "see tests/chaos/scenario.rs for what there is")
        })?;
        let scenario = Self { name: name.to_owned(), ..scenario };
        check::check(&scenario).map_err(|(field, message, fix)| wrong(field, message, &fix))?;
        Ok(scenario)
    }

    /// One that comes with the harness.
    ///
    /// # Errors
    /// When there is none of that name, or it has a mistake.
    pub(crate) fn named(name: &str) -> Result<Self, ScenarioError> {
        let Some((_, text)) = FILES.iter().find(|(known, _)| *known == name) else {
            let known: Vec<&str> = names().collect();
            return Err(ScenarioError {
                file: format!("{name}.toml"),
                field: "name".to_owned(),
                message: "there is no such scenario".to_owned(),
                fix: format!("take one of {}", known.join(", ")),
            });
        };
        Self::read(name, text)
    }

    /// What it can't be run without.
    pub(crate) fn needs(&self) -> BTreeSet<Need> {
        let mut needs: BTreeSet<Need> = self.faults.iter().filter_map(|fault| fault.kind.need()).collect();
        if self.topology.between_regions_ms > 0 {
            needs.insert(Need::Namespaces);
        }
        needs
    }

    /// The parts of a run, with the trouble as long as the command line says.
    pub(crate) fn trouble(&self, minutes: Option<f64>) -> Duration {
        minutes.map_or(Duration::from_secs(self.phases.trouble_s), |minutes| {
            Duration::from_secs_f64(minutes.max(0.0) * 60.0)
        })
    }

    /// The region of a node or an edge, by its place.
    pub(crate) fn region(&self, place: usize) -> Option<&str> {
        let regions = &self.topology.regions;
        place.checked_rem(regions.len()).map(|region| regions[region].as_str())
    }

    /// Whether a fault of this kind comes in it.
    pub(crate) fn has(&self, kind: FaultKind) -> bool {
        self.faults.iter().any(|fault| fault.kind == kind)
    }
}

/// The names of all scenarios.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _)| *name)
}

/// The names of those that every change has to pass.
pub(crate) const fn short() -> &'static [&'static str] {
    SHORT
}

/// A message of several lines with a drawing, as one.
fn one_line(error: &toml::de::Error) -> String {
    error.message().lines().map(str::trim).collect::<Vec<_>>().join(" ")
}
