//! What an edge asks: leases, and what only owners can decide.

use std::collections::BTreeMap;

use leasehold_lease::{EdgeId, LeaseAsk, LeaseId, MilliRate, Usage};
use leasehold_limit::Ask as Units;
use leasehold_limit::rules::Scope;
use leasehold_model::{Key, Nanos, RequestId, RulesVersion, Stamp, TenantId};
use leasehold_shard::{Demand, LimitSpec, RefundItem, Settled};

use super::{ASKS_MAX, ITEMS_MAX, LeaseProtoError, USAGE_MAX, bounded, limit_from_proto};
use crate::part::{PartError, Problem, each};
use crate::proto::leasehold::v1 as proto;
use proto::ask::Ask as Proto;

/// All that an edge has to ask at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asks {
    /// What the asks refer to.
    pub limits: Vec<AskedLimit>,
    /// Every position of a limit in them is one in `limits`.
    pub asks: Vec<Ask>,
    /// What is asked no more.
    pub settled: Vec<Settled>,
}

/// A limit that something is asked under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedLimit {
    /// The limit.
    pub spec: LimitSpec,
    /// Who counts together.
    pub scope: Scope,
}

/// One ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Names the answer; unique among the unanswered asks of a stream.
    pub tag: u64,
    /// Sent again, it is the same ask.
    pub id: RequestId,
    /// How long the answer is worth waiting for; `None`: as long as the node waits at most.
    pub budget: Option<Nanos>,
    /// What is asked.
    pub what: What,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Tokens to hold.
    Lease(AskedLease),
    /// To take from all counters or none.
    Acquire(Vec<Demand>),
    /// What an acquire would be answered.
    Preview(Vec<Demand>),
    /// To give back what was taken.
    Refund(Vec<RefundItem>),
    /// To forget what counters hold.
    Reset(Vec<Key>),
    /// Something that a later version added: refused as malformed.
    Later,
}

/// A lease's ask without its edge, which the stream's greeting names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedLease {
    /// The counter.
    pub key: Key,
    /// Position in [`Asks::limits`].
    pub limit: u32,
    /// See [`LeaseAsk::need`].
    pub need: u64,
    /// See [`LeaseAsk::want`].
    pub want: u64,
    /// See [`LeaseAsk::rate`].
    pub rate: MilliRate,
    /// See [`LeaseAsk::lifetime`].
    pub lifetime: Nanos,
    /// See [`LeaseAsk::usage`].
    pub usage: Vec<Usage>,
}

impl AskedLease {
    /// This, under the limit at that position.
    #[must_use]
    pub fn new(ask: &LeaseAsk, limit: u32) -> Self {
        let LeaseAsk { edge: _, key, need, want, rate, lifetime, usage } = ask;
        Self {
            key: *key,
            limit,
            need: *need,
            want: *want,
            rate: *rate,
            lifetime: *lifetime,
            usage: usage.clone(),
        }
    }

    /// As that edge asks it.
    #[must_use]
    pub fn by(self, edge: EdgeId) -> LeaseAsk {
        let Self { key, limit: _, need, want, rate, lifetime, usage } = self;
        LeaseAsk { edge, key, need, want, rate, lifetime, usage }
    }
}

impl From<Asks> for proto::Asks {
    fn from(asks: Asks) -> Self {
        let mut sessions = Sessions::default();
        let list = asks.asks.into_iter().map(|ask| ask_to_proto(ask, &mut sessions)).collect();
        for Settled { session, below } in asks.settled {
            let at = sessions.place(session);
            sessions.list[at].settled_below = below;
        }
        let limits = asks.limits.iter().map(proto::AskedLimit::from).collect();
        Self { limits, sessions: sessions.list, asks: list }
    }
}

impl TryFrom<proto::Asks> for Asks {
    type Error = LeaseProtoError;

