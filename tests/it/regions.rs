//! Regions in one process, as somebody tries them out: an edge in each, and what it shows of them.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use leasehold_tests::binary::leasehold;
use leasehold_tests::{Deadline, Process};
use rustix::process::Signal;

/// Nodes of an unoptimised build find each other on a busy machine.
const READY_WITHIN: Duration = Duration::from_secs(90);
/// From cold to a demand that is known, which takes a few seconds.
const FALLS_WITHIN: Duration = Duration::from_secs(60);

/// A line of what is shown: decisions, those by leases, and hops for each thousand.
#[derive(Clone, Copy, Debug)]
struct Second {
    decisions: u64,
    by_lease: u64,
    hops: f64,
}

/// The lines of each region so far; those of seconds without a decision are left out.
fn seconds(printed: &str) -> BTreeMap<String, Vec<Second>> {
    let mut regions: BTreeMap<String, Vec<Second>> = BTreeMap::new();
    for line in printed.lines() {
        let [_, region, decisions, _, by_lease, _, _, _, hops, _, _] =
            line.split_whitespace().collect::<Vec<_>>()[..]
        else {
            continue;
        };
        if let (Ok(decisions), Ok(by_lease), Ok(hops)) = (decisions.parse(), by_lease.parse(), hops.parse()) {
            let second = Second { decisions, by_lease, hops };
            regions.entry(region.to_owned()).or_default().push(second);
        }
    }
    regions
}

/// Whether a region began by asking and goes on by leases.
fn fell(seconds: &[Second]) -> bool {
    let first = seconds.first().map_or(0.0, |second| second.hops);
    let last = seconds.last().filter(|second| second.by_lease * 10 > second.decisions * 9);
    last.is_some_and(|last| last.hops * 2.0 < first)
}

#[test]
fn dev_with_regions_has_an_edge_in_each_and_shows_how_hops_fall() {
    let mut dev = Process::spawn(
        "dev",
        Command::new(leasehold())
            .args(["dev", "--regions", "eu,us", "--rtt", "eu-us=20ms", "--nodes", "1"])
            .args(["--load", "100"])
            .args(["--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"]),
    );
    dev.wait_for_text("hops/k", READY_WITHIN);
    let banner = dev.printed();
    assert!(banner.contains("eu-edge") && banner.contains("us-edge"), "{banner}");
    let deadline = Deadline::after(FALLS_WITHIN);
    while !["eu", "us"].iter().all(|region| seconds(&dev.printed()).get(*region).is_some_and(|it| fell(it))) {
        assert!(!deadline.passed(), "hops don't fall:\n{}", dev.printed());
        std::thread::sleep(Duration::from_millis(100));
    }
    let printed = dev.printed();
    // A command to paste stays on the lines that a shell needs.
    let pasted = |line: &str| line.contains("curl") || line.trim_start().starts_with("-d ");
    assert!(printed.lines().all(|line| line.chars().count() <= 80 || pasted(line)), "{printed}");
    assert!(!printed.contains('\x1b'), "{printed}");
    dev.signal(Signal::INT);
    assert_eq!(dev.wait(Duration::from_secs(30)).code(), Some(0), "{}", dev.printed());
}
