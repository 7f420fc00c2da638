//! One load for every server that is measured, whatever it speaks: the same keys, connections and streams, the same clock.
//!
//! `load PROTOCOL ADDR,ADDR,… [options]`, with `--connections 4 --streams 64 --batch 1 --keys 100000 --seconds 5 --pids 1,2,3
//! --others 4`. Protocols: `grpc` (leasehold.v1), `rls`, `http`, `redis` (a token bucket in Lua), `throttlecrab` and
//! `throttlecrab-http`. Closed loop: each stream sends its next request when it has the answer. Prints one line: checks a
//! second, p50 and p99 in ms, and the processor time a check of the processes that were named, and with the others'.

#![expect(clippy::print_stdout, reason = "the report is the purpose")]

mod caller;
mod grpc;
mod http;

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio::task::JoinSet;
use tokio::time::Instant;

use caller::Caller;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

struct Options {
    protocol: String,
    addresses: Vec<String>,
    connections: usize,
    streams: usize,
    batch: usize,
    keys: u64,
    time: Duration,
    pids: Vec<u32>,
    others: Vec<u32>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let options = Options::read()?;
    let mut callers = Vec::new();
    for connection in 0..options.connections {
        let address = &options.addresses[connection % options.addresses.len()];
        callers.extend(Caller::connect(&options.protocol, address, options.streams).await?);
    }
    // Warms connections, and makes the counters that are measured.
    let (callers, _) = run(&options, callers, Duration::from_secs(1)).await?;
    let used = || Outcome::Ok((cpu_of(&options.pids)?, cpu_of(&options.others)?));
    let (before, began) = (used()?, Instant::now());
    let (_, mut latencies) = run(&options, callers, options.time).await?;
    let (after, took) = (used()?, began.elapsed().as_secs_f64());
    let (cpu, others) = (after.0 - before.0, after.1 - before.1);
    latencies.sort_unstable();
    let at = |part: usize| latencies[(latencies.len() - 1) * part / 100].as_secs_f64() * 1e3;
    let checks = (latencies.len() * options.batch) as f64;
    println!(
        "{:>9.0} checks/s  p50 {:>6.2} ms  p99 {:>6.2} ms  {:>6.2} us CPU a check  {:>6.2} us with others",
        checks / took,
        at(50),
        at(99),
        cpu * 1e6 / checks,
        (cpu + others) * 1e6 / checks
    );
    Ok(())
}

/// Has every caller ask until the time is over; returns them, and how long each answer took.
async fn run(
    options: &Options,
    callers: Vec<Caller>,
    time: Duration,
) -> Outcome<(Vec<Caller>, Vec<Duration>)> {
    let end = Instant::now() + time;
    let mut streams = JoinSet::new();
    for (number, mut caller) in (0..).zip(callers) {
        let (batch, keys) = (options.batch, options.keys);
        streams.spawn(async move {
            let mut rng = SmallRng::seed_from_u64(number);
            let mut latencies = Vec::new();
            while Instant::now() < end {
                let began = Instant::now();
                let chosen: Vec<u64> = (0..batch).map(|_| rng.random_range(0..keys)).collect();
                caller.check(&chosen).await?;
                latencies.push(began.elapsed());
            }
            Outcome::Ok((caller, latencies))
        });
    }
    let (mut callers, mut all) = (Vec::new(), Vec::new());
    while let Some(stream) = streams.join_next().await {
        let (caller, latencies) = stream??;
        callers.push(caller);
        all.extend(latencies);
    }
    Ok((callers, all))
}

/// Processor time in seconds that the processes have used, user and system.
fn cpu_of(pids: &[u32]) -> Outcome<f64> {
    let mut ticks = 0.0;
    for pid in pids {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        // The name, in parentheses, may hold spaces.
        let after_name = stat.rsplit_once(')').ok_or("unreadable /proc/PID/stat")?.1;
        let mut fields = after_name.split_ascii_whitespace().skip(11);
        for _ in 0..2 {
            ticks += fields.next().ok_or("unreadable /proc/PID/stat")?.parse::<f64>()?;
        }
    }
    Ok(ticks / 100.0)
}

impl Options {
    fn read() -> Outcome<Self> {
        let mut arguments = std::env::args().skip(1);
        let protocol = arguments.next().ok_or("which protocol?")?;
        let addresses = arguments.next().ok_or("which servers?")?.split(',').map(str::to_owned).collect();
        let mut named = BTreeMap::new();
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name}: no value"))?;
            named.insert(name.trim_start_matches("--").to_owned(), value);
        }
        let mut take = |name: &str, default: u64| -> Outcome<u64> {
            named.remove(name).map_or(Ok(default), |text| Ok(text.parse()?))
        };
        let count = |number: u64| usize::try_from(number);
        let (connections, streams) = (count(take("connections", 4)?)?, count(take("streams", 64)?)?);
        let (batch, keys) = (count(take("batch", 1)?)?, take("keys", 100_000)?);
        let time = Duration::from_secs(take("seconds", 5)?);
        let mut pids = |name: &str| -> Outcome<Vec<u32>> {
            let text = named.remove(name).unwrap_or_default();
            Ok(text.split(',').filter(|pid| !pid.is_empty()).map(str::parse).collect::<Result<_, _>>()?)
        };
        let (pids, others) = (pids("pids")?, pids("others")?);
        if let Some(name) = named.keys().next() {
            return Err(format!("--{name}: not an option").into());
        }
        Ok(Self { protocol, addresses, connections, streams, batch, keys, time, pids, others })
    }
}
