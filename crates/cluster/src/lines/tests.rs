//! Where a term's line begins, and that it never follows a wall clock that is off.

use std::sync::atomic::{AtomicU64, Ordering};

use leasehold_model::Nanos;

use super::*;

const GROUP: GroupId = GroupId(3);
const SECOND: u64 = 1_000_000_000;

#[derive(Debug, Default)]
struct Hands {
    boot: AtomicU64,
    wall: AtomicU64,
}

impl Clock for Hands {
    fn boot(&self) -> BootTime {
        BootTime(self.boot.load(Ordering::Relaxed))
    }

    fn wall(&self) -> WallTime {
        WallTime(self.wall.load(Ordering::Relaxed))
    }
}

/// Lines of a node whose boot clock stands at 100 s and whose wall clock at `wall` seconds.
fn lines(wall: u64) -> (Arc<Hands>, Lines) {
    let hands = Arc::new(Hands::default());
    hands.boot.store(100 * SECOND, Ordering::Relaxed);
    hands.wall.store(wall * SECOND, Ordering::Relaxed);
    (Arc::clone(&hands), Lines::new(hands))
}

/// The last entry was received 7 s ago, at 1000 s on the group's line.
fn ground(empty: bool) -> Ground {
    let anchor = Anchor { boot: BootTime(93 * SECOND), stamp: Stamp(1000 * SECOND) };
    Ground { anchor: Some(anchor), empty }
}

fn check_begins(wall: u64, ground: Ground, at: u64) {
    let (_, lines) = lines(wall);
    assert_eq!(lines.stamp(GROUP, 1, || ground), Some(Stamp(at * SECOND)));
}

#[test]
fn a_line_goes_on_where_it_was_seen_last_whatever_the_wall_clock_says() {
    for wall in [0, 977, 1037, 4607, 9999] {
        check_begins(wall, ground(false), 1007);
    }
}

#[test]
fn a_line_of_a_group_without_entries_begins_at_wall_time() {
    check_begins(5000, Ground { anchor: None, empty: true }, 5000);
}

#[test]
fn a_line_of_an_empty_shard_begins_at_wall_time_unless_that_is_earlier() {
    check_begins(5000, ground(true), 5000);
    check_begins(500, ground(true), 1007);
}

#[test]
fn within_a_term_a_line_runs_with_the_boot_clock() {
    let (hands, lines) = lines(1007);
    assert_eq!(lines.stamp(GROUP, 1, || ground(false)), Some(Stamp(1007 * SECOND)));
    hands.boot.store(110 * SECOND, Ordering::Relaxed);
    hands.wall.store(0, Ordering::Relaxed);
    // The ground counts once a term.
    let stamp = lines.stamp(GROUP, 1, || Ground { anchor: None, empty: true });
    assert_eq!(stamp, Some(Stamp(1017 * SECOND)));
    hands.boot.store(120 * SECOND, Ordering::Relaxed);
    let stamp = lines.stamp(GROUP, 1, || ground(false)).unwrap();
    assert_eq!(stamp, Stamp(1027 * SECOND).before(Nanos::from_millis(10)), "leans toward wall time by 0.1 %");
}

#[test]
fn each_term_begins_anew_and_an_earlier_one_has_no_time_any_more() {
    let (_, lines) = lines(5000);
    assert_eq!(lines.stamp(GROUP, 2, || Ground { anchor: None, empty: true }), Some(Stamp(5000 * SECOND)));
    assert_eq!(lines.stamp(GROUP, 3, || ground(false)), Some(Stamp(1007 * SECOND)));
    assert_eq!(lines.stamp(GROUP, 2, || ground(false)), None);
}
