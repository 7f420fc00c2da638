//! Known bugs put back: whether the scenario that is made for each catches it, and after how many seconds.
//!
//! The binary is one that was built for this, with the feature `planted`; it is given by its path. Nothing here builds it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use clap::Args;
use leasehold_model::planted::Bug;

use super::{SEED, one};
use crate::check::Verdict;
use crate::run::{Order, say};
use crate::scenario::Scenario;

/// Who catches which. The others are for the simulator: it takes many tries, or a moment that no plan hits.
const CAUGHT_BY: &[(Bug, &str)] = &[
    (Bug::RetryUnderNewId, "partitions"),
    (Bug::LeaderUsesWallClock, "clock-steps"),
    (Bug::AckBeforeSync, "kill-all"),
    (Bug::FollowerGrants, "partitions"),
    (Bug::GossipPicksOwner, "partitions"),
];

/// What to run, and with which binary.
#[derive(Clone, Debug, Args)]
pub(crate) struct PlantedArgs {
    /// Names of bugs; none: all that a scenario is made for
    bugs: Vec<Bug>,
    /// The binary that has them, built with `--profile planted --features planted`
    #[arg(long)]
    bin: PathBuf,
    /// Decides everything that is drawn
    #[arg(long, default_value_t = SEED)]
    seed: u64,
    /// Where runs are kept, a folder each
    #[arg(long, default_value = "target/chaos/planted")]
    out: PathBuf,
}

impl PlantedArgs {
    /// # Errors
    /// When there is no such binary, or no scenario for a bug.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        ensure!(self.bin.is_file(), "{} is no file: build it first", self.bin.display());
        self.chosen().map(drop)
    }

    /// What is run.
    pub(super) fn binary(&self) -> &Path {
        &self.bin
    }

    fn chosen(&self) -> anyhow::Result<Vec<(Bug, &'static str)>> {
        if self.bugs.is_empty() {
            return Ok(CAUGHT_BY.to_vec());
        }
        let scenario = |bug: &Bug| {
            let known = CAUGHT_BY.iter().find(|(known, _)| known == bug).copied();
            known.with_context(|| format!("no scenario is made for {bug}: the simulator catches it"))
        };
        self.bugs.iter().map(scenario).collect()
    }
}

/// Runs a scenario for each bug. It is as it should be when each is broken.
pub(super) async fn run(args: PlantedArgs) -> anyhow::Result<ExitCode> {
    // Without namespaces nobody else has said which binary.
    let named = env::var_os("LEASEHOLD_BIN").is_some_and(|named| named == args.bin.as_os_str());
    ensure!(named, "without namespaces, name the binary with LEASEHOLD_BIN as well: {}", args.bin.display());
    let mut lines = Vec::new();
    let mut missed = 0;
    for (bug, name) in args.chosen()? {
        let order =
            Order { seed: args.seed, minutes: None, out: args.out.join(bug.name()), planted: Some(bug) };
        let outcome = one(Scenario::named(name)?, order).await?;
        let caught = outcome.verdict == Some(Verdict::Broken);
        missed += u32::from(!caught);
        let after = outcome
            .broken_after
            .map_or_else(|| "at once".to_owned(), |after| format!("{:.1} s", after.as_secs_f64()));
        lines.push(format!(
            "{:<28} {name:<18} {}",
            bug.name(),
            if caught { after } else { "NOT CAUGHT".to_owned() }
        ));
    }
    say("\nbug                          scenario           caught after");
    for line in &lines {
        say(line);
    }
    Ok(if missed == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bug_that_is_to_be_caught_has_a_scenario_that_there_is() {
        for (bug, name) in CAUGHT_BY {
            assert!(Scenario::named(name).is_ok(), "{bug}: {name}");
        }
    }

    #[test]
    fn a_bug_that_no_scenario_is_made_for_is_refused() {
        let args = |bugs| PlantedArgs { bugs, bin: PathBuf::new(), seed: 1, out: PathBuf::new() };
        assert_eq!(args(Vec::new()).chosen().map(|chosen| chosen.len()).ok(), Some(CAUGHT_BY.len()));
        let refused = args(vec![Bug::RefillDropped]).chosen().expect_err("no scenario sees it");
        assert!(refused.to_string().contains("refill-dropped: the simulator"), "{refused}");
    }
}
