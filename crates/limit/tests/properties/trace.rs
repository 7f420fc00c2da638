//! What traces are drawn from: limits, gaps and costs that gather at the edges where mistakes live.

use leasehold_limit::{Algorithm, Ask, CalendarUnit, Limit, Window, Zone};
use leasehold_model::Nanos;
use proptest::collection::vec;
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;
const TEN_YEARS: u64 = 3_653 * DAY;

/// One counter's life: a limit, when it begins, and what happens.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub limit: Limit,
    pub start: u64,
    pub steps: Vec<Step>,
}

/// Something that happens `gap` after the step before it.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub gap: u64,
    pub what: What,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    Ask(Ask),
    /// Some of what the `which`-th last charge took comes back unspent, at most what it still holds.
    Refund {
        which: usize,
        units: u64,
    },
    /// Other numbers hold from now on.
    Change(Limit),
}

/// Which steps a trace may have besides asks.
#[derive(Clone, Copy)]
pub(crate) struct Mix {
    pub refunds: bool,
    pub changes: bool,
}

impl Mix {
    pub(crate) const ASKS: Self = Self { refunds: false, changes: false };
    pub(crate) const REFUNDS: Self = Self { refunds: true, changes: false };
    pub(crate) const CHANGES: Self = Self { refunds: false, changes: true };
    pub(crate) const ALL: Self = Self { refunds: true, changes: true };
}

/// Traces over limits from `limits`; a change draws its new numbers from `others` of the limit in force at the start.
pub(crate) fn traces<L, O>(
    limits: L,
    mix: Mix,
    others: fn(&Limit) -> O,
) -> impl Strategy<Value = Trace> + use<L, O>
where
    L: Strategy<Value = Limit>,
    O: Strategy<Value = Limit> + 'static,
{
    limits.prop_flat_map(move |limit| {
        let steps = vec(step(&limit, mix, others(&limit).boxed()), 1..24);
        (Just(limit), starts(), steps).prop_map(|(limit, start, steps)| Trace { limit, start, steps })
    })
}

/// For traces whose limit never changes.
pub(crate) fn same(limit: &Limit) -> Just<Limit> {
    Just(limit.clone())
}

/// The same algorithm, period and windows with any other number.
pub(crate) fn other_n(limit: &Limit) -> impl Strategy<Value = Limit> + use<> {
    let limit = limit.clone();
    numbers().prop_map(move |n| {
        Limit::new(limit.algorithm().clone(), n, limit.period()).expect("windows take any n")
    })
}

/// Any other bucket of the same name.
pub(crate) fn other_bucket(limit: &Limit) -> BoxedStrategy<Limit> {
    match limit.algorithm() {
        Algorithm::TokenBucket { .. } => token_buckets().boxed(),
        Algorithm::LeakyBucket { .. } => leaky_buckets().boxed(),
        Algorithm::Shaper { .. }
        | Algorithm::FixedWindow(_)
        | Algorithm::SlidingLog
        | Algorithm::SlidingCounter => unreachable!("only buckets change into buckets here"),
    }
}

pub(crate) fn token_buckets() -> impl Strategy<Value = Limit> {
    refilling(|burst| Algorithm::TokenBucket { burst })
}

pub(crate) fn leaky_buckets() -> impl Strategy<Value = Limit> {
    refilling(|burst| Algorithm::LeakyBucket { burst })
}

pub(crate) fn shapers() -> impl Strategy<Value = Limit> {
    refilling(|queue| Algorithm::Shaper { queue })
}

pub(crate) fn windowed(algorithm: Algorithm) -> impl Strategy<Value = Limit> {
    (numbers(), periods()).prop_map(move |(n, period)| {
        Limit::new(algorithm.clone(), n, Nanos(period)).expect("windows take any n and any period but 0")
    })
}

/// Limits of every algorithm.
pub(crate) fn any_limit() -> impl Strategy<Value = Limit> {
    prop_oneof![
        token_buckets(),
        leaky_buckets(),
        shapers(),
        windowed(Algorithm::FixedWindow(Window::Epoch)),
        windowed(Algorithm::SlidingLog),
        windowed(Algorithm::SlidingCounter),
        calendars(),
    ]
}

pub(crate) fn calendars() -> impl Strategy<Value = Limit> {
    use CalendarUnit::{Day, Hour, Minute, Month, Week, Year};
    const ZONES: [&str; 8] = [
        "UTC",
        "America/New_York",
        "Europe/Berlin",
        "Asia/Kathmandu",
        "Australia/Lord_Howe",
        "America/Havana",
        "Pacific/Apia",
        "Asia/Pyongyang",
    ];
    let units = prop::sample::select(vec![Minute, Hour, Day, Week, Month, Year]);
    (units, prop::sample::select(&ZONES[..]), 0..10_u64).prop_map(|(unit, zone, n)| {
        let zone = Zone::new(zone).expect("a zone of the database");
        let window = Window::Calendar { unit, zone };
        Limit::new(Algorithm::FixedWindow(window), n, Nanos::ZERO).expect("the period is the unit's")
    })
}

