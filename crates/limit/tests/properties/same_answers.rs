//! Every field of every answer is the oracle's, and every answer is true of the state it was given about.

use leasehold_limit::{Algorithm, Ask, Decision, Limit, RetryAfter, State, Window};
use leasehold_model::Stamp;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use crate::config;
use crate::oracle::{Oracle, answer, oracle};
use crate::trace::{
    Mix, Trace, What, calendar_traces, leaky_buckets, other_bucket, other_n, same, shapers, token_buckets,
    traces, windowed,
};

proptest! {
    #![proptest_config(config(2_000))]

    #[test]
    fn a_token_bucket_answers_as_its_definition(trace in traces(token_buckets(), Mix::CHANGES, other_bucket)) {
        replay(&trace)?;
    }

    #[test]
    fn a_leaky_bucket_answers_as_its_definition(trace in traces(leaky_buckets(), Mix::CHANGES, other_bucket)) {
        replay(&trace)?;
    }

    #[test]
    fn a_shaper_answers_as_its_definition(trace in traces(shapers(), Mix::ASKS, same)) {
        replay(&trace)?;
    }

    #[test]
    fn a_fixed_window_answers_as_its_definition(
        trace in traces(windowed(Algorithm::FixedWindow(Window::Epoch)), Mix::ALL, other_n)
    ) {
        replay(&trace)?;
    }

    #[test]
    fn a_calendar_window_answers_as_its_definition(trace in calendar_traces()) {
        replay(&trace)?;
    }

    #[test]
    fn a_sliding_log_answers_as_its_definition(trace in traces(windowed(Algorithm::SlidingLog), Mix::ALL, other_n)) {
        replay(&trace)?;
    }

    #[test]
    fn a_sliding_counter_answers_as_its_definition(
        trace in traces(windowed(Algorithm::SlidingCounter), Mix::ALL, other_n)
    ) {
        replay(&trace)?;
    }
}

/// The code under test and the oracle, side by side.
struct Both {
    limit: Limit,
    state: State,
    oracle: Box<dyn Oracle>,
    at: Stamp,
    /// What each charge holds that may still be refunded.
    charges: Vec<(Stamp, u64)>,
}

fn replay(trace: &Trace) -> TestCaseResult {
    let limit = trace.limit.clone();
    let mut both = Both {
        state: limit.fresh(),
        oracle: oracle(&limit),
        limit,
        at: Stamp(trace.start),
        charges: Vec::new(),
    };
    for step in &trace.steps {
        both.at = Stamp(both.at.0.saturating_add(step.gap));
        match &step.what {
            What::Ask(ask) => both.ask(*ask)?,
            What::Refund { which, units } => both.refund(*which, *units),
            What::Change(limit) => both.change(limit),
        }
    }
    Ok(())
}

impl Both {
    fn ask(&mut self, ask: Ask) -> TestCaseResult {
        let before = self.state.clone();
        let foreseen = self.limit.decide(&self.state, self.at, ask);
        let expected = answer(self.oracle.as_mut(), self.limit.cap(), self.at.0, ask, &foreseen);
        let decision = self.limit.acquire(&mut self.state, self.at, ask);
        prop_assert_eq!(decision, expected, "{:?} at {} of {:?}", ask, self.at, before);
        prop_assert_eq!(foreseen, decision, "decide foretells acquire");
        if decision.granted == 0 {
            prop_assert_eq!(&self.state, &before, "a refusal or a peek changed the state");
        } else {
            self.charges.push((self.at, decision.granted));
        }
        self.probe(ask, &decision)
    }

    /// Asks the state itself whether what was said of it is true.
    fn probe(&self, ask: Ask, decision: &Decision) -> TestCaseResult {
        let allows = |at: Stamp, cost| self.limit.decide(&self.state, at, Ask::exactly(cost)).allowed;
        if let Some(RetryAfter::In(wait)) = decision.retry_after
            && let Some(later) = self.at.0.checked_add(wait.0).filter(|&later| later < u64::MAX)
        {
            let least = if ask.is_peek() { 1 } else { ask.min.max(1) };
            prop_assert!(allows(Stamp(later), least), "refused after its retry_after of {}", wait);
            prop_assert!(
                !allows(Stamp(later - 1), least),
                "admitted 1 ns before its retry_after of {}",
                wait
            );
        }
        let left = decision.remaining;
        prop_assert!(left == 0 || allows(self.at, left), "{} remaining units are refused", left);
        prop_assert!(
            left == u64::MAX || !allows(self.at, left + 1),
            "more than {} remaining is admitted",
            left
        );
        self.probe_fresh(decision)
    }

    fn probe_fresh(&self, decision: &Decision) -> TestCaseResult {
        let fresh_at = self.limit.fresh_at(&self.state);
        let end = self.at.0.checked_add(decision.reset_after.0);
        prop_assert_eq!(
            fresh_at.max(self.at),
            Stamp(end.unwrap_or(u64::MAX)),
            "fresh_at is at + reset_after"
        );
        if end.is_none_or(|end| end == u64::MAX) {
            return Ok(()); // it would be fresh after the last stamp
        }
        let cap = self.limit.cap();
        for ask in [Ask::PEEK, Ask::exactly(1), Ask::exactly(cap), Ask::exactly(cap.saturating_add(1))] {
            let at = fresh_at.max(self.at);
            let fresh = self.limit.decide(&self.limit.fresh(), at, ask);
            prop_assert_eq!(self.limit.decide(&self.state, at, ask), fresh, "not as fresh at {}", at);
        }
        if fresh_at > self.at {
            let before = self.limit.decide(&self.state, Stamp(fresh_at.0 - 1), Ask::PEEK);
            prop_assert_eq!(before.reset_after.0, 1, "fresh before {}", fresh_at);
        }
        Ok(())
    }

    fn refund(&mut self, which: usize, units: u64) {
        let Some(index) = self.charges.len().checked_sub(which + 1) else { return };
        let (charged_at, held) = &mut self.charges[index];
        let units = units.min(*held);
        *held -= units;
        self.limit.refund(&mut self.state, self.at, units, *charged_at);
        self.oracle.forget(u128::from(charged_at.0), units);
    }

    fn change(&mut self, limit: &Limit) {
        limit.carry_over(&self.limit, &mut self.state, self.at);
        self.oracle.change(u128::from(self.at.0), limit);
        self.limit = limit.clone();
    }
}
