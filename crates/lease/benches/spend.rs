//! What spending one unit of a lease costs, beside `governor` and beside the least it could cost, in one run.
//!
//! `cargo bench -p leasehold-lease --bench spend`. Each line is the median of rounds that take turns, so that a machine
//! that slows down slows all of them, and counts processor time. A hot key, then 100,000 keys of 32 bytes picked at random:
//! hashed as a node hashes them, or hashed before, and found among the cells of as many wallets as a client has. Beside
//! them the least that it could cost: one exchange of a word of its own cache line, as many lines, picked in the same way.
//! Clocks: the system's boot-time clock, which is what a lease is counted on, and `quanta`, which reads the processor's
//! counter and doesn't promise to go on in suspend.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use leasehold_lease::{Cells, EdgeId, LeaseId, Leased, Settings, Spend, Wallet};
use leasehold_limit::{KeySecret, RuleKeys};
use leasehold_model::{BootTime, Key, Nanos, Stamp};
use rustix::time::{ClockId, clock_gettime};

const KEYS: usize = 100_000;
/// As many as a client has, each of its share of the keys.
const WALLETS: usize = 64;
const ROUNDS: usize = 9;
const SPENDS_A_ROUND: u64 = 400_000;
/// A lease that no round spends empty.
const UNITS: u64 = 1 << 39;

fn clock(id: ClockId) -> u64 {
    let time = clock_gettime(id);
    let part = |value: i64| u64::try_from(value).expect("since the start");
    part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec)
}

fn boot() -> BootTime {
    BootTime(clock(ClockId::Boottime))
}

/// The processor's counter, set by the boot-time clock.
struct Counter {
    clock: quanta::Clock,
    zero: u64,
    boot: BootTime,
}

impl Counter {
    fn new() -> Self {
        let clock = quanta::Clock::new();
        Self { zero: clock.raw(), boot: boot(), clock }
    }

    #[inline]
    fn now(&self) -> BootTime {
        BootTime(self.boot.0 + self.clock.delta_as_nanos(self.zero, self.clock.raw()))
    }
}

fn key_names() -> Vec<[u8; 32]> {
    let name = |index: usize| {
        let mut name = *b"customer-0000000000000000000000/";
        name[9..17].copy_from_slice(format!("{index:08}").as_bytes());
        name
    };
    (0..KEYS).map(name).collect()
}

/// A live lease in the cell of every key. Asked for in an hour, so that it lasts until then, however slow the machine is.
fn lease(wallet: &mut Wallet<()>, keys: &[Key]) {
    let now = BootTime(boot().0 + 3_600_000_000_000);
    for &key in keys {
        let far = BootTime(u64::MAX);
        // A demand of as much as is lent, so that none of it is too much to hold.
        let _waits = wallet.handle_check(key, &(), UNITS, far, now);
    }
    let mut id = now.0;
    while let Some(asked) = wallet.poll_ask(now) {
        id += 1;
        let leased = Leased {
            lease: Some(LeaseId(id)),
            granted: 2 * UNITS,
            sync: asked.ask.need,
            lifetime: Nanos::from_secs(60),
            gate: None,
            retry_after: None,
            remaining: UNITS,
            reset_after: Nanos::ZERO,
            slot: None,
            at: Stamp(now.0),
        };
        assert!(wallet.handle_leased(asked.id, &leased, now));
    }
    while wallet.poll_event().is_some() {}
}

fn wallet() -> Wallet<()> {
    Wallet::new(EdgeId(1), 1, Settings { keys_max: KEYS + 1, ..Settings::default() })
}

fn is_taken(spend: Spend) -> bool {
    match spend {
        Spend::Taken { .. } => true,
        Spend::Short | Spend::Over => false,
    }
}

/// Picks keys without a pattern that a processor learns: xorshift.
struct Pick(u64);

impl Pick {
    fn next(&mut self) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % KEYS as u64).expect("an index")
    }
}

