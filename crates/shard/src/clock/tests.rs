//! The steering of a shard's time towards wall time.

use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;
const WALL: u64 = 1_700_000_000 * SECOND;

/// Runs a line for (boot seconds, wall seconds since its start) and returns how far it got, in nanoseconds.
fn run(readings: &[(u64, i64)]) -> u64 {
    let mut line = SteeredClock::new(BootTime(0), WallTime(WALL));
    let mut last = Stamp(WALL);
    for &(boot, wall) in readings {
        let boot = BootTime(boot * SECOND);
        line.steer(boot, WallTime(WALL.saturating_add_signed(wall * 1_000_000_000)));
        let now = line.read(boot);
        assert!(now >= last, "ran backwards");
        last = now;
    }
    last.since(Stamp(WALL)).0
}

#[test]
fn a_clock_that_agrees_with_wall_time_is_wall_time() {
    assert_eq!(run(&[(1, 1), (2, 2), (100, 100)]), 100 * SECOND);
}

#[test]
fn a_wall_step_forward_mints_at_most_a_thousandth() {
    let hour_ahead: Vec<_> = (1..=10_u64).map(|s| (s, s.cast_signed() + 3_600)).collect();
    assert_eq!(run(&hour_ahead), 10 * SECOND + 9 * SECOND / SLEW_PER);
}

#[test]
fn a_wall_step_backward_slows_and_never_reverses() {
    let hour_behind: Vec<_> = (1..=10_u64).map(|s| (s, s.cast_signed() - 3_600)).collect();
    assert_eq!(run(&hour_behind), 10 * SECOND - 9 * SECOND / SLEW_PER);
}

#[test]
fn a_line_that_is_taken_over_goes_on_whatever_the_new_wall_clock_says() {
    for skew in [-3_600, -30, 30, 3_600_i64] {
        let mut line = SteeredClock::continued(BootTime(5 * SECOND), Stamp(WALL));
        let wall = WALL.saturating_add_signed(skew * 1_000_000_000);
        line.steer(BootTime(6 * SECOND), WallTime(wall));
        assert_eq!(line.read(BootTime(6 * SECOND)), Stamp(WALL + SECOND));
        let later = line.read(BootTime(16 * SECOND)).since(Stamp(WALL)).0;
        assert!(later.abs_diff(11 * SECOND) <= 10 * SECOND / SLEW_PER, "{later}");
    }
}

#[test]
fn suspend_counts_as_time() {
    assert_eq!(run(&[(1, 1), (36_001, 36_001)]), 36_001 * SECOND);
}

#[test]
fn a_small_error_is_met_and_not_overshot() {
    // 2 ms ahead: two seconds to meet it, however long nobody looks.
    let mut line = SteeredClock::new(BootTime(0), WallTime(WALL));
    line.steer(BootTime(0), WallTime(WALL + 2_000_000));
    assert_eq!(line.read(BootTime(SECOND)).0, WALL + SECOND + 1_000_000);
    assert_eq!(line.read(BootTime(500 * SECOND)).0, WALL + 500 * SECOND + 2_000_000);
}

#[test]
fn a_second_passes_between_two_steerings() {
    let line = SteeredClock::new(BootTime(7), WallTime(WALL));
    assert!(!line.wants_steering(BootTime(7 + SECOND - 1)));
    assert!(line.wants_steering(BootTime(7 + SECOND)));
}

proptest! {
    #[test]
    fn whatever_wall_time_does_stamps_follow_boot_time(
        readings in prop::collection::vec((0..10 * SECOND, any::<u64>()), 1..50)
    ) {
        let mut line = SteeredClock::new(BootTime(0), WallTime(WALL));
        let (mut boot, mut last) = (0, Stamp(WALL));
        for (step, wall) in readings {
            boot += step;
            let now = line.read(BootTime(boot));
            let moved = now.since(last).0;
            prop_assert!(now >= last);
            prop_assert!(moved.abs_diff(step) <= step / SLEW_PER + 1, "{moved} in {step}");
            last = now;
            line.steer(BootTime(boot), WallTime(wall));
            prop_assert_eq!(line.read(BootTime(boot)), last, "steering moved the stamp");
        }
    }
}
