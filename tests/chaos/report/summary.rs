//! One table over all runs: a line a scenario, the worst of its seeds.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::Reported;
use super::page::{regrants, share};
use super::panel::duration;
use crate::check::Verdict;

/// The page over all runs.
pub(super) fn summary(runs: &[Reported]) -> String {
    let mut scenarios: BTreeMap<&str, Vec<&Reported>> = BTreeMap::new();
    for run in runs {
        scenarios.entry(&run.scenario).or_default().push(run);
    }
    let mut page = String::new();
    let mut line = |text: String| writeln!(page, "{text}").expect("writing to a string succeeds");
    line("# Chaos runs\n".to_owned());
    let length = runs.iter().map(|run| run.measures.length).sum();
    let checks: usize = runs.iter().map(|run| run.measures.checks).sum();
    let count = |verdict| runs.iter().filter(|run| run.checked.verdict() == verdict).count();
    line(format!(
        "{} runs of {} scenarios, {} and {checks} checks in all: {} kept every promise, {} broke one, {} have no result.",
        runs.len(),
        scenarios.len(),
        duration(length),
        count(Verdict::Kept),
        count(Verdict::Broken),
        count(Verdict::NoResult)
    ));
    // Its load differs from run to run, and stands on their pages.
    let machine = |run: &Reported| run.machine.split(", load").next().unwrap_or_default().to_owned();
    for (what, all) in
        [("commit", distinct(runs, |run| run.commit.clone())), ("machine", distinct(runs, machine))]
    {
        line(format!("{what}: {}.", if all.is_empty() { "not said".to_owned() } else { all.join(", ") }));
    }
    line("\nOf several seeds a line shows the worst. Overshoot: units beyond the bound in the worst interval of the worst key.\n".to_owned());
    line("| scenario | seeds | checks | overshoot | nearest to its bound | undershoot | granted again after a kill: half, slowest | longest silence | stranded | decided by nobody | |".to_owned());
    line("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|".to_owned());
    for (scenario, runs) in &scenarios {
        line(row(scenario, runs));
    }
    line("\nRuns:\n".to_owned());
    for run in runs {
        let verdict = super::page::verdict(run);
        line(format!("- [{}, seed {}]({}/report.md): {verdict}", run.scenario, run.seed, run.folder));
        for (invariant, findings) in run.checked.findings.iter().filter(|(_, findings)| !findings.is_empty())
        {
            line(format!("  - `{}` ({}): {} findings", invariant.name, invariant.promise, findings.len()));
        }
        for missed in &run.checked.missed {
            line(format!("  - never reached: `{missed}`"));
        }
    }
    page
}

/// What runs say, each once.
fn distinct(runs: &[Reported], said: impl Fn(&Reported) -> String) -> Vec<String> {
    let all: BTreeSet<String> = runs.iter().map(said).filter(|text| !text.is_empty()).collect();
    all.into_iter().collect()
}

fn row(scenario: &str, runs: &[&Reported]) -> String {
    let sum = |of: fn(&Reported) -> u64| runs.iter().map(|run| of(run)).sum::<u64>();
    let most = |of: fn(&Reported) -> u64| runs.iter().map(|run| of(run)).max().unwrap_or(0);
    let fullest = most(|run| {
        run.measures
            .fullest
            .as_ref()
            .map_or(0, |(reach, _)| 10_000 * reach.most_at_once / reach.at_once_max.max(1))
    });
    let worst = runs.iter().map(|run| run.checked.verdict()).max().unwrap_or(Verdict::NoResult);
    let mut kills = super::measure::Measures::default();
    for run in runs {
        kills.regrants.extend(&run.measures.regrants);
        kills.never += run.measures.never;
    }
    kills.regrants.sort_unstable();
    format!(
        "| {scenario} | {} | {} | **{}** | {} | {} | {} | {} | {} | {} | {} |",
        runs.len(),
        sum(|run| run.measures.checks as u64),
        most(|run| run.measures.overshoot),
        share(fullest, 10_000),
        share(sum(|run| run.measures.undershoot), sum(|run| run.measures.exact)),
        regrants(&kills),
        duration(most(|run| run.measures.silence)),
        share(sum(|run| run.measures.stranded), sum(|run| run.measures.lent)),
        share(
            sum(|run| run.measures.count(super::measure::By::Nobody) as u64),
            sum(|run| run.measures.checks as u64)
        ),
        if worst == Verdict::Kept { worst.to_string() } else { format!("**{worst}**") }
    )
}
