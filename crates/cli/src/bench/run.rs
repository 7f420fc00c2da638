//! A run from its first connection to its report: workers are started, timed, watched and added up.

use std::io::IsTerminal;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use indicatif::{ProgressBar, ProgressStyle};

use super::clock::now;
use super::cpu;
use super::pace::Schedule;
use super::plan::{End, Plan};
use super::report::{Cpu, Report};
use super::tally::Tally;
use super::template::Template;
use super::worker::Worker;

/// Bound of a run that ends by requests, in case the server answers none.
const BY_REQUESTS_MAX: Duration = Duration::from_secs(600);
/// How often the run is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// From the last connection to the first request, so that all workers are there.
const LEAD: Duration = Duration::from_millis(20);

struct Running {
    tally: Arc<Mutex<Tally>>,
    go: Sender<Schedule>,
    thread: JoinHandle<u64>,
}

/// Puts the planned load on the server. `progress`: draw a bar where standard error is a terminal.
///
/// # Errors
/// The server can't be reached, or a process to be measured can't be read.
pub(crate) fn run(plan: Plan, progress: bool) -> Result<Report> {
    let template = Arc::new(Template::new(&plan)?);
    let plan = Arc::new(plan);
    let workers = start(&plan, &template)?;
    let begin = now() + LEAD;
    let measure_from = begin + plan.warmup;
    let length = match plan.end {
        End::After(length) => length,
        End::Requests(_) => BY_REQUESTS_MAX,
    };
    let schedule = Schedule { begin, measure_from, end: measure_from + length };
    for worker in &workers {
        worker.go.send(schedule).map_err(|_| anyhow!("a worker ended before the run began"))?;
    }
    thread::sleep(measure_from.saturating_duration_since(now()));
    let before = cpu_times(&plan)?;
    watch(&plan, &workers, schedule, progress.then(|| bar(&plan)));
    let after = cpu_times(&plan)?;
    let (tally, unsent) = finish(workers)?;
    let elapsed = elapsed(&plan, &tally, schedule);
    let cpu = Cpu { generator: after.0.saturating_sub(before.0), server: difference(before.1, after.1) };
    Ok(Report::new(&plan, &tally, unsent, elapsed, cpu))
}

/// Starts the workers and waits until each has its connections.
fn start(plan: &Arc<Plan>, template: &Arc<Template>) -> Result<Vec<Running>> {
    let budget = match plan.end {
        End::Requests(requests) => Some(Arc::new(AtomicU64::new(requests))),
        End::After(_) => None,
    };
    let (ready, connected) = mpsc::channel();
    let mut workers = Vec::new();
    for index in 0..plan.threads {
        // The first workers take one more where connections don't divide evenly.
        let connections =
            plan.connections / plan.threads + usize::from(index < plan.connections % plan.threads);
        let share = connections as f64 / plan.connections as f64;
        let tally = Arc::new(Mutex::new(Tally::default()));
        let worker = Worker {
            plan: plan.clone(),
            template: template.clone(),
            connections,
            rate: plan.rate.map(|rate| rate as f64 * share),
            budget: budget.clone(),
            seed: plan.seed.wrapping_add(u64::try_from(index).expect("few threads") << 32),
            tally: tally.clone(),
        };
        let (go, gone) = mpsc::channel();
        let ready = ready.clone();
        let thread = thread::Builder::new()
            .name(format!("bench-{index}"))
            .spawn(move || worker.run(&ready, &gone))
            .context("cannot start a worker thread")?;
        workers.push(Running { tally, go, thread });
    }
    for _ in &workers {
        connected.recv().context("a worker ended before it was connected")??;
    }
    Ok(workers)
}

/// Waits until the run is over.
fn watch(plan: &Plan, workers: &[Running], schedule: Schedule, bar: Option<ProgressBar>) {
    while now() < schedule.end && workers.iter().any(|worker| !worker.thread.is_finished()) {
        thread::sleep(LOOK_EVERY.min(schedule.end.saturating_duration_since(now())));
        let Some(bar) = &bar else { continue };
        let requests: u64 = workers.iter().map(|worker| lock(&worker.tally).requests).sum();
        let elapsed = now().saturating_duration_since(schedule.measure_from);
        bar.set_position(match plan.end {
            End::After(_) => u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            End::Requests(_) => requests,
        });
        bar.set_message(format!("{:.0} requests/s", requests as f64 / elapsed.as_secs_f64().max(0.001)));
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
}

fn bar(plan: &Plan) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let length = match plan.end {
        End::After(length) => u64::try_from(length.as_millis()).unwrap_or(u64::MAX),
        End::Requests(requests) => requests,
    };
    let style = ProgressStyle::with_template("{bar:40} {percent:>3}%  {msg}").expect("a constant template");
    ProgressBar::new(length).with_style(style)
}

fn finish(workers: Vec<Running>) -> Result<(Tally, u64)> {
    let (mut total, mut unsent) = (Tally::default(), 0);
    for worker in workers {
        unsent += worker.thread.join().map_err(|_| anyhow!("a worker thread panicked"))?;
        total.merge(&lock(&worker.tally));
    }
    Ok((total, unsent))
}

fn lock(tally: &Mutex<Tally>) -> std::sync::MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The measured time: at least what was planned, unless requests were the bound, and until the last answer.
fn elapsed(plan: &Plan, tally: &Tally, schedule: Schedule) -> Duration {
    let until_last = tally
        .last
        .map_or(Duration::ZERO, |last: Instant| last.saturating_duration_since(schedule.measure_from));
    match plan.end {
        End::After(length) => length.max(until_last),
        End::Requests(_) => until_last,
    }
}

/// Processor time used so far: by this process, and by the one that is measured.
fn cpu_times(plan: &Plan) -> Result<(Duration, Option<Duration>)> {
    Ok((cpu::used_by(std::process::id())?, plan.cpu_of.map(cpu::used_by).transpose()?))
}

fn difference(before: Option<Duration>, after: Option<Duration>) -> Option<Duration> {
    Some(after?.saturating_sub(before?))
}
