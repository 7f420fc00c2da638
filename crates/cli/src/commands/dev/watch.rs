//! What the edges of a cluster in this process decide by, a line a second and region, as it goes.

use std::time::Duration;

use leasehold_client::Counts;
use leasehold_node::Node;
use tokio::time::{MissedTickBehavior, interval};

use super::cluster::Seat;
use super::edges::Beside;
use super::load::Latencies;
use crate::output;

/// Lines between two headings.
const HEADING_EVERY: u64 = 24;
/// Characters of a region's name; more are cut off.
const REGION_WIDTH: usize = 10;

/// What stands above the lines, and what they say.
const LEGEND: &str = "\
What edges decided in each second: by the owner of a counter, by a lease, by a
refusal that was known (deny), by what is set aside (fallb); late: by nobody.
hops/k: for each 1000 decisions of an edge, what it asked its region's nodes;
far/k: and what they asked nodes of other regions.

";

/// The counts of a region at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    edge: Counts,
    /// Of the region's nodes.
    far_calls: u64,
}

/// A second of a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Second {
    owner: u64,
    lease: u64,
    deny_cache: u64,
    fallback: u64,
    /// Nobody could be asked in time: what its rule declares was the answer.
    undecided: u64,
    hops: u64,
    far_calls: u64,
}

impl Second {
    fn between(before: &Seen, after: &Seen) -> Self {
        let since = |read: fn(&Counts) -> u64| read(&after.edge).saturating_sub(read(&before.edge));
        Self {
            owner: since(|counts| counts.by_owner),
            lease: since(|counts| counts.by_lease),
            deny_cache: since(|counts| counts.by_deny_cache),
            fallback: since(|counts| counts.by_fallback),
            undecided: since(|counts| counts.undecided),
            hops: since(|counts| counts.hops),
            far_calls: after.far_calls.saturating_sub(before.far_calls),
        }
    }

    const fn decisions(&self) -> u64 {
        self.owner + self.lease + self.deny_cache + self.fallback
    }

    fn per_thousand(&self, of: u64) -> String {
        match self.decisions() {
            0 => "-".to_owned(),
            decisions => format!("{:.1}", of as f64 * 1_000.0 / decisions as f64),
        }
    }

    fn line(&self, second: u64, region: &str, p50_us: Option<u64>) -> String {
        let region: String = output::visible(region).chars().take(REGION_WIDTH).collect();
        format!(
            "{second:>4}  {region:<REGION_WIDTH$}{:>8}{:>7}{:>7}{:>6}{:>6}{:>6}{:>8}{:>7}{:>8}",
            self.decisions(),
            self.owner,
            self.lease,
            self.deny_cache,
            self.fallback,
            self.undecided,
            self.per_thousand(self.hops),
            self.per_thousand(self.far_calls),
            p50_us.map_or_else(|| "-".to_owned(), millis),
        )
    }
}

/// Two digits where they matter.
fn millis(micros: u64) -> String {
    match micros {
        0..100_000 => format!("{:.2}ms", micros as f64 / 1_000.0),
        100_000.. => format!("{}ms", micros / 1_000),
    }
}

fn heading() -> String {
    format!(
        "{:>4}  {:<REGION_WIDTH$}{:>8}{:>7}{:>7}{:>6}{:>6}{:>6}{:>8}{:>7}{:>8}",
        "SEC", "REGION", "DECIDED", "OWNER", "LEASE", "DENY", "FALLB", "LATE", "HOPS/K", "FAR/K", "P50"
    )
}

/// Prints until nobody reads any more.
pub(super) async fn watch(seats: &[Seat], nodes: &[Node], edges: &[Beside], latencies: &[Latencies]) {
    output::raw(LEGEND);
    let see = |beside: &Beside| Seen { edge: beside.edge.counts(), far_calls: far(beside, seats, nodes) };
    let mut before: Vec<Seen> = edges.iter().map(see).collect();
    let mut tick = interval(Duration::from_secs(1));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tick.tick().await;
    for second in 1.. {
        tick.tick().await;
        if second % HEADING_EVERY == 1 {
            output::line(heading());
        }
        for ((beside, before), latencies) in edges.iter().zip(&mut before).zip(latencies) {
            let after = see(beside);
            let passed = Second::between(before, &after);
            output::line(passed.line(second, &beside.region, latencies.take_p50_us()));
            *before = after;
        }
        if output::is_broken() {
            return;
        }
    }
}

/// What the nodes of an edge's region asked nodes of others.
fn far(beside: &Beside, seats: &[Seat], nodes: &[Node]) -> u64 {
    let of_region = |seat: &Seat| seat.region.as_ref() == Some(&beside.region);
    seats.iter().zip(nodes).filter(|(seat, _)| of_region(seat)).map(|(_, node)| node.far_calls()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_what_decided_in_a_second_and_stands_under_its_heading() {
        let counts = |by_owner, by_lease, hops| Counts { by_owner, by_lease, hops, ..Counts::default() };
        let before = Seen { edge: counts(10, 100, 20), far_calls: 5 };
        let after = Seen { edge: counts(12, 298, 30), far_calls: 6 };
        let line = Second::between(&before, &after).line(3, "eu-west-1-long", Some(1_234));
        let expected = [
            " SEC  REGION     DECIDED  OWNER  LEASE  DENY FALLB  LATE  HOPS/K  FAR/K     P50",
            "   3  eu-west-1-     200      2    198     0     0     0    50.0    5.0  1.23ms",
        ];
        assert_eq!([heading(), line], expected);
        assert!(expected.iter().all(|line| line.len() <= 80));
    }

    #[test]
    fn where_nothing_was_decided_there_is_no_ratio() {
        let line = Second::default().line(1, "us", None);
        assert!(line.ends_with("       -      -       -"), "{line:?}");
    }
}