/// Traces of calendar windows that begin shortly before a clock is set, a leap day, or anywhere.
pub(crate) fn calendar_traces() -> impl Strategy<Value = Trace> {
    // New York, Berlin, Lord Howe, Havana, Apia's lost day, Pyongyang, 29 February 2028, turn of 2099.
    const MOMENTS: [u64; 9] = [
        1_772_953_200,
        1_793_512_800,
        1_792_890_000,
        1_775_314_800,
        1_793_509_200,
        1_325_239_200,
        1_525_446_000,
        1_835_395_200,
        4_102_444_800,
    ];
    let starts = prop_oneof![
        4 => (prop::sample::select(&MOMENTS[..]), 0..3 * DAY)
            .prop_map(|(moment, before)| (moment * SECOND).saturating_sub(before)),
        1 => Just(0),
        1 => 0..u64::MAX,
    ];
    const GAPS: [u64; 8] = [60, 900, 1_800, 3_600, 21_600, 86_400, 604_800, 2_592_000];
    let gaps = prop_oneof![
        2 => Just(0),
        2 => 0..DAY,
        4 => (prop::sample::select(&GAPS[..]), 0..3_u64).prop_map(|(gap, less)| gap * SECOND - less),
        1 => Just(TEN_YEARS),
    ];
    let steps = vec((gaps, asks(5)).prop_map(|(gap, ask)| Step { gap, what: What::Ask(ask) }), 1..12);
    (calendars(), starts, steps).prop_map(|(limit, start, steps)| Trace { limit, start, steps })
}

/// Buckets and shapers: any numbers, with period and capacity cut to what `Limit::new` accepts at that rate.
fn refilling(algorithm: fn(u64) -> Algorithm) -> impl Strategy<Value = Limit> {
    (numbers(), periods(), capacities()).prop_map(move |(n, period, capacity)| {
        let (n, period) = (n.max(1), period.min(u64::MAX / 4));
        let most = u128::from(u64::MAX / 2) * u128::from(n) / u128::from(period) - 1;
        let capacity = match capacity {
            Capacity::OfN(times) => n.saturating_mul(times),
            Capacity::Units(units) => units,
        };
        let capacity = u64::try_from(most).unwrap_or(u64::MAX).min(capacity).max(1);
        Limit::new(algorithm(capacity), n, Nanos(period)).expect("numbers cut to fit")
    })
}

#[derive(Clone, Copy, Debug)]
enum Capacity {
    OfN(u64),
    Units(u64),
}

fn capacities() -> impl Strategy<Value = Capacity> {
    prop_oneof![
        3 => Just(Capacity::OfN(1)),
        1 => Just(Capacity::OfN(10)),
        4 => (1..8_u64).prop_map(Capacity::Units),
        1 => any::<u64>().prop_map(Capacity::Units),
    ]
}

fn numbers() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => 0..12_u64,
        2 => prop::sample::select(vec![100, 1_000, 3_000, 999_983]),
        1 => any::<u64>().prop_perturb(|bits, mut rng| bits >> (rng.next_u32() % 64)),
        1 => Just(u64::MAX),
    ]
}

fn periods() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => 1..12_u64,
        4 => prop::sample::select(vec![1_000, SECOND, 60 * SECOND, 3_600 * SECOND, DAY, 30 * DAY]),
        2 => any::<u64>().prop_perturb(|bits, mut rng| (bits >> (rng.next_u32() % 64)).max(1)),
        1 => Just(u64::MAX),
    ]
}

fn starts() -> impl Strategy<Value = u64> {
    prop_oneof![
        2 => 0..10_u64,
        4 => (0..DAY).prop_map(|later| 1_795_000_020 * SECOND + later),
        1 => (0..DAY).prop_map(|before| u64::MAX - before),
        1 => any::<u64>(),
    ]
}

fn step(limit: &Limit, mix: Mix, others: BoxedStrategy<Limit>) -> impl Strategy<Value = Step> + use<> {
    let refund = (0..4_usize, costs(limit.cap())).prop_map(|(which, units)| What::Refund { which, units });
    let what = prop_oneof![
        10 => asks(limit.cap()).prop_map(What::Ask),
        if mix.refunds { 4 } else { 0 } => refund,
        if mix.changes { 3 } else { 0 } => others.prop_map(What::Change),
    ];
    (gaps(limit), what).prop_map(|(gap, what)| Step { gap, what })
}

/// Gaps around the times at which something happens: one unit's, one period's.
fn gaps(limit: &Limit) -> impl Strategy<Value = u64> + use<> {
    let (period, unit) = (limit.period().0, limit.period().0 / limit.n().max(1));
    prop_oneof![
        6 => Just(0),
        2 => 1..10_u64,
        4 => (0..4_u64, 0..3_u64).prop_map(move |(units, more)| {
            unit.saturating_mul(units).saturating_add(more).saturating_sub(1)
        }),
        4 => (1..3_u64, 0..3_u64).prop_map(move |(periods, more)| {
            period.saturating_mul(periods).saturating_add(more).saturating_sub(1)
        }),
        4 => 0..=period,
        1 => Just(TEN_YEARS),
    ]
}

fn asks(cap: u64) -> impl Strategy<Value = Ask> {
    prop_oneof![
        4 => costs(cap).prop_map(Ask::exactly),
        1 => (costs(cap), costs(cap)).prop_map(|(min, max)| Ask { min, max }),
    ]
}

fn costs(cap: u64) -> impl Strategy<Value = u64> {
    prop_oneof![
        1 => Just(0),
        6 => 1..4_u64,
        2 => Just(cap),
        1 => Just(cap.saturating_add(1)),
        3 => 0..=cap,
        1 => any::<u64>(),
    ]
}
