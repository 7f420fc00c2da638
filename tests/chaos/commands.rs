//! The commands that run something: scenarios one after the other, alone on the machine as far as that is in their hands.

mod planted;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use leasehold_tests::Deadline;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use crate::check::{Checked, Verdict};
use crate::history::History;
use crate::hold::longest_silence;
use crate::isolate;
use crate::report::{HISTORY, Reported, report, table};
use crate::run::{Order, Ran, run, say};
use crate::scenario::{Scenario, names, short};

pub(crate) use planted::PlantedArgs;

/// The seed of a run that isn't told one: the same every day, so that CI repeats itself.
const SEED: u64 = 1;

/// How shells name what was interrupted.
const INTERRUPTED: u8 = 130;

#[derive(Clone, Debug, Args)]
pub(crate) struct RunArgs {
    /// Names of scenarios; `all`, or `short` for those that every change has to pass
    #[arg(required = true)]
    scenarios: Vec<String>,
    /// Decides everything that is drawn
    #[arg(long, default_value_t = SEED)]
    seed: u64,
    /// How long the trouble of each lasts, instead of what it says itself
    #[arg(long)]
    minutes: Option<f64>,
    /// Where runs are kept, a folder each
    #[arg(long, default_value = "target/chaos")]
    out: PathBuf,
}

/// What became of one scenario.
#[derive(Debug)]
struct Outcome {
    verdict: Option<Verdict>,
    line: String,
    /// Into the trouble, when the first promise was broken.
    broken_after: Option<Duration>,
    reported: Option<Reported>,
}

/// Runs scenarios.
///
/// # Errors
/// When one doesn't exist, has a mistake or can't be run.
pub(crate) fn run_scenarios(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let scenarios = named(&args.scenarios)?;
    if let Some(code) = isolate::enter(None).context("making namespaces")? {
        return Ok(code);
    }
    let (seed, minutes) = (args.seed, args.minutes);
    let orders = scenarios
        .into_iter()
        .map(|scenario| (scenario, Order { seed, minutes, out: args.out.clone(), planted: None }));
    interruptible(run_all(orders.collect()))
}

/// Runs what bugs were planted for.
///
/// # Errors
/// As [`run_scenarios`].
pub(crate) fn run_planted(args: &PlantedArgs) -> anyhow::Result<ExitCode> {
    args.check()?;
    if let Some(code) = isolate::enter(Some(args.binary())).context("making namespaces")? {
        return Ok(code);
    }
    interruptible(planted::run(args.clone()))
}

/// Names, and what each is about.
pub(crate) fn list() -> anyhow::Result<String> {
    let mut lines = Vec::new();
    for name in names() {
        let scenario = Scenario::named(name)?;
        let needs: Vec<&str> = scenario.needs().into_iter().map(|need| need.name()).collect();
        let needs = if needs.is_empty() { String::new() } else { format!(" (needs {})", needs.join(", ")) };
        let mark = if short().contains(&name) { "*" } else { " " };
        lines.push(format!("{mark} {name:<18} {}{needs}", scenario.about));
    }
    lines.push("* in the short list".to_owned());
    Ok(lines.join("\n"))
}

fn named(wanted: &[String]) -> anyhow::Result<Vec<Scenario>> {
    let mut found = Vec::new();
    for name in wanted {
        match name.as_str() {
            "all" => found.extend(names().map(str::to_owned)),
            "short" => found.extend(short().iter().map(|name| (*name).to_owned())),
            one => found.push(one.to_owned()),
        }
    }
    found.iter().map(|name| Scenario::named(name).map_err(anyhow::Error::from)).collect()
}

/// Runs something to its end, or until this process is told to stop: then everything that it started is ended.
fn interruptible(work: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let (mut terminate, mut interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        tokio::select! {
            done = work => done,
            _ = terminate.recv() => Ok(ExitCode::from(INTERRUPTED)),
            _ = interrupt.recv() => Ok(ExitCode::from(INTERRUPTED)),
        }
    })
}

async fn run_all(orders: Vec<(Scenario, Order)>) -> anyhow::Result<ExitCode> {
    let (count, began) = (orders.len(), Deadline::after(Duration::ZERO));
    let out = orders.first().map(|(_, order)| order.out.clone()).unwrap_or_default();
    let (mut lines, mut reports) = (Vec::new(), Vec::new());
    let mut worst = Verdict::Kept;
    for (scenario, order) in orders {
        let outcome = one(scenario, order).await?;
        worst = worst.max(outcome.verdict.unwrap_or(Verdict::Kept));
        lines.push(outcome.line);
        reports.extend(outcome.reported);
    }
    if !reports.is_empty() {
        table(&out, &reports)?;
    }
    say(&format!("\n{count} scenarios in {:.0} s", began.elapsed().as_secs_f64()));
    for line in &lines {
        say(line);
    }
    Ok(if worst == Verdict::Kept { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Runs one scenario and holds its history against everything. What panics in it is its outcome.
async fn one(scenario: Scenario, order: Order) -> anyhow::Result<Outcome> {
    let (name, seed, began) = (scenario.name.clone(), order.seed, Deadline::after(Duration::ZERO));
    say(&format!("==> {name}, seed {seed}: {}", scenario.about));
    let held = scenario
        .hold
        .silence_max_ms
        .map(|ms| (scenario.loads[0].limits[0].clone(), Duration::from_millis(ms)));
    // A task of its own: dropped with this future, it takes its processes along.
    let mut task = JoinSet::new();
    task.spawn(async move { run(&scenario, &order).await });
    let ran = match task.join_next().await {
        Some(Ok(ran)) => ran?,
        Some(Err(panic)) => {
            say(&format!("{name}: {panic}"));
            let line = format!("{name:<18} BROKEN: the run ended early, see above");
            return Ok(Outcome { verdict: Some(Verdict::Broken), line, broken_after: None, reported: None });
        }
        None => bail!("nothing ran"),
    };
    let folder = match ran {
        Ran::Done(folder) => folder,
        Ran::Skipped(need) => {
            let line = format!("{name:<18} skipped: needs {}", need.name());
            say(&line);
            return Ok(Outcome { verdict: None, line, broken_after: None, reported: None });
        }
    };
    let reported = report(&folder)?;
    let history = History::read(&folder.join(HISTORY))?;
    let mut verdict = reported.checked.verdict();
    say(&reported.checked.to_string());
    let mut more = String::new();
    if let Some((limit, most)) = held {
        let silence = longest_silence(&history, &limit);
        if silence > most {
            verdict = verdict.max(Verdict::Broken);
            more = format!("; {limit} was silent for {silence:.2?}, {most:?} are the most");
        }
    }
    let took = began.elapsed().as_secs();
    let line = format!("{name:<18} {verdict} in {took} s, seed {seed}{more}");
    say(&line);
    let broken_after = first_finding(&history, &reported.checked);
    Ok(Outcome { verdict: Some(verdict), line, broken_after, reported: Some(reported) })
}

/// Into the trouble, when the first promise was broken: at the end of the run, where nobody knows.
fn first_finding(history: &History, checked: &Checked) -> Option<Duration> {
    let begin = history.began(crate::history::PhaseName::Trouble).unwrap_or(0);
    let at = |finding: &crate::check::Finding| finding.at.unwrap_or_else(|| history.end());
    let first = checked.findings.iter().flat_map(|(_, findings)| findings).map(at).min()?;
    Some(Duration::from_nanos(first.saturating_sub(begin)))
}
