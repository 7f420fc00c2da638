//! What one `acquire` costs by each algorithm, beside `governor` in the same run.
//!
//! `cargo bench -p leasehold-limit`. One hot state, then 100,000 states picked at random: the difference is the memory's.
//! Time comes in as an argument and moves by a microsecond a decision; governor is measured with a clock that is set in
//! the same way, and with the one that it reads by default.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use governor::clock::FakeRelativeClock;
use governor::{Quota, RateLimiter};
use leasehold_limit::{Algorithm, Ask, CalendarUnit, Limit, State, Window, Zone};
use leasehold_model::{Nanos, Stamp};

const START: Stamp = Stamp(1_795_000_020_000_000_000);
const STEP: Nanos = Nanos(1_000);
const KEYS: usize = 100_000;

/// One a microsecond and a hundred at once: every ask is admitted, so the longer path is measured.
fn limits() -> Vec<(&'static str, Limit)> {
    let second = Nanos::from_secs(1);
    let calendar = |unit, zone| {
        let zone = Zone::new(zone).expect("a zone of the database");
        Algorithm::FixedWindow(Window::Calendar { unit, zone })
    };
    let limit = |algorithm, n, period| Limit::new(algorithm, n, period).expect("numbers that make a limit");
    vec![
        ("token_bucket", limit(Algorithm::TokenBucket { burst: 100 }, 1_000_000, second)),
        ("leaky_bucket", limit(Algorithm::LeakyBucket { burst: 100 }, 1_000_000, second)),
        ("shaper", limit(Algorithm::Shaper { queue: 100 }, 1_000_000, second)),
        ("fixed_window", limit(Algorithm::FixedWindow(Window::Epoch), 1_000_000, second)),
        ("fixed_window_day_utc", limit(calendar(CalendarUnit::Day, "UTC"), u64::MAX, second)),
        ("fixed_window_day_berlin", limit(calendar(CalendarUnit::Day, "Europe/Berlin"), u64::MAX, second)),
        ("fixed_window_hour_berlin", limit(calendar(CalendarUnit::Hour, "Europe/Berlin"), u64::MAX, second)),
        ("sliding_log_of_20", limit(Algorithm::SlidingLog, 21, Nanos(20_000))),
        ("sliding_counter", limit(Algorithm::SlidingCounter, 2_000_000, second)),
    ]
}

fn one_hot_state(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("acquire/hot");
    for (name, limit) in limits() {
        let (mut state, mut at) = (limit.fresh(), START);
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            bencher.iter(|| {
                at = at.after(STEP);
                limit.acquire(black_box(&mut state), at, black_box(Ask::exactly(1)))
            });
        });
    }
    refusal(&mut group);
    governor_hot(&mut group);
}

fn refusal(group: &mut criterion::BenchmarkGroup<'_, criterion::measurement::WallTime>) {
    let limit = Limit::new(Algorithm::TokenBucket { burst: 5 }, 5, Nanos::from_secs(60)).expect("5 a minute");
    let mut state = limit.fresh();
    limit.charge(&mut state, START, 5);
    group.bench_function("token_bucket_refuses", |bencher| {
        bencher.iter(|| limit.acquire(black_box(&mut state), START, black_box(Ask::exactly(1))));
    });
}

fn quota() -> Quota {
    let number = |n| NonZeroU32::new(n).expect("not zero");
    Quota::per_second(number(1_000_000)).allow_burst(number(100))
}

fn governor_hot(group: &mut criterion::BenchmarkGroup<'_, criterion::measurement::WallTime>) {
    let clock = FakeRelativeClock::default();
    let limiter = RateLimiter::direct_with_clock(quota(), clock.clone());
    group.bench_function("governor_given_time", |bencher| {
        bencher.iter(|| {
            clock.advance(Duration::from_nanos(STEP.0));
            black_box(&limiter).check()
        });
    });
    let limiter = RateLimiter::direct(quota());
    group.bench_function("governor_own_clock", |bencher| bencher.iter(|| black_box(&limiter).check()));
}

fn many_states(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("acquire/100k");
    for (name, limit) in limits() {
        let mut states: Vec<State> = vec![limit.fresh(); KEYS];
        let (mut index, mut at) = (0_usize, START);
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            bencher.iter(|| {
                at = at.after(STEP);
                // Knuth's multiplier steps through all keys in an order that caches can't foresee.
                index = (index + 2_654_435_761) % KEYS;
                limit.acquire(black_box(&mut states[index]), at, black_box(Ask::exactly(1)))
            });
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    targets = one_hot_state, many_states
}
criterion_main!(benches);
