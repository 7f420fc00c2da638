//! One load for two servers: exact checks on a Leasehold cluster, and the same token bucket as a Lua script in Redis.
//!
//! `exact grpc ADDR,ADDR,… [options]` or `exact redis ADDR [options]`, with `--connections 4 --streams 64 --batch 1
//! --keys 100000 --seconds 5 --pids 1,2,3`. Closed loop: each stream sends its next request when it has the answer. Prints
//! one line: checks a second, p50 and p99 in ms, and the servers' processor time a check.

#![expect(clippy::print_stdout, reason = "the report is the purpose")]

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::time::Duration;

use leasehold_wire::proto::leasehold::v1;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use redis::aio::MultiplexedConnection;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::transport::{Channel, Endpoint};

/// The bucket of `1000000/second` as Redis users write it: two fields a key, the server's time, one call.
const TOKEN_BUCKET: &str = r"
local rate, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens = tonumber(bucket[1]) or burst
local at = tonumber(bucket[2]) or now
tokens = math.min(burst, tokens + (now - at) * rate)
local allowed = tokens >= cost
if allowed then tokens = tokens - cost end
redis.call('HSET', KEYS[1], 'tokens', tokens, 'at', now)
redis.call('EXPIRE', KEYS[1], 60)
return allowed and 1 or 0
";

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
}

/// One stream of one connection.
enum Caller {
    Grpc(v1::limiter_client::LimiterClient<Channel>),
    Redis(MultiplexedConnection, redis::Script),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let options = Options::read()?;
    let mut callers = Vec::new();
    for connection in 0..options.connections {
        let address = &options.addresses[connection % options.addresses.len()];
        let caller = Caller::connect(&options.protocol, address).await?;
        callers.extend((0..options.streams).map(|_| caller.again()));
    }
    // Warms connections, and makes the counters that are measured.
    run(&options, &callers, Duration::from_secs(1)).await?;
    let (cpu, began) = (cpu_of(&options.pids)?, Instant::now());
    let mut latencies = run(&options, &callers, options.time).await?;
    let (cpu, took) = (cpu_of(&options.pids)? - cpu, began.elapsed().as_secs_f64());
    latencies.sort_unstable();
    let at = |part: usize| latencies[(latencies.len() - 1) * part / 100].as_secs_f64() * 1e3;
    let checks = (latencies.len() * options.batch) as f64;
    println!(
        "{:>9.0} checks/s  p50 {:>6.2} ms  p99 {:>6.2} ms  {:>5.1} us CPU a check",
        checks / took,
        at(50),
        at(99),
        cpu * 1e6 / checks
    );
    Ok(())
}

async fn run(options: &Options, callers: &[Caller], time: Duration) -> Outcome<Vec<Duration>> {
    let end = Instant::now() + time;
    let mut streams = JoinSet::new();
    for (number, caller) in (0..).zip(callers) {
        let (mut caller, batch, keys) = (caller.again(), options.batch, options.keys);
        streams.spawn(async move {
            let mut rng = SmallRng::seed_from_u64(number);
            let mut latencies = Vec::new();
            while Instant::now() < end {
                let began = Instant::now();
                let chosen: Vec<u64> = (0..batch).map(|_| rng.random_range(0..keys)).collect();
                caller.check(&chosen).await?;
                latencies.push(began.elapsed());
            }
            Outcome::Ok(latencies)
        });
    }
    let mut all = Vec::new();
    while let Some(stream) = streams.join_next().await {
        all.extend(stream??);
    }
    Ok(all)
}

impl Caller {
    async fn connect(protocol: &str, address: &str) -> Outcome<Self> {
        Ok(match protocol {
            "grpc" => {
                let endpoint = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true);
                Self::Grpc(v1::limiter_client::LimiterClient::new(endpoint.connect().await?))
            }
            "redis" => {
                let client = redis::Client::open(format!("redis://{address}"))?;
                Self::Redis(
                    client.get_multiplexed_async_connection().await?,
                    redis::Script::new(TOKEN_BUCKET),
                )
            }
            other => return Err(format!("{other}: use grpc or redis").into()),
        })
    }

    fn again(&self) -> Self {
        match self {
            Self::Grpc(client) => Self::Grpc(client.clone()),
            Self::Redis(connection, script) => Self::Redis(connection.clone(), script.clone()),
        }
    }

    /// Asks one unit of each key; an error when anything is refused, since the load is below every limit.
    async fn check(&mut self, keys: &[u64]) -> Outcome<()> {
        match (self, keys) {
            (Self::Grpc(client), [key]) => {
                let answer = client.check(request(*key)).await?.into_inner();
                allowed(&answer)
            }
            (Self::Grpc(client), keys) => {
                let checks = keys.iter().copied().map(request).collect();
                let answer = client.check_batch(v1::CheckBatchRequest { checks }).await?.into_inner();
                answer.results.iter().try_for_each(|result| match &result.result {
                    Some(v1::batch_result::Result::Response(answer)) => allowed(answer),
                    other => Err(format!("{other:?}").into()),
                })
            }
            (Self::Redis(connection, script), [key]) => {
                let mut asked = script.key(format!("bench:caller-{key}"));
                let taken: i64 = asked.arg(1_000_000).arg(1_000_000).arg(1).invoke_async(connection).await?;
                if taken == 1 { Ok(()) } else { Err("refused".into()) }
            }
            // What waits on a connection leaves together anyway.
            (Self::Redis(..), _) => Err("--batch: only grpc has batches".into()),
        }
    }
}

fn request(key: u64) -> v1::CheckRequest {
    let value = format!("caller-{key}").into_bytes().into();
    v1::CheckRequest {
        domain: "bench".to_owned(),
        attributes: vec![v1::Attribute { name: "key".to_owned(), value }],
        ..Default::default()
    }
}

/// A check that wasn't decided by its counter would make the figures those of something else.
fn allowed(answer: &v1::CheckResponse) -> Outcome<()> {
    let decided = !answer.degraded && answer.matched.len() == 1;
    if answer.verdict() == v1::Verdict::Allowed && decided {
        Ok(())
    } else {
        Err(format!("{answer:?}").into())
    }
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
        let protocol = arguments.next().ok_or("which protocol? grpc or redis")?;
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
        let pids = named.remove("pids").unwrap_or_default();
        let pids = pids.split(',').filter(|pid| !pid.is_empty()).map(str::parse).collect::<Result<_, _>>()?;
        if let Some(name) = named.keys().next() {
            return Err(format!("--{name}: not an option").into());
        }
        Ok(Self { protocol, addresses, connections, streams, batch, keys, time, pids })
    }
}
