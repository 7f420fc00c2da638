//! No interval admits more than its limit: over every pair of moments of a trace, with refunds, and with limits changing.
//!
//! What counts as admitted is what was spent: a charge less the units that its holder gave back, whether or not the
//! counter could credit them. Refunds are of charges made since the limit last changed, as the contract demands.

use leasehold_limit::{Algorithm, Ask, BucketState, Limit, State, Window};
use leasehold_model::{Nanos, Stamp};
use num_rational::BigRational;
use num_traits::Zero;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use crate::config;
use crate::trace::{
    Mix, Trace, What, leaky_buckets, other_bucket, other_n, same, shapers, token_buckets, traces, windowed,
};

proptest! {
    #![proptest_config(config(1_000))]

    #[test]
    fn no_interval_takes_more_from_a_bucket_than_burst_and_refill(
        trace in traces(token_buckets(), Mix::REFUNDS, same)
    ) {
        bucket_bound(&trace)?;
    }

    #[test]
    fn changing_a_bucket_mints_at_most_what_a_lower_burst_forgave(
        trace in traces(leaky_buckets(), Mix::ALL, other_bucket)
    ) {
        bucket_bound(&trace)?;
    }

    #[test]
    fn no_interval_sends_more_through_a_shaper_than_its_pace(trace in traces(shapers(), Mix::ASKS, same)) {
        shaper_bound(&trace)?;
    }

    #[test]
    fn no_fixed_window_admits_more_than_the_highest_limit_it_saw(
        trace in traces(windowed(Algorithm::FixedWindow(Window::Epoch)), Mix::ALL, other_n)
    ) {
        window_bound(&trace)?;
    }

    #[test]
    fn no_epoch_window_of_a_sliding_counter_admits_more_than_the_highest_limit_it_saw(
        trace in traces(windowed(Algorithm::SlidingCounter), Mix::ALL, other_n)
    ) {
        window_bound(&trace)?;
    }

    #[test]
    fn no_span_of_a_period_admits_more_than_the_highest_limit_a_sliding_log_saw(
        trace in traces(windowed(Algorithm::SlidingLog), Mix::ALL, other_n)
    ) {
        log_bound(&trace)?;
    }
}

/// One charge, and what of it was spent.
#[derive(Debug)]
struct Charge {
    at: Stamp,
    spent: u64,
    wait: Option<Nanos>,
    /// How often the limit had changed by then.
    changes: usize,
}

/// Everything that the bounds need to know of a trace that was run.
struct Run {
    charges: Vec<Charge>,
    /// Every limit that was in force.
    limits: Vec<Limit>,
    /// For each change, the units that a lower burst cut off what was used.
    forgiven: Vec<BigRational>,
}

fn run(trace: &Trace) -> Run {
    let mut limit = trace.limit.clone();
    let (mut state, mut at) = (limit.fresh(), Stamp(trace.start));
    let mut run = Run { charges: Vec::new(), limits: vec![limit.clone()], forgiven: Vec::new() };
    for step in &trace.steps {
        at = at.after(Nanos(step.gap));
        match &step.what {
            What::Ask(ask) => run.charge(&limit, &mut state, at, *ask),
            What::Refund { which, units } => run.refund(&limit, &mut state, at, *which, *units),
            What::Change(new) => {
                run.forgiven.push(forgiven(&limit, new, &state, at));
                new.carry_over(&limit, &mut state, at);
                limit = new.clone();
                run.limits.push(limit.clone());
            }
        }
    }
    run
}

impl Run {
    fn charge(&mut self, limit: &Limit, state: &mut State, at: Stamp, ask: Ask) {
        let decision = limit.acquire(state, at, ask);
        if decision.granted > 0 {
            let changes = self.forgiven.len();
            self.charges.push(Charge { at, spent: decision.granted, wait: decision.wait, changes });
        }
    }

