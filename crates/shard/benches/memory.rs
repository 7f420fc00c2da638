//! A million token-bucket keys through `apply`: resident bytes a key, time a command, and the longest single command.
//!
//! `cargo bench -p leasehold-shard --bench memory`. Memory is the resident set from /proc, so this needs Linux. One
//! command a batch except where it says otherwise: the batch's own costs are in the figures.
#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark measures time; the machine under it never reads any"
)]
#![expect(clippy::print_stdout, reason = "a benchmark's figures are its output")]

use std::time::{Duration, Instant};

use leasehold_limit::{Algorithm, Ask, Limit};
use leasehold_model::{Key, Nanos, RulesVersion, Stamp, TenantId};
use leasehold_shard::{Acquire, Batch, Bounds, Command, Demand, LimitSpec, Reply, Shard};

const KEYS: u64 = 1_000_000;
const GOAL_BYTES_A_KEY: u64 = 48;
const START: Stamp = Stamp(1_800_000_000_000_000_000);

fn main() {
    println!(
        "goal {GOAL_BYTES_A_KEY} bytes a key resident at {KEYS} keys; the shortest of several runs each"
    );
    // First of all, so that nothing freed before is used again.
    let mut took = vec![Duration::MAX; usize::try_from(KEYS).expect("it fits")];
    let mut bench = Bench::new();
    let before = resident_bytes();
    bench.grow(&mut took);
    println!("{KEYS} new keys: {:.1} bytes a key resident", ratio(resident_bytes() - before, KEYS));
    for _ in 0..3 {
        Bench::new().grow(&mut took);
    }
    let sum: Duration = took.iter().sum();
    took.sort_unstable();
    let longest: Vec<String> =
        took.iter().rev().take(5).map(|took| format!("{:.0}", micros(*took))).collect();
    println!("a new key: {:.0} ns, longest applies {} us", nanos(sum) / ratio(KEYS, 1), longest.join(", "));
    for (name, keys) in [("1 hot key", 1), ("100k keys", 100_000)] {
        let mut bench = Bench::new();
        let all = bench.batch(0..keys);
        bench.apply(&all);
        bench.timed(&format!("{name}, 1 a batch"), keys, 1);
        bench.timed(&format!("{name}, 64 a batch"), keys, 64);
    }
    bench.timed("1M keys, 1 a batch", KEYS, 1);
    bench.timed("1M keys, 64 a batch", KEYS, 64);
    let began = Instant::now();
    let hash = bench.shard.state_hash();
    println!("state hash of 1M keys: {:.1} ms ({hash:032x})", millis(began.elapsed()));
    let began = Instant::now();
    let snapshot = bench.shard.snapshot();
    println!("snapshot of 1M keys: {:.1} ms", millis(began.elapsed()));
    let began = Instant::now();
    let restored = Shard::restore(snapshot, Bounds::default()).expect("its own snapshot");
    println!("restore of 1M keys: {:.1} ms, {} keys", millis(began.elapsed()), restored.keys());
}

struct Bench {
    shard: Shard,
    limits: Vec<LimitSpec>,
}

impl Bench {
    fn new() -> Self {
        let limit =
            Limit::new(Algorithm::TokenBucket { burst: 100_000_000 }, 1_000_000, Nanos::from_secs(3_600));
        let limit = limit.expect("valid");
        let spec = LimitSpec { tenant: TenantId(1), version: RulesVersion(1), since: Stamp::ZERO, limit };
        Self { shard: Shard::new(Bounds::default()), limits: vec![spec] }
    }

    fn batch(&self, keys: impl Iterator<Item = u64>) -> Batch {
        let command = |n| {
            let demand = Demand { key: key(n), limit: 0, ask: Ask::exactly(1), shadow: false };
            Command::Acquire(Acquire { id: None, demands: vec![demand], remember_denial: true })
        };
        Batch { limits: self.limits.clone(), commands: keys.map(command).collect(), ..Batch::default() }
    }

    fn apply(&mut self, batch: &Batch) {
        for reply in self.shard.apply(batch, START) {
            assert!(matches!(reply, Reply::Acquired(acquired) if acquired.admitted), "everything fits");
        }
    }

    /// Adds keys one a batch and keeps the time that each took where it is the shortest so far.
    fn grow(&mut self, took: &mut [Duration]) {
        for (n, shortest) in (0..).zip(took) {
            let batch = self.batch(std::iter::once(n));
            let began = Instant::now();
            self.apply(&batch);
            *shortest = began.elapsed().min(*shortest);
        }
    }

    /// Asks keys in a scattered order, `size` a batch; batches are made outside the time taken.
    fn timed(&mut self, name: &str, keys: u64, size: u64) {
        const ASKS: u64 = 1 << 19;
        const ROUND: u64 = 1 << 13;
        let (mut shortest, mut asks) = (Duration::MAX, 0);
        while asks < ASKS {
            let starts = (asks..asks + ROUND).step_by(usize::try_from(size).expect("small"));
            let batches: Vec<Batch> =
                starts.map(|start| self.batch((start..start + size).map(|n| scattered(n) % keys))).collect();
            let began = Instant::now();
            for batch in &batches {
                self.apply(batch);
            }
            shortest = began.elapsed().min(shortest);
            asks += ROUND;
        }
        println!("{name}: {:.0} ns a command", nanos(shortest) / ratio(ROUND, 1));
    }
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.expect("statm's second field is resident pages") * 4_096
}

fn scattered(n: u64) -> u64 {
    let x = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn key(n: u64) -> Key {
    Key { high: scattered(n), low: scattered(!n) }
}

#[expect(clippy::cast_precision_loss, reason = "printed with one decimal")]
fn ratio(a: u64, b: u64) -> f64 {
    a as f64 / b as f64
}

fn nanos(took: Duration) -> f64 {
    took.as_secs_f64() * 1e9
}

fn micros(took: Duration) -> f64 {
    took.as_secs_f64() * 1e6
}

fn millis(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}
