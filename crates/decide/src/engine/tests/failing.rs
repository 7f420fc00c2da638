//! When the counters can't be asked: what is declared, or set aside, stands in.

use leasehold_limit::check::Verdict;
use leasehold_shard::{Bounds, LimitSpec};

use super::support::*;
use super::*;
use crate::{ProposeError, Terms};

/// An authority that answers this, at its deadline.
struct Failing(ProposeError);

impl Failing {
    async fn fail(&self, deadline: Option<Instant>) -> ProposeError {
        tokio::time::sleep_until(deadline.expect("a caller's or its own")).await;
        self.0.clone()
    }
}

impl Authority for Failing {
    fn patience(&self) -> Option<Duration> {
        Some(Duration::from_millis(1))
    }

    async fn propose(&self, _: Proposal, deadline: Option<Instant>) -> Result<Proposed, ProposeError> {
        Err(self.fail(deadline).await)
    }

    async fn preview(
        &self,
        _: &[LimitSpec],
        _: &[Terms],
        _: &Acquire,
        deadline: Option<Instant>,
    ) -> Result<Proposed, ProposeError> {
        Err(self.fail(deadline).await)
    }

    fn health(&self) -> Result<(), String> {
        Ok(())
    }
}

#[tokio::test]
async fn a_deadline_ends_in_the_declared_failure_and_not_in_a_queue() {
    for budget in [Some(Duration::ZERO), Some(Duration::from_millis(2)), None] {
        for (on_unavailable, verdict) in [("allow", Verdict::Allowed), ("deny", Verdict::Unavailable)] {
            let engine = engine_on(Failing(ProposeError::Unreachable), &everybody_and_users(on_unavailable));
            let answer = engine.check(&request(&[("user", "u")], 1), budget).await.expect("an answer");
            assert_eq!((answer.verdict, answer.degraded), (verdict, true));
        }
    }
}

#[tokio::test]
async fn overload_is_told_and_lets_nobody_pass() {
    let engine = engine_on(Failing(ProposeError::Overloaded("too many")), &everybody_and_users("allow"));
    for cost in [0, 1] {
        let answered = engine.check(&request(&[("user", "u")], cost), None).await;
        let Err(CheckError::Overloaded { reason, .. }) = answered else { panic!("{answered:?}") };
        assert_eq!(reason, "too many");
    }
}

#[tokio::test]
async fn without_rules_nothing_is_decided() {
    let engine = Engine::new(TestHost::unknown(), Arc::new(Counters::new(Bounds::default())), 256);
    let answered = engine.check(&request(&[("user", "u")], 1), None).await;
    let Err(CheckError::Overloaded { reason, .. }) = answered else { panic!("{answered:?}") };
    assert_eq!(reason, "waiting for b");
}

#[tokio::test]
async fn nothing_is_charged_for_a_caller_whose_deadline_has_passed() {
    let engine = engine(TEN_BY_USER);
    let late = engine.check(&request(&[("user", "u")], 1), Some(Duration::ZERO)).await.expect("an answer");
    assert_eq!((late.degraded, remaining(&late)), (true, vec![None]));
    assert_eq!(remaining(&peek(&engine, &[("user", "u")]).await), [Some(10)]);
    let in_time = engine.check(&request(&[("user", "u")], 1), Some(Duration::MAX)).await.expect("an answer");
    assert_eq!((in_time.degraded, remaining(&in_time)), (false, vec![Some(9)]));
}
