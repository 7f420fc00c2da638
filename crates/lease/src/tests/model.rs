//! The real ledger and the real wallet in every small world: all orders of granting, spending, reporting, returning and
//! ending, with messages lost, repeated and reordered, edges and owners that die, and a broker in between.
//!
//! `just lease-model` looks at larger ones. Each search ends when it has seen every world of its setup. The exact meter
//! (see `meter`) must find nothing; and to show that it would, each known mistake is planted in turn and must be found.

mod bugs;
mod meter;
mod owner;
mod search;
mod world;

use crate::{DRIFT_PER_MILLE, owner_lifetime};
use leasehold_limit::{Algorithm, Limit, Window};
use leasehold_model::Nanos;

use bugs::Bug;
use search::search;
use world::{Left, STEP, Setup};

/// A search that would look at more is larger than it was meant to be: make the setup smaller.
const WORLDS_MAX: usize = 300_000;
/// For `just lease-model`.
const WORLDS_MAX_LARGE: usize = 50_000_000;

fn limit(algorithm: Algorithm, n: u64, steps: u64) -> Limit {
    Limit::new(algorithm, n, Nanos(steps * STEP.0)).expect("numbers that make a limit")
}

/// Four at once, one more a step.
fn bucket() -> Limit {
    limit(Algorithm::TokenBucket { burst: 4 }, 1, 1)
}

/// Four in each window of three steps.
fn window() -> Limit {
    limit(Algorithm::FixedWindow(Window::Epoch), 4, 3)
}

fn log() -> Limit {
    limit(Algorithm::SlidingLog, 4, 3)
}

fn counter() -> Limit {
    limit(Algorithm::SlidingCounter, 4, 3)
}

/// Whether this is the larger run.
fn large() -> bool {
    std::env::var("LEASEHOLD_MODEL").is_ok_and(|size| size == "large")
}

const EDGES: &[Option<usize>] = &[None, None];
/// Node 0 is the broker of node 1.
const BROKER: &[Option<usize>] = &[None, Some(0)];

fn setup(limit: Limit, parents: &[Option<usize>], left: Left) -> Setup {
    Setup {
        limit,
        parents: parents.to_vec(),
        lifetime: Nanos(2 * STEP.0),
        idle: Nanos(2 * STEP.0),
        left,
        drifts: vec![0; parents.len()],
        line_drift: 0,
        bug: None,
    }
}

/// One edge, and somebody who asks exactly: room for more to happen than with two.
const EDGE: &[Option<usize>] = &[None];

fn busy() -> Left {
    Left { bursts: 2, requests: 1, directs: 1, ticks: 3, ..Left::default() }
}

fn calm() -> Left {
    Left { bursts: 1, requests: 1, directs: 1, ticks: 2, ..Left::default() }
}

/// Sees every world of a setup and finds nothing wrong with any.
#[track_caller]
fn check(mut setup: Setup) {
    let mut worlds_max = WORLDS_MAX;
    if large() {
        let Left { ticks, requests, .. } = setup.left;
        setup.left = Left { ticks: ticks + 1, requests: requests + 1, ..setup.left };
        worlds_max = WORLDS_MAX_LARGE;
    }
    let found = search(&setup, worlds_max);
    println!("{} worlds of {:?}", found.worlds, setup.left);
    if let Some((path, wrong)) = found.wrong {
        panic!("{wrong} after {path:?}");
    }
    assert!(!found.cut, "more than {worlds_max} worlds");
}

#[test]
fn an_edge_of_a_bucket_never_overshoots() {
    check(setup(bucket(), EDGE, busy()));
}

#[test]
fn an_edge_of_a_window_never_overshoots() {
    check(setup(window(), EDGE, busy()));
}

#[test]
fn an_edge_of_a_log_never_overshoots() {
    check(setup(log(), EDGE, busy()));
}

#[test]
fn an_edge_of_a_sliding_counter_never_passes_its_estimate() {
    check(setup(counter(), EDGE, busy()));
}

#[test]
fn two_edges_never_overshoot() {
    check(setup(bucket(), EDGES, calm()));
}

#[test]
fn lost_and_repeated_messages_mint_nothing() {
    check(setup(bucket(), EDGE, Left { losses: 1, repeats: 1, bursts: 2, ..calm() }));
}

#[test]
fn an_edge_that_dies_mints_nothing() {
    check(setup(bucket(), EDGE, Left { crashes: 1, bursts: 2, ..calm() }));
}

#[test]
fn a_new_leader_mints_nothing() {
    check(setup(bucket(), EDGE, Left { failovers: 1, losses: 1, ticks: 3, ..calm() }));
}

#[test]
fn a_new_leader_mints_nothing_in_a_window() {
    check(setup(window(), EDGE, Left { failovers: 1, losses: 1, ..calm() }));
}

#[test]
fn a_broker_and_its_child_never_overshoot() {
    check(setup(bucket(), BROKER, calm()));
}

