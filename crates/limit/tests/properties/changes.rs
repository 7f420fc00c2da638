//! Changed limits, refunds and twins: what must hold between two states rather than of one.

use leasehold_limit::{Algorithm, Ask, Limit, RetryAfter, State};
use leasehold_model::{Nanos, Stamp};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use crate::config;
use crate::trace::{Mix, Trace, What, any_limit, leaky_buckets, other_bucket, same, token_buckets, traces};

proptest! {
    #![proptest_config(config(1_000))]

    #[test]
    fn a_leaky_bucket_decides_as_the_token_bucket_it_mirrors(
        trace in traces(leaky_buckets(), Mix::ALL, other_bucket)
    ) {
        mirrored(&trace)?;
    }

    #[test]
    fn a_refunded_bucket_never_holds_more_than_one_that_was_not_charged(
        trace in traces(token_buckets(), Mix::REFUNDS, same)
    ) {
        no_more_than_uncharged(&trace)?;
    }

    #[test]
    fn a_limit_changed_there_and_back_gives_nothing_back(
        trace in traces(any_limit(), Mix::ASKS, same), other in any_limit()
    ) {
        there_and_back(&trace, &other)?;
    }

    #[test]
    fn any_change_leaves_what_was_used_used(trace in traces(any_limit(), Mix::ASKS, same), other in any_limit()) {
        usage_is_kept(&trace, &other)?;
    }

    #[test]
    fn a_stamp_before_the_state_mints_nothing(
        trace in traces(any_limit(), Mix::ASKS, same), back in any::<u64>(), cost in any::<u64>()
    ) {
        time_runs_back(&trace, back, cost)?;
    }
}

/// The state and the stamp at the end of a trace of asks.
fn run(trace: &Trace) -> (State, Stamp) {
    let (mut state, mut at) = (trace.limit.fresh(), Stamp(trace.start));
    for step in &trace.steps {
        at = at.after(Nanos(step.gap));
        if let What::Ask(ask) = &step.what {
            trace.limit.acquire(&mut state, at, *ask);
        }
    }
    (state, at)
}

fn remaining(limit: &Limit, state: &State, at: Stamp) -> u64 {
    limit.decide(state, at, Ask::PEEK).remaining
}

fn mirror(limit: &Limit) -> Limit {
    let burst = limit.cap();
    Limit::new(Algorithm::TokenBucket { burst }, limit.n(), limit.period())
        .expect("its mirror image is a limit")
}

fn mirrored(trace: &Trace) -> TestCaseResult {
    let mut leaky = trace.limit.clone();
    let (mut level, mut tokens, mut at) = (leaky.fresh(), mirror(&leaky).fresh(), Stamp(trace.start));
    for step in &trace.steps {
        at = at.after(Nanos(step.gap));
        match &step.what {
            What::Ask(ask) => {
                let expected = mirror(&leaky).acquire(&mut tokens, at, *ask);
                prop_assert_eq!(leaky.acquire(&mut level, at, *ask), expected);
            }
            What::Refund { units, .. } => {
                let expected = mirror(&leaky).refund(&mut tokens, at, *units, at);
                prop_assert_eq!(leaky.refund(&mut level, at, *units, at), expected);
            }
            What::Change(new) => {
                new.carry_over(&leaky, &mut level, at);
                mirror(new).carry_over(&mirror(&leaky), &mut tokens, at);
                leaky = new.clone();
            }
        }
    }
    Ok(())
}

/// Runs the trace, and beside it the same history with every refunded unit never charged.
fn no_more_than_uncharged(trace: &Trace) -> TestCaseResult {
    let limit = &trace.limit;
    let (mut state, mut at) = (limit.fresh(), Stamp(trace.start));
    let mut charges: Vec<(Stamp, u64)> = Vec::new();
    for step in &trace.steps {
        at = at.after(Nanos(step.gap));
        match &step.what {
            What::Ask(ask) => {
                let granted = limit.acquire(&mut state, at, *ask).granted;
                charges.extend((granted > 0).then_some((at, granted)));
            }
            What::Refund { which, units } if *which < charges.len() => {
                let index = charges.len() - 1 - which;
                let units = (*units).min(charges[index].1);
                charges[index].1 -= units;
                limit.refund(&mut state, at, units, charges[index].0);
            }
            What::Refund { .. } | What::Change(_) => {}
        }
        let mut uncharged = limit.fresh();
        for &(charged_at, units) in &charges {
            limit.charge(&mut uncharged, charged_at, units);
        }
        let (now, most) = (remaining(limit, &state, at), remaining(limit, &uncharged, at));
        prop_assert!(now <= most, "{} left at {}, without the refunded charges {}", now, at, most);
    }
    Ok(())
}

fn there_and_back(trace: &Trace, other: &Limit) -> TestCaseResult {
    let (mut state, at) = run(trace);
    let before = remaining(&trace.limit, &state, at);
    other.carry_over(&trace.limit, &mut state, at);
    // A bucket or queue that came out full may have been clipped: what it forgot can't come back.
    let clipped = remaining(other, &state, at) == 0;
    trace.limit.carry_over(other, &mut state, at);
    let after = remaining(&trace.limit, &state, at);
    prop_assert!(clipped || after <= before, "{} left before, {} after", before, after);
    Ok(())
}

fn usage_is_kept(trace: &Trace, other: &Limit) -> TestCaseResult {
    let (mut state, at) = run(trace);
    let used = trace.limit.cap() - remaining(&trace.limit, &state, at);
    other.carry_over(&trace.limit, &mut state, at);
    let left = remaining(other, &state, at);
    prop_assert!(left <= other.cap());
    // Some memory says when each unit leaves, and a change doesn't move that: a shaper's departures, and the entries of
    // a log, old ones of which don't matter to a log of a shorter period.
    let both = [trace.limit.algorithm(), other.algorithm()];
    let shapes = both.iter().any(|algorithm| matches!(algorithm, Algorithm::Shaper { .. }));
    let logs = both.iter().all(|algorithm| matches!(algorithm, Algorithm::SlidingLog));
    if !shapes && !logs {
        prop_assert!(
            left <= other.cap().saturating_sub(used),
            "{} left of {} with {} used",
            left,
            other.cap(),
            used
        );
    }
    let after = other.decide(&state, at, Ask::exactly(left.saturating_add(1)));
    if let Some(RetryAfter::In(wait)) = after.retry_after
        && let Some(later) = at.0.checked_add(wait.0).filter(|&later| later < u64::MAX)
    {
        let ask = Ask::exactly(left + 1);
        prop_assert!(other.decide(&state, Stamp(later), ask).allowed, "refused after its retry_after");
        prop_assert!(!other.decide(&state, Stamp(later - 1), ask).allowed, "admitted before its retry_after");
    }
    Ok(())
}

fn time_runs_back(trace: &Trace, back: u64, cost: u64) -> TestCaseResult {
    let (mut state, at) = run(trace);
    let limit = &trace.limit;
    let now = remaining(limit, &state, at);
    let earlier = Stamp(back.min(at.0));
    prop_assert!(remaining(limit, &state, earlier) <= now, "an earlier stamp sees more");
    limit.acquire(&mut state, earlier, Ask::exactly(cost));
    limit.refund(&mut state, earlier, cost, at);
    limit.charge(&mut state, earlier, cost);
    prop_assert!(remaining(limit, &state, at) <= limit.cap());
    Ok(())
}