/// Nanoseconds of its processor that a call takes, of so many on each of so many threads at once. Whoever else keeps the
/// machine busy takes time, not processor time.
fn round(threads: u64, calls: u64, body: &(dyn Fn(u64, u64) + Sync)) -> f64 {
    let timed = |thread| {
        let start = clock(ClockId::ThreadCPUTime);
        body(thread, calls);
        clock(ClockId::ThreadCPUTime) - start
    };
    let nanos: u64 = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|thread| scope.spawn(move || timed(thread))).collect();
        let own = timed(0);
        own + others.into_iter().map(|other| other.join().expect("a thread")).sum::<u64>()
    });
    #[expect(clippy::cast_precision_loss, reason = "a figure to print")]
    let each = nanos as f64 / (calls * threads) as f64;
    each
}

struct Line<'a> {
    name: &'static str,
    threads: u64,
    body: Box<dyn Fn(u64, u64) + Sync + 'a>,
}

fn line<'a>(name: &'static str, threads: u64, body: impl Fn(u64, u64) + Sync + 'a) -> Line<'a> {
    Line { name, threads, body: Box::new(body) }
}

/// Rounds of all lines in turn; the median of each.
fn run(title: &str, lines: &[Line<'_>]) {
    let mut figures = vec![Vec::new(); lines.len()];
    for _ in 0..ROUNDS {
        for (line, figures) in lines.iter().zip(&mut figures) {
            figures.push(round(line.threads, SPENDS_A_ROUND, &*line.body));
        }
    }
    println!("{title}");
    for (line, mut figures) in lines.iter().zip(figures) {
        figures.sort_by(f64::total_cmp);
        println!("  {:58} {:7.1} ns", line.name, figures[ROUNDS / 2]);
    }
}

fn quota() -> Quota {
    let number = |n| NonZeroU32::new(n).expect("not zero");
    Quota::per_second(number(1_000_000_000)).allow_burst(number(1_000_000_000))
}

fn repeat(calls: u64, mut call: impl FnMut() -> bool) {
    let mut admitted = 0_u64;
    for _ in 0..calls {
        admitted += u64::from(call());
    }
    assert_eq!(black_box(admitted), calls, "everything is admitted, so that the longer way is measured");
}

fn hot_key(counter: &Counter) {
    let key = Key::from_u128(5);
    let mut wallet = wallet();
    lease(&mut wallet, &[key]);
    let held = wallet.cells().hold(key).expect("held");
    let cell = held.cell();
    let word = AtomicU64::new(u64::MAX);
    let swap = || {
        let seen = word.load(Ordering::Acquire);
        word.compare_exchange_weak(seen, seen - 1, Ordering::AcqRel, Ordering::Acquire).is_ok()
    };
    let limiter = RateLimiter::direct(quota());
    let lines = [
        line("compare-and-swap", 1, |_, calls| repeat(calls, swap)),
        line("compare-and-swap + quanta", 1, |_, calls| repeat(calls, || swap() & (counter.now().0 > 0))),
        line("compare-and-swap + CLOCK_BOOTTIME", 1, |_, calls| repeat(calls, || swap() & (boot().0 > 0))),
        line("Cell::spend, time given", 1, {
            let now = boot();
            move |_, calls| repeat(calls, || is_taken(cell.spend(1, black_box(now))))
        }),
        line("Cell::spend + quanta", 1, |_, calls| repeat(calls, || is_taken(cell.spend(1, counter.now())))),
        line("Cell::spend + CLOCK_BOOTTIME", 1, |_, calls| repeat(calls, || is_taken(cell.spend(1, boot())))),
        line("Cell::spend + quanta, 2 threads", 2, |_, calls| {
            repeat(calls, || is_taken(cell.spend(1, counter.now())));
        }),
        line("governor direct", 1, |_, calls| repeat(calls, || limiter.check().is_ok())),
        line("governor direct, 2 threads", 2, |_, calls| repeat(calls, || limiter.check().is_ok())),
    ];
    run("hot key", &lines);
}

/// The cells of all keys, as a shell has them.
struct Shell {
    cells: Vec<Arc<Cells>>,
    _wallets: Vec<Wallet<()>>,
}

impl Shell {
    fn new(keys: &[Key]) -> Self {
        let mut wallets: Vec<_> = (0..WALLETS).map(|_| wallet()).collect();
        for (number, wallet) in wallets.iter_mut().enumerate() {
            let own: Vec<Key> = keys.iter().copied().filter(|&key| wallet_of(key) == number).collect();
            lease(wallet, &own);
        }
        Self { cells: wallets.iter().map(|wallet| Arc::clone(wallet.cells())).collect(), _wallets: wallets }
    }

    fn spend(&self, key: Key, now: BootTime) -> bool {
        self.cells[wallet_of(key)].find(key).is_some_and(|cell| is_taken(cell.spend(1, now)))
    }
}

fn wallet_of(key: Key) -> usize {
    usize::try_from(key.high % WALLETS as u64).expect("a few")
}

/// A word on a cache line of its own.
#[repr(align(64))]
struct Word(AtomicU64);

impl Word {
    fn take(&self) -> bool {
        let next = |seen: u64| Some(seen.wrapping_sub(1));
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).is_ok()
    }
}

