//! One batch a shard, and one answer an ask.

use leasehold_lease::{LeaseAsk, Leased, MilliRate};
use leasehold_limit::rules::{Lease, OnUnavailable, Scope};
use leasehold_limit::{Algorithm, Limit};
use leasehold_model::{RulesVersion, Stamp, TenantId};
use leasehold_shard::Refusal;

use super::*;

const SETTLED: Settled = Settled { session: 7, below: 3 };

fn ask(seq: u64, burst: u64, need: u64) -> UpstreamAsk {
    let limit = Limit::new(Algorithm::TokenBucket { burst }, 1, Nanos::from_secs(1)).unwrap();
    let spec = LimitSpec { tenant: TenantId(1), version: RulesVersion(1), since: Stamp::ZERO, limit };
    let terms = Terms {
        lease: Lease::Auto,
        scope: Scope::Global,
        on_unavailable: OnUnavailable::Deny,
        local: None,
        overshoot: None,
        edges: 32,
    };
    let ask = LeaseAsk {
        edge: EdgeId(9),
        key: Key::from_u128(u128::from(seq)),
        need,
        want: need,
        rate: MilliRate(0),
        lifetime: Nanos::from_secs(5),
        usage: Vec::new(),
    };
    UpstreamAsk { id: RequestId { session: 7, seq }, spec: Arc::new(spec), terms, ask }
}

#[test]
fn asks_of_one_shard_are_one_batch_with_each_limit_once() {
    let batch = batch(vec![ask(3, 10, 1), ask(4, 20, 1), ask(5, 10, 0)], SETTLED);
    assert_eq!((batch.limits.len(), batch.settled), (2, vec![SETTLED]));
    let told = batch.commands.iter().map(|command| match command {
        Command::Lease(lease) => (lease.limit, lease.id.map(|id| id.seq)),
        other @ (Command::Acquire(_) | Command::Refund(_) | Command::Reset(_)) => panic!("{other:?}"),
    });
    // Word of what was spent alone is told without an id: nothing is remembered of it.
    assert_eq!(told.collect::<Vec<_>>(), [(0, Some(3)), (1, Some(4)), (0, None)]);
}

/// Checks what two asks are told.
fn check(replies: Result<Vec<Reply>, ProposeError>, outcomes: [Result<Grant, NoGrant>; 2]) {
    let ids = [3, 4].map(|seq| RequestId { session: 7, seq });
    let answers = told(&ids, replies);
    assert_eq!(answers.iter().map(|answer| answer.id).collect::<Vec<_>>(), ids);
    assert_eq!(answers.iter().map(|answer| answer.outcome).collect::<Vec<_>>(), outcomes);
}

#[test]
fn each_ask_is_told_its_own_reply() {
    let leased = Leased {
        lease: None,
        granted: 0,
        sync: 1,
        lifetime: Nanos::ZERO,
        gate: None,
        retry_after: None,
        remaining: 4,
        reset_after: Nanos::ZERO,
        slot: None,
        at: Stamp::ZERO,
    };
    let replies = vec![Reply::Leased(leased), Reply::Refused(Refusal::Malformed)];
    check(Ok(replies), [Ok(Grant { leased, slot_parts: 1 }), Err(NoGrant::Refused(Refusal::Malformed))]);
}

#[test]
fn without_a_reply_no_ask_is_called_refused_or_granted() {
    check(Err(ProposeError::Unreachable), [Err(NoGrant::Unreachable); 2]);
    check(Err(ProposeError::Overloaded("")), [Err(NoGrant::Overloaded); 2]);
    check(Ok(Vec::new()), [Err(NoGrant::Unreachable); 2]);
}