    fn try_from(proto: proto::Asks) -> Result<Self, LeaseProtoError> {
        bounded(&proto.limits, ASKS_MAX, "asks.limits")?;
        bounded(&proto.sessions, ASKS_MAX, "asks.sessions")?;
        bounded(&proto.asks, ASKS_MAX, "asks.asks")?;
        let limits: Vec<_> = (0..)
            .zip(&proto.limits)
            .map(|(index, limit)| asked_limit(index, limit))
            .collect::<Result<_, _>>()?;
        let positions = limits.len();
        let sessions: Vec<u128> = proto.sessions.iter().map(session).collect();
        let asks = each(proto.asks, "asks.asks", |ask| ask_from_proto(ask, &sessions, positions))?;
        let told = proto.sessions.iter().filter(|proto| proto.settled_below > 0);
        let settled = told.map(|proto| Settled { session: session(proto), below: proto.settled_below });
        Ok(Self { limits, asks, settled: settled.collect() })
    }
}

/// The sessions of a message, each once.
#[derive(Default)]
struct Sessions {
    list: Vec<proto::Session>,
    places: BTreeMap<u128, usize>,
}

impl Sessions {
    fn place(&mut self, session: u128) -> usize {
        *self.places.entry(session).or_insert_with(|| {
            let Key { high, low } = Key::from_u128(session);
            self.list.push(proto::Session { high, low, settled_below: 0 });
            self.list.len() - 1
        })
    }
}

fn session(proto: &proto::Session) -> u128 {
    Key { high: proto.high, low: proto.low }.to_u128()
}

impl From<&AskedLimit> for proto::AskedLimit {
    fn from(AskedLimit { spec, scope }: &AskedLimit) -> Self {
        Self {
            tenant: spec.tenant.0,
            rules_version: spec.version.0,
            since: spec.since.0,
            limit: Some((&spec.limit).into()),
            regional: match scope {
                Scope::Global => false,
                Scope::Region => true,
            },
        }
    }
}

fn asked_limit(index: usize, proto: &proto::AskedLimit) -> Result<AskedLimit, LeaseProtoError> {
    let limit = limit_from_proto(index, proto.limit.as_ref())?;
    let (tenant, version) = (TenantId(proto.tenant), RulesVersion(proto.rules_version));
    let scope = if proto.regional { Scope::Region } else { Scope::Global };
    Ok(AskedLimit { spec: LimitSpec { tenant, version, since: Stamp(proto.since), limit }, scope })
}

fn ask_to_proto(Ask { tag, id, budget, what }: Ask, sessions: &mut Sessions) -> proto::Ask {
    let exact =
        |demands: &[Demand]| proto::ExactDemands { demands: demands.iter().map(demand_to_proto).collect() };
    let ask = match what {
        What::Lease(lease) => Some(Proto::Lease(lease_to_proto(&lease))),
        What::Acquire(demands) => Some(Proto::Acquire(exact(&demands))),
        What::Preview(demands) => Some(Proto::Preview(exact(&demands))),
        What::Refund(items) => {
            let items = items.iter().map(item_to_proto).collect();
            Some(Proto::Refund(proto::RefundedCharges { items }))
        }
        What::Reset(keys) => Some(Proto::Reset(proto::CounterKeys {
            key_high: keys.iter().map(|key| key.high).collect(),
            key_low: keys.iter().map(|key| key.low).collect(),
        })),
        What::Later => None,
    };
    proto::Ask {
        tag,
        session: u32::try_from(sessions.place(id.session)).expect("a message has few sessions"),
        seq: id.seq,
        // 0 stands for no budget; whoever has none left doesn't ask.
        budget: budget.map_or(0, |budget| budget.0.max(1)),
        ask,
    }
}

fn ask_from_proto(proto: proto::Ask, sessions: &[u128], positions: usize) -> Result<Ask, PartError> {
    let session = at(proto.session, sessions, "session")?;
    let what = match proto.ask {
        None => What::Later,
        Some(Proto::Lease(lease)) => What::Lease(lease_from_proto(&lease, positions)?),
        Some(Proto::Acquire(exact)) => What::Acquire(demands(&exact.demands, positions, "acquire.demands")?),
        Some(Proto::Preview(exact)) => What::Preview(demands(&exact.demands, positions, "preview.demands")?),
        Some(Proto::Refund(refund)) => {
            filled(&refund.items, "refund.items")?;
            What::Refund(refund.items.iter().map(item_from_proto).collect())
        }
        Some(Proto::Reset(reset)) => What::Reset(keys(&reset)?),
    };
    let budget = (proto.budget > 0).then_some(Nanos(proto.budget));
    Ok(Ask { tag: proto.tag, id: RequestId { session, seq: proto.seq }, budget, what })
}