#[test]
fn a_broker_or_a_child_that_dies_mints_nothing() {
    check(setup(bucket(), BROKER, Left { crashes: 1, requests: 0, ticks: 3, ..calm() }));
}

#[test]
fn lost_and_repeated_messages_around_a_broker_mint_nothing() {
    check(setup(bucket(), BROKER, Left { losses: 1, repeats: 1, requests: 0, ..calm() }));
}

/// Four at once, and full again a tenth of a millisecond after it is empty: whatever ends too late is seen. A lease ends
/// at its owner just before the second step.
fn brisk(drifts: &[i64], line_drift: i64) -> Setup {
    let limit = limit(Algorithm::TokenBucket { burst: 4 }, 4_000, 1);
    let left = Left { bursts: 1, requests: 1, directs: 4, ticks: 2, ..Left::default() };
    let until_owner_ends = Nanos(2 * STEP.0 - 200_000);
    let lifetime = Nanos(until_owner_ends.0 - (owner_lifetime(until_owner_ends).0 - until_owner_ends.0));
    let idle = Nanos(10 * STEP.0);
    Setup {
        lifetime,
        idle,
        drifts: drifts.to_vec(),
        line_drift,
        ..setup(limit, &EDGES[..drifts.len()], left)
    }
}

#[test]
fn clocks_that_are_off_by_no_more_than_they_may_mint_nothing() {
    let off = i64::try_from(DRIFT_PER_MILLE).expect("small");
    for (edge, line) in [(-off, off), (off, -off), (-off, 0), (0, off)] {
        check(brisk(&[edge], line));
    }
}

#[test]
fn a_child_and_a_broker_whose_clocks_part_mint_nothing() {
    let off = i64::try_from(DRIFT_PER_MILLE).expect("small");
    let parents = BROKER.to_vec();
    check(Setup { parents, left: calm(), ..brisk(&[off, -off], off) });
}

#[test]
fn the_model_catches_a_clock_that_is_slower_than_it_may_be() {
    // The margins of both sides cover four thousandths.
    let off = 5 * i64::try_from(DRIFT_PER_MILLE).expect("small");
    let found = search(&brisk(&[-off], 0), 4 * WORLDS_MAX);
    let (path, wrong) = found.wrong.unwrap_or_else(|| panic!("nothing wrong in {} worlds", found.worlds));
    println!("{wrong} after {} worlds: {path:?}", found.worlds);
}

/// Plants a mistake in a world of one edge, and somebody who asks for every unit exactly: the meter finds it.
#[track_caller]
fn catches(bug: Bug, planted: Setup) {
    let found = search(&Setup { bug: Some(bug), ..planted }, 4 * WORLDS_MAX);
    let (path, wrong) = found.wrong.unwrap_or_else(|| panic!("nothing wrong in {} worlds", found.worlds));
    println!("{wrong} after {} worlds: {path:?}", found.worlds);
}

/// Four at once and `refill` more a step; leases last for `steps`, and nothing goes back for being idle.
fn planted(refill: u64, steps: u64, left: Left) -> Setup {
    let limit = limit(Algorithm::TokenBucket { burst: 4 }, refill, 1);
    Setup { lifetime: Nanos(steps * STEP.0), idle: Nanos(10 * STEP.0), ..setup(limit, &[None], left) }
}

fn troubled() -> Left {
    Left { bursts: 1, requests: 2, directs: 4, ticks: 2, ..Left::default() }
}

#[test]
fn the_model_catches_a_credit_at_expiry() {
    catches(Bug::CreditAtExpiry, setup(bucket(), &[None], Left { ticks: 3, ..troubled() }));
}

#[test]
fn the_model_catches_units_kept_after_their_return() {
    catches(Bug::KeepAfterReturn, Setup { idle: STEP, ..planted(2, 3, troubled()) });
}

#[test]
fn the_model_catches_totals_that_are_added_up() {
    catches(Bug::CountersAdded, planted(4, 4, Left { repeats: 1, ticks: 3, ..troubled() }));
}

#[test]
fn the_model_catches_a_bucket_that_refills_while_units_are_out() {
    catches(Bug::Uncoupled, planted(2, 3, troubled()));
}

#[test]
fn the_model_catches_a_refill_credited_from_the_grant_on() {
    catches(Bug::RefillCreditedFromGrant, planted(2, 3, troubled()));
}

#[test]
fn the_model_catches_a_deadline_counted_from_receipt() {
    catches(Bug::DeadlineFromReceipt, planted(4, 2, Left { requests: 1, ticks: 3, ..troubled() }));
}

#[test]
fn the_model_catches_a_line_that_jumps_ahead() {
    catches(Bug::ClockJumps, planted(2, 3, Left { ticks: 0, failovers: 1, ..troubled() }));
}

#[test]
fn the_model_catches_a_leader_that_forgot_the_last_answer() {
    catches(Bug::Amnesia, planted(2, 3, Left { ticks: 0, failovers: 1, ..troubled() }));
}
