//! One worker thread: its own runtime, its own connections, a task a stream.

use std::future::Future;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::clock::now;
use super::keys::Sampler;
use super::pace::{Pace, Schedule};
use super::plan::{Plan, Protocol};
use super::tally::{CallError, Counts, Tally, Times};
use super::template::Template;
use super::{grpc, http};

/// How long answers may take to arrive after the last request; what is missing then is counted as an error.
const DRAIN: Duration = Duration::from_secs(5);

/// Sends one request and reads its answer.
pub(super) trait Caller: Send + 'static {
    fn call(&mut self, body: Bytes) -> impl Future<Output = Result<Counts, CallError>> + Send;
}

/// A worker's part of the run.
pub(super) struct Worker {
    pub(super) plan: Arc<Plan>,
    pub(super) template: Arc<Template>,
    /// How many of the plan's connections are this worker's.
    pub(super) connections: usize,
    /// Its part of the rate.
    pub(super) rate: Option<f64>,
    pub(super) budget: Option<Arc<AtomicU64>>,
    /// Apart from other workers' seeds.
    pub(super) seed: u64,
    /// Read by the progress bar while the worker counts.
    pub(super) tally: Arc<Mutex<Tally>>,
}

impl Worker {
    /// Connects, says so, waits for the schedule and runs it. Returns how many requests were due and not sent.
    pub(super) fn run(self, ready: &Sender<Result<()>>, go: &Receiver<Schedule>) -> u64 {
        match self.plan.protocol {
            Protocol::Http => self.run_with(http::connect, ready, go),
            Protocol::Grpc | Protocol::GrpcBatch | Protocol::Rls => self.run_with(grpc::connect, ready, go),
        }
    }

    fn run_with<C: Caller>(
        self,
        connect: impl AsyncFn(&Plan) -> Result<Vec<C>>,
        ready: &Sender<Result<()>>,
        go: &Receiver<Schedule>,
    ) -> u64 {
        let opened = runtime().and_then(|runtime| {
            let mut callers = Vec::new();
            for _ in 0..self.connections {
                let opened = runtime.block_on(connect(&self.plan));
                callers.extend(opened.with_context(|| format!("cannot connect to {}", self.plan.authority))?);
            }
            Ok((runtime, callers))
        });
        let (said, opened) = match opened {
            Ok(opened) => (Ok(()), Some(opened)),
            Err(error) => (Err(error), None),
        };
        // Whoever started the workers has gone when both ends fail; then there is nothing to run either.
        let heard = ready.send(said).is_ok();
        match (opened, go.recv()) {
            (Some((runtime, callers)), Ok(schedule)) if heard => self.drive(&runtime, callers, schedule),
            _ => 0,
        }
    }

    fn drive<C: Caller>(self, runtime: &Runtime, callers: Vec<C>, schedule: Schedule) -> u64 {
        let pace = Pace::new(schedule, self.rate, self.budget.clone());
        let releasing = std::thread::spawn({
            let pace = pace.clone();
            move || pace.release()
        });
        let unsent = runtime.block_on(async {
            let mut streams = JoinSet::new();
            for (index, caller) in (0_u64..).zip(callers) {
                let keys =
                    Sampler::new(self.plan.distribution, self.plan.keys, self.seed.wrapping_add(index));
                streams.spawn(stream(caller, pace.clone(), self.template.clone(), keys, self.tally.clone()));
            }
            let until_end = schedule.end.saturating_duration_since(now());
            let all_done = async { while streams.join_next().await.is_some() {} };
            let early = tokio::time::timeout(until_end, all_done).await.is_ok();
            let unsent = pace.close();
            if !early {
                let rest = async { while streams.join_next().await.is_some() {} };
                let _late = tokio::time::timeout(DRAIN, rest).await;
                let missing = u64::try_from(streams.len()).unwrap_or(u64::MAX);
                if missing > 0 {
                    let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
                    tally.count_error("no answer in time", missing);
                }
            }
            unsent
        });
        // It sees the end or the stop within one of its sleeps.
        let _panicked = releasing.join();
        unsent
    }
}

/// One stream: the next request when it is due and the last was answered.
async fn stream<C: Caller>(
    mut caller: C,
    pace: Arc<Pace>,
    template: Arc<Template>,
    mut keys: Sampler,
    tally: Arc<Mutex<Tally>>,
) {
    tokio::time::sleep_until(pace.begin().into()).await;
    while let Some(ticket) = pace.next().await {
        let body = template.fill(|| keys.next());
        let sent = now();
        let result = caller.call(body).await;
        let times = Times { due: ticket.due, sent, done: now() };
        if ticket.measured {
            tally.lock().unwrap_or_else(PoisonError::into_inner).record(times, &result);
        }
        if result.is_err_and(|error| error.fatal) {
            return;
        }
    }
}

fn runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the network runtime")
}