fn lease_to_proto(lease: &AskedLease) -> proto::LeaseAsk {
    let usage = |usage: &Usage| proto::LeaseUsage {
        lease: usage.lease.0,
        spent: usage.spent_total,
        returned: usage.returned_total,
    };
    proto::LeaseAsk {
        key_high: lease.key.high,
        key_low: lease.key.low,
        limit: lease.limit,
        need: lease.need,
        want: lease.want,
        rate_milli: lease.rate.0,
        lifetime: lease.lifetime.0,
        usage: lease.usage.iter().map(usage).collect(),
    }
}

fn lease_from_proto(proto: &proto::LeaseAsk, positions: usize) -> Result<AskedLease, PartError> {
    bounded(&proto.usage, USAGE_MAX, "lease.usage")?;
    let usage = |usage: &proto::LeaseUsage| Usage {
        lease: LeaseId(usage.lease),
        spent_total: usage.spent,
        returned_total: usage.returned,
    };
    Ok(AskedLease {
        key: Key { high: proto.key_high, low: proto.key_low },
        limit: position(proto.limit, positions, "lease.limit")?,
        need: proto.need,
        want: proto.want,
        rate: MilliRate(proto.rate_milli),
        lifetime: Nanos(proto.lifetime),
        usage: proto.usage.iter().map(usage).collect(),
    })
}

fn demands(list: &[proto::ExactDemand], positions: usize, path: &str) -> Result<Vec<Demand>, PartError> {
    filled(list, path)?;
    each(list, path, |demand| {
        Ok(Demand {
            key: Key { high: demand.key_high, low: demand.key_low },
            limit: position(demand.limit, positions, "limit")?,
            ask: Units { min: demand.min, max: demand.max },
            shadow: demand.shadow,
        })
    })
}

fn demand_to_proto(demand: &Demand) -> proto::ExactDemand {
    let Demand { key, limit, ask, shadow } = *demand;
    let Units { min, max } = ask;
    proto::ExactDemand { key_high: key.high, key_low: key.low, limit, min, max, shadow }
}

fn item_to_proto(item: &RefundItem) -> proto::RefundedCharge {
    let RefundItem { key, cost, charged_at } = *item;
    proto::RefundedCharge { key_high: key.high, key_low: key.low, cost, charged_at: charged_at.0 }
}

fn item_from_proto(proto: &proto::RefundedCharge) -> RefundItem {
    RefundItem {
        key: Key { high: proto.key_high, low: proto.key_low },
        cost: proto.cost,
        charged_at: Stamp(proto.charged_at),
    }
}

fn keys(proto: &proto::CounterKeys) -> Result<Vec<Key>, PartError> {
    filled(&proto.key_high, "reset.key_high")?;
    let (found, expected) = (proto.key_low.len(), proto.key_high.len());
    if found != expected {
        let problem = Problem::Columns { found, expected };
        return Err(PartError { path: "reset.key_low".to_owned(), problem });
    }
    Ok(proto.key_high.iter().zip(&proto.key_low).map(|(&high, &low)| Key { high, low }).collect())
}

/// A list with something in it, within its bound.
fn filled<T>(list: &[T], path: &str) -> Result<(), PartError> {
    if list.is_empty() {
        return Err(PartError { path: path.to_owned(), problem: Problem::Empty });
    }
    bounded(list, ITEMS_MAX, path)
}

/// A position in a list of that length.
fn position(position: u32, length: usize, path: &str) -> Result<u32, PartError> {
    if usize::try_from(position).is_ok_and(|position| position < length) {
        return Ok(position);
    }
    Err(PartError { path: path.to_owned(), problem: Problem::NoPosition { position, length } })
}

/// What stands at a position.
fn at<T: Copy>(at: u32, list: &[T], path: &str) -> Result<T, PartError> {
    let found = usize::try_from(position(at, list.len(), path)?).ok().and_then(|at| list.get(at));
    found.copied().ok_or_else(|| PartError::absent(path))
}
