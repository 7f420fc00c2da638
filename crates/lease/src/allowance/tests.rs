//! Shares add up to no more than their part, and each fills from empty.

use leasehold_limit::Zone;

use super::*;

const KEY: Key = Key { high: 1, low: 2 };

fn bucket(burst: u64, n: u64, period: Nanos) -> Limit {
    Limit::new(Algorithm::TokenBucket { burst }, n, period).expect("numbers that make a limit")
}

fn window(n: u64) -> Limit {
    Limit::new(Algorithm::FixedWindow(Window::Epoch), n, Nanos::from_secs(60)).expect("a window")
}

fn secs(secs: u64) -> BootTime {
    BootTime(secs * 1_000_000_000)
}

/// With number 3 since second 0.
fn allowances() -> Allowances {
    let mut allowances = Allowances::new(2);
    allowances.handle_slot(3, secs(0));
    allowances
}

/// How many of `tries` single units are admitted at second `at`.
fn admitted(allowances: &mut Allowances, limit: &Limit, share: Share, tries: u64, at: u64) -> u64 {
    let mut once =
        || allowances.acquire(KEY, limit, share, 8, 1, secs(at)).is_some_and(|decision| decision.allowed);
    (0..tries).map(|_| u64::from(once())).sum()
}

#[test]
fn a_share_begins_empty_and_fills_at_its_own_rate() {
    // A tenth of 100 at once and 10 a second: one a second, up to 10.
    let (limit, share) = (bucket(100, 10, Nanos::from_secs(1)), Share::each(800_000, 8));
    let mut allowances = allowances();
    assert_eq!(admitted(&mut allowances, &limit, share, 20, 0), 0);
    assert_eq!(admitted(&mut allowances, &limit, share, 20, 4), 4);
    assert_eq!(admitted(&mut allowances, &limit, share, 20, 100), 10);
    assert_eq!(admitted(&mut allowances, &limit, share, 20, 100), 0);
}

#[test]
fn a_windows_share_holds_in_every_span_as_long_as_a_window() {
    let share = Share::each(800_000, 8);
    let mut allowances = allowances();
    let mut spent = Vec::new();
    for at in 0..600 {
        let units = admitted(&mut allowances, &window(100), share, 3, at);
        spent.push(units);
        let span = spent.iter().rev().take(60).sum::<u64>();
        assert!(span <= 10, "{span} within a minute, at second {at}");
    }
    // A 65th longer than a window, and begun parts count whole.
    assert!(spent.iter().sum::<u64>() >= 80, "{}", spent.iter().sum::<u64>());
}

#[test]
fn a_calendar_windows_share_reckons_with_the_longest_there_is() {
    let day = Window::Calendar { unit: CalendarUnit::Day, zone: Zone::utc() };
    let limit = Limit::new(Algorithm::FixedWindow(day), 100, Nanos::ZERO).expect("a day");
    let local = local(&limit, Share::WHOLE).expect("all of it");
    assert_eq!(local.algorithm(), &Algorithm::SlidingLog);
    assert!(local.period() > Nanos::from_secs(2 * 86_400));
}

#[test]
fn only_a_live_number_below_n_has_a_share() {
    let (limit, share) = (bucket(100, 10, Nanos::from_secs(1)), Share::each(500_000, 8));
    let mut allowances = Allowances::new(1);
    assert_eq!(allowances.acquire(KEY, &limit, share, 8, 1, secs(9)), None);
    allowances.handle_slot(3, secs(0));
    assert!(allowances.acquire(KEY, &limit, share, 4, 1, secs(9)).is_some());
    assert_eq!(allowances.acquire(KEY, &limit, share, 3, 1, secs(9)), None);
    assert_eq!(allowances.acquire(KEY, &limit, share, 8, 1, secs(3_600)), None, "its hour is over");
    allowances.handle_slot(3, secs(3_000));
    assert!(allowances.acquire(KEY, &limit, share, 8, 1, secs(6_000)).is_some());
}

#[test]
fn a_number_renewed_in_time_goes_on_and_another_begins_empty() {
    let (limit, share) = (bucket(100, 10, Nanos::from_secs(1)), Share::each(800_000, 8));
    let mut allowances = allowances();
    allowances.handle_slot(3, secs(50));
    assert_eq!(admitted(&mut allowances, &limit, share, 20, 50), 10);
    allowances.handle_slot(4, secs(60));
    assert_eq!(admitted(&mut allowances, &limit, share, 20, 60), 0);
    allowances.handle_slot(3, secs(55));
    assert_eq!(allowances.slot(secs(60)), Some(4), "an answer that was long under way");
}

#[test]
fn at_the_bound_only_allowances_that_are_full_make_room() {
    let (limit, share) = (bucket(100, 10, Nanos::from_secs(1)), Share::each(800_000, 8));
    let key = |low| Key { high: 0, low };
    let mut allowances = allowances();
    for low in 0..2 {
        assert!(allowances.acquire(key(low), &limit, share, 8, 1, secs(100)).is_some());
    }
    assert_eq!(allowances.acquire(key(2), &limit, share, 8, 1, secs(100)), None);
    assert!(allowances.acquire(key(2), &limit, share, 8, 1, secs(102)).is_some());
}
