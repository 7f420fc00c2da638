//! What the machine of a shard promises, one module a promise.

mod acquire;
mod bounds;
mod golden;
mod lease;
mod lent;
mod model;
mod refund;
mod replicas;
mod retries;
mod rule_change;
mod sessions;
mod traffic;

use leasehold_limit::{Algorithm, Ask, Limit};
use leasehold_model::{Key, Nanos, RequestId, RulesVersion, Stamp, TenantId};
use leasehold_shard::{
    Acquire, Acquired, Batch, Bounds, Command, Demand, LeaseCommand, LimitSpec, Refund, RefundItem, Reply,
    Reset, Shard,
};

/// A stamp to start from: traffic doesn't begin in 1970.
const START: Stamp = Stamp(1_800_000_000_000_000_000);

fn secs(n: u64) -> Nanos {
    Nanos::from_secs(n)
}

/// Spreads small numbers over all 128 bits, as a keyed hash does.
fn key(n: u64) -> Key {
    let mix = |x: u64| {
        let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    };
    Key { high: mix(n.wrapping_add(0x9e37_79b9_7f4a_7c15)), low: mix(!n) }
}

/// `n` a minute by `algorithm`, of tenant 1.
fn spec(algorithm: Algorithm, n: u64) -> LimitSpec {
    let limit = Limit::new(algorithm, n, secs(60)).expect("valid");
    LimitSpec { tenant: TenantId(1), version: RulesVersion(1), since: Stamp::ZERO, limit }
}

/// A token bucket of `n` a minute, of tenant 1.
fn bucket(n: u64) -> LimitSpec {
    spec(Algorithm::TokenBucket { burst: n }, n)
}

/// `cost` units of counter `n` under the batch's first limit.
fn take(n: u64, cost: u64) -> Demand {
    Demand { key: key(n), limit: 0, ask: Ask::exactly(cost), shadow: false }
}

fn shadow(demand: Demand) -> Demand {
    Demand { shadow: true, ..demand }
}

fn under(limit: u32, demand: Demand) -> Demand {
    Demand { limit, ..demand }
}

fn id(seq: u64) -> RequestId {
    RequestId { session: 7, seq }
}

fn acquire(demands: impl Into<Vec<Demand>>) -> Command {
    Command::Acquire(Acquire { id: None, demands: demands.into(), remember_denial: true })
}

fn acquire_as(seq: u64, demands: impl Into<Vec<Demand>>) -> Command {
    Command::Acquire(Acquire { id: Some(id(seq)), demands: demands.into(), remember_denial: true })
}

fn refund_as(seq: u64, n: u64, cost: u64, charged_at: Stamp) -> Command {
    Command::Refund(Refund { id: id(seq), items: vec![RefundItem { key: key(n), cost, charged_at }] })
}

fn reset(keys: impl IntoIterator<Item = u64>) -> Command {
    Command::Reset(Reset { keys: keys.into_iter().map(key).collect() })
}

/// A shard with the limits that its commands refer to.
struct Bench {
    shard: Shard,
    bounds: Bounds,
    limits: Vec<LimitSpec>,
}

impl Bench {
    fn new(limits: impl Into<Vec<LimitSpec>>) -> Self {
        Self::within(Bounds::default(), limits)
    }

    fn within(bounds: Bounds, limits: impl Into<Vec<LimitSpec>>) -> Self {
        Self { shard: Shard::new(bounds), bounds, limits: limits.into() }
    }

    /// Applies one batch `after` the start.
    fn batch(&mut self, after: Nanos, commands: impl Into<Vec<Command>>) -> Vec<Reply> {
        let batch = Batch { limits: self.limits.clone(), commands: commands.into(), ..Batch::default() };
        self.shard.apply(&batch, START.after(after))
    }

    fn one(&mut self, after: Nanos, command: Command) -> Reply {
        self.batch(after, [command]).pop().expect("one reply a command")
    }

    /// Applies an acquire without an id and returns what was decided.
    fn acquire(&mut self, after: Nanos, demands: impl Into<Vec<Demand>>) -> Acquired {
        acquired(self.one(after, acquire(demands)))
    }

    /// What a single ask of counter `n` would still get at most.
    fn left(&self, after: Nanos, n: u64) -> u64 {
        let peek = Acquire { id: None, demands: vec![take(n, 0)], remember_denial: true };
        acquired(self.shard.preview(&self.limits, &peek, START.after(after))).decisions[0].remaining
    }

    /// Replaces the shard by one restored from its snapshot.
    fn restart(&mut self) {
        self.shard = Shard::restore(self.shard.snapshot(), self.bounds).expect("its own snapshot");
    }
}

#[track_caller]
fn acquired(reply: Reply) -> Acquired {
    match reply {
        Reply::Acquired(acquired) => acquired,
        Reply::Refunded(_) | Reply::Reset(_) | Reply::Refused(_) | Reply::Leased(_) => {
            panic!("not acquired: {reply:?}")
        }
    }
}