    fn refund(&mut self, limit: &Limit, state: &mut State, at: Stamp, which: usize, units: u64) {
        let Some(index) = self.charges.len().checked_sub(which + 1) else { return };
        let changes = self.forgiven.len();
        let charge = &mut self.charges[index];
        if charge.changes == changes {
            let units = units.min(charge.spent);
            charge.spent -= units;
            let credited = limit.refund(state, at, units, charge.at);
            assert!(credited <= units, "{credited} of {units} came back");
        }
    }

    /// Every interval from a charge to a later or the same one: its ends, and what was spent in it.
    fn intervals(&self) -> impl Iterator<Item = (&Charge, &Charge, u128)> {
        self.charges.iter().enumerate().flat_map(|(index, first)| {
            self.charges[index..].iter().scan(0_u128, move |sum, last| {
                *sum += u128::from(last.spent);
                Some((first, last, *sum))
            })
        })
    }

    fn highest_n(&self) -> u128 {
        u128::from(self.limits.iter().map(Limit::n).max().unwrap_or(0))
    }
}

fn whole(number: impl Into<num_bigint::BigInt>) -> BigRational {
    BigRational::from_integer(number.into())
}

fn rate(limit: &Limit) -> BigRational {
    whole(limit.n()) / whole(limit.period().0)
}

fn forgiven(old: &Limit, new: &Limit, state: &State, at: Stamp) -> BigRational {
    let State::Bucket(BucketState { used, at: since }) = state else { return BigRational::zero() };
    let used = whole(*used) / whole(old.period().0) - whole(at.since(*since).0) * rate(old);
    (used - whole(new.cap())).max(BigRational::zero())
}

fn bucket_bound(trace: &Trace) -> TestCaseResult {
    let run = run(trace);
    let burst = whole(run.limits.iter().map(Limit::cap).max().unwrap_or(0));
    let rate = run.limits.iter().map(rate).max().unwrap_or_else(BigRational::zero);
    for (first, last, spent) in run.intervals() {
        let forgiven: BigRational = run.forgiven[first.changes..last.changes].iter().sum();
        let bound = &burst + &rate * whole(last.at.since(first.at).0) + forgiven;
        prop_assert!(
            whole(spent) <= bound,
            "{} spent from {:?} to {:?}, at most {}",
            spent,
            first,
            last,
            bound
        );
    }
    Ok(())
}

/// Departures are a slot apart: whatever departs from one unit's turn to another's fits in between.
fn shaper_bound(trace: &Trace) -> TestCaseResult {
    let run = run(trace);
    let rate = rate(&trace.limit);
    let turn = |charge: &Charge| whole(charge.at.0) + whole(charge.wait.expect("a shaper tells the wait").0);
    for (first, last, spent) in run.intervals() {
        let queued = whole(trace.limit.cap()) + whole(1) + &rate * whole(last.at.since(first.at).0);
        prop_assert!(
            whole(spent) <= queued,
            "{} taken from {:?} to {:?}, at most {}",
            spent,
            first,
            last,
            queued
        );
        // A turn is rounded up to whole nanoseconds, which moves it by less than one.
        let departed = whole(spent) - whole(last.spent);
        let paced = &rate * (turn(last) - turn(first) + whole(1));
        prop_assert!(
            departed <= paced,
            "{} depart from {:?} to {:?}, at most {}",
            departed,
            first,
            last,
            paced
        );
    }
    Ok(())
}

fn window_bound(trace: &Trace) -> TestCaseResult {
    let run = run(trace);
    let period = trace.limit.period().0;
    for (first, last, spent) in run.intervals() {
        if first.at.0 / period == last.at.0 / period {
            prop_assert!(spent <= run.highest_n(), "{} spent from {:?} to {:?}", spent, first, last);
        }
    }
    Ok(())
}

fn log_bound(trace: &Trace) -> TestCaseResult {
    let run = run(trace);
    for (first, last, spent) in run.intervals() {
        if last.at.since(first.at) < trace.limit.period() {
            prop_assert!(spent <= run.highest_n(), "{} spent from {:?} to {:?}", spent, first, last);
        }
    }
    Ok(())
}
