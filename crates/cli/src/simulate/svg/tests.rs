//! The drawing of a replay.

use super::*;
use crate::simulate::events;
use crate::simulate::policy::Rate;

fn drawing(events_text: &str) -> String {
    let events = events::read(events_text.as_bytes()).unwrap();
    let rate: Rate = "5/min".parse().unwrap();
    let lanes: Vec<_> =
        rate.under_every_algorithm().unwrap().iter().map(|limit| Lane::new(limit, &events)).collect();
    draw("a < b & \"c\"", &lanes, Some(rate.period().0))
}

#[track_caller]
fn check_well_formed(svg: &str) {
    leasehold_plot::well_formed(svg).unwrap_or_else(|problem| panic!("{problem}: {svg}"));
}

#[test]
fn a_drawing_has_a_lane_and_totals_for_every_algorithm() {
    let burst = "{\"t_ns\": 59000000000, \"cost\": 6}\n".to_owned()
        + &"{\"t_ns\": 60000000000, \"cost\": 1}\n".repeat(6);
    let svg = drawing(&burst);
    check_well_formed(&svg);
    for name in ["fixed window", "sliding log", "sliding counter", "token bucket", "leaky bucket", "shaper"] {
        assert!(svg.contains(&format!(">{name}<")), "{name}");
    }
    assert!(svg.contains("5 allowed, 7 denied") && svg.contains("60 s: 5 allowed, 1 denied"), "{svg}");
    assert!(svg.contains("a &lt; b &amp; &quot;c&quot;"));
}

#[test]
fn odd_event_lists_are_drawn_too() {
    for events in [
        "",
        "{\"t_ns\": 0, \"cost\": 0}",
        "{\"t_ns\": 0, \"cost\": -5}",
        "{\"t_ns\": 18446744073709551615, \"cost\": 18446744073709551615}\n{\"t_ns\": 0, \"cost\": 1}",
        "{\"t_ns\": 1, \"cost\": 1}\n{\"t_ns\": 2, \"cost\": 1}",
    ] {
        check_well_formed(&drawing(events));
    }
}

#[test]
fn many_moments_are_gathered_into_slices_that_lose_no_unit() {
    let events: String =
        (0..5_000).map(|i| format!("{{\"t_ns\": {}, \"cost\": 1}}\n", i * 70_000_000_u64)).collect();
    let svg = drawing(&events);
    check_well_formed(&svg);
    let counted: u64 = svg
        .lines()
        .filter_map(|line| {
            line.strip_prefix("<g><title>")?.split_once(": ")?.1.strip_suffix(" denied</title>")
        })
        .flat_map(|line| line.split(" allowed, "))
        .map(|units| units.parse::<u64>().unwrap())
        .sum();
    assert_eq!(counted, 5_000 * 6);
    assert!(svg.len() < 200_000, "{} bytes", svg.len());
}
