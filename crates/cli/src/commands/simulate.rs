//! `leasehold simulate`: replays events in virtual time, under one policy or under all six algorithms.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use leasehold_limit::rules::rate::describe;
use serde::Serialize;

use crate::failure::{Failure, Outcome};
use crate::output::{self, Format, number, text};
use crate::simulate::answer::{Answer, Step};
use crate::simulate::compare::{Lane, Totals};
use crate::simulate::events::{self, Event};
use crate::simulate::policy::{PolicyFile, Rate};
use crate::simulate::svg;

/// Arguments of `leasehold simulate`. `--output` also takes `svg`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "leasehold simulate [--output table|json|svg] POLICY.json EVENTS.jsonl\n       \
                      leasehold simulate [--output table|json|svg] --compare EVENTS.jsonl [--limit RATE]",
    after_help = "A policy: {\"algorithm\": \"token_bucket\", \"n\": 5, \"p\": 60000000000}, p in nanoseconds; also burst, queue, \
                  unit and zone.\nAn event: {\"t_ns\": 59000000000, \"cost\": 1} or {\"t_ns\": 60000000000, \"set_policy\": {...}}, \
                  one a line.\n\
                  It decides as a counter's owner does that can always be asked, by all of the limit: nothing is leased, and nothing \
                  is set aside for edges (on_unavailable: local)."
)]
pub(crate) struct Args {
    /// The policy, as JSON.
    #[arg(value_name = "POLICY.json", required_unless_present = "compare", requires = "events")]
    policy: Option<PathBuf>,
    /// The events, one JSON object a line; `-` reads standard input.
    #[arg(value_name = "EVENTS.jsonl")]
    events: Option<PathBuf>,
    /// Run these events under all six algorithms side by side.
    #[arg(long, value_name = "EVENTS.jsonl", conflicts_with_all = ["policy", "events"])]
    compare: Option<PathBuf>,
    /// The rate to compare under.
    #[arg(long, value_name = "RATE", default_value = "5/min", conflicts_with_all = ["policy", "events"])]
    limit: Rate,
}

/// Runs the command.
pub(super) fn run(args: &Args, format: Format) -> Result<Outcome, Failure> {
    match (&args.compare, &args.policy, &args.events) {
        (Some(events), _, _) => compare(&read_events(events)?, &args.limit, format)?,
        (None, Some(policy), Some(events)) => replay(policy, &read_events(events)?, format)?,
        (None, _, _) => return Err(Failure::usage(anyhow::anyhow!("give POLICY.json and EVENTS.jsonl"))),
    }
    Ok(Outcome::Done)
}

fn read_policy(path: &Path) -> Result<PolicyFile> {
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{}: not a policy", path.display()))
}

fn read_events(path: &Path) -> Result<Vec<Event>> {
    let name = path.display();
    if path.as_os_str() == "-" {
        return events::read(io::stdin().lock()).context("standard input: not a list of events");
    }
    let file = File::open(path).with_context(|| format!("cannot read {name}"))?;
    events::read(BufReader::new(file)).with_context(|| format!("{name}: not a list of events"))
}

fn replay(policy: &Path, events: &[Event], format: Format) -> Result<()> {
    let limit =
        read_policy(policy)?.limit().with_context(|| format!("{}: not a policy", policy.display()))?;
    let lane = Lane::new(&limit, events);
    match format {
        Format::Json => lane.steps.iter().for_each(|step| output::line(step.to_json())),
        Format::Table => output::raw(&steps_table(&lane)),
        Format::Svg => {
            let title = format!("{}, {}", lane.title, describe(&limit));
            output::raw(&svg::draw(&title, &[lane], None));
        }
    }
    Ok(())
}

fn steps_table(lane: &Lane) -> String {
    let columns = [
        number("time"),
        number("cost"),
        text("answer"),
        number("remaining"),
        number("retry after"),
        number("reset after"),
        number("wait"),
    ];
    let shaper = lane.totals.algorithm == "shaper";
    let shown = if shaper { 7 } else { 6 };
    let rows = lane.steps.iter().map(|step| step_row(step).into_iter().take(shown).collect());
    let totals = &lane.totals;
    output::table(&columns[..shown], rows)
        + &format!("\n{} allowed, {} denied\n", output::count(totals.allowed), output::count(totals.denied))
}

fn step_row(step: &Step) -> Vec<String> {
    let time = seconds(step.at.0);
    match step.answer {
        Answer::Decided { cost, decision, .. } => vec![
            time,
            cost.to_string(),
            if decision.allowed { "allowed" } else { "denied" }.to_owned(),
            decision.remaining.to_string(),
            output::retry_after(decision.retry_after),
            output::duration(decision.reset_after.0),
            decision.wait.map_or_else(|| "-".to_owned(), |wait| output::duration(wait.0)),
        ],
        Answer::InvalidCost { cost } => vec![time, cost.to_string(), "invalid cost".to_owned()],
        Answer::PolicySet => vec![time, String::new(), "new policy".to_owned()],
    }
}

/// A stamp in seconds, without the zeros at its end.
fn seconds(nanos: u64) -> String {
    let (whole, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    if rest == 0 {
        return format!("{whole}s");
    }
    format!("{}s", format!("{whole}.{rest:09}").trim_end_matches('0'))
}

#[derive(Serialize)]
struct Comparison<'a> {
    limit: &'a str,
    algorithms: Vec<&'a Totals>,
}

fn compare(events: &[Event], rate: &Rate, format: Format) -> Result<()> {
    let limits = rate.under_every_algorithm()?;
    let lanes: Vec<_> = limits.iter().map(|limit| Lane::new(limit, events)).collect();
    match format {
        Format::Json => output::json(&Comparison {
            limit: &rate.text,
            algorithms: lanes.iter().map(|lane| &lane.totals).collect(),
        }),
        Format::Table => output::raw(&totals_table(rate, &lanes)),
        Format::Svg => {
            let title = format!("The same requests under a limit of {}", rate.text);
            output::raw(&svg::draw(&title, &lanes, Some(rate.period().0)));
        }
    }
    Ok(())
}

fn totals_table(rate: &Rate, lanes: &[Lane]) -> String {
    let columns = [
        text("algorithm"),
        number("allowed"),
        number("denied"),
        number("units allowed"),
        number("longest wait"),
    ];
    let rows = lanes.iter().map(|Lane { totals, .. }| {
        vec![
            totals.algorithm.clone(),
            output::count(totals.allowed),
            output::count(totals.denied),
            output::count(totals.allowed_units),
            output::duration(totals.wait_ns_max),
        ]
    });
    format!("limit {}\n\n", rate.text) + &output::table(&columns, rows)
}