/// Calls with keys picked anew for each.
fn picked(calls: u64, thread: u64, mut call: impl FnMut(usize) -> bool) {
    let mut pick = Pick(0x9e37_79b9_7f4a_7c15 + thread);
    repeat(calls, || call(pick.next()));
}

fn many_keys(counter: &Counter) {
    let names = key_names();
    let rule = RuleKeys::new(&KeySecret::new([7; 16]), "api", "bench");
    let key = |at: usize| rule.key(std::iter::once(Some(black_box(&names[at]).as_slice())));
    let keys: Vec<Key> = (0..KEYS).map(key).collect();
    let shell = Shell::new(&keys);
    let words: Vec<Word> = (0..KEYS).map(|_| Word(AtomicU64::new(0))).collect();
    let limiter: DefaultKeyedRateLimiter<[u8; 32]> = RateLimiter::keyed(quota());
    for name in &names {
        assert!(limiter.check_key(name).is_ok());
    }
    let now = || counter.now();
    let (given, shell, keys) = (boot(), &shell, &keys);
    let swapped = |thread, calls| picked(calls, thread, |at| words[at].take() & (now().0 > 0));
    let hashed = |thread, calls| picked(calls, thread, |at| shell.spend(key(at), now()));
    let system = |thread, calls| picked(calls, thread, |at| shell.spend(key(at), boot()));
    let known = |thread, calls| picked(calls, thread, |at| shell.spend(*black_box(&keys[at]), now()));
    let governor =
        |thread, calls| picked(calls, thread, |at| limiter.check_key(black_box(&names[at])).is_ok());
    let lines = [
        line("compare-and-swap + quanta", 1, swapped),
        line("compare-and-swap + quanta, 2 threads", 2, swapped),
        line("hash of the key alone", 1, |thread, calls| {
            picked(calls, thread, |at| black_box(key(at)).high > 0);
        }),
        line("hash, cell found", 1, |thread, calls| {
            picked(calls, thread, |at| {
                let key = key(at);
                shell.cells[wallet_of(key)].find(key).is_some()
            });
        }),
        line("hash, spend, time given", 1, |thread, calls| {
            picked(calls, thread, |at| shell.spend(key(at), black_box(given)));
        }),
        line("hash, spend + quanta", 1, hashed),
        line("hash, spend + quanta, 2 threads", 2, hashed),
        line("hash, spend + CLOCK_BOOTTIME", 1, system),
        line("hash, spend + CLOCK_BOOTTIME, 2 threads", 2, system),
        line("hashed before, spend + quanta", 1, known),
        line("hashed before, spend + quanta, 2 threads", 2, known),
        line("governor keyed (DashMap)", 1, governor),
        line("governor keyed (DashMap), 2 threads", 2, governor),
    ];
    run("100,000 keys of 32 bytes", &lines);
}

fn main() {
    let counter = Counter::new();
    hot_key(&counter);
    many_keys(&counter);
}
