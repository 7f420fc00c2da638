//! What a shard is told and what it answers.

use leasehold_lease::{LeaseAsk, Leased};
use leasehold_limit::{Ask, Decision, Limit};
use leasehold_model::{Key, RequestId, RulesVersion, Stamp, TenantId};

/// Many commands that one log entry carries. They share `limits`, so that each carries its numbers at the cost of an index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// The distinct limits of this batch.
    pub limits: Vec<LimitSpec>,
    /// Applied in order.
    pub commands: Vec<Command>,
    /// Applied before the commands.
    pub settled: Vec<Settled>,
    /// What the shard may hold from here on; none: as before. A leader puts its own into every entry, so that all replicas
    /// come to the same, whatever each was configured with.
    pub bounds: Option<Bounds>,
}

/// Word from a session that it has its answers: it asks again under none of the sequences below a number. Their replies
/// are dropped at once, so that a busy session that keeps count has no part in a tenant's bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Settled {
    /// Whose.
    pub session: u128,
    /// The smallest sequence that may still be asked again.
    pub below: u64,
}

/// A limit as one command carries it: replicas never depend on when a rule reached them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LimitSpec {
    /// Whose counters: bounds are kept per tenant.
    pub tenant: TenantId,
    /// The rule set these numbers come from. A counter never goes back to the numbers of an older one.
    pub version: RulesVersion,
    /// When that rule set came into force, on the shard's time line; [`Stamp::ZERO`]: it always was.
    ///
    /// A counter of an older rule set is carried over as of then, so that answers don't depend on when it is asked first.
    /// Not earlier than its own last change, though, nor later than now.
    pub since: Stamp,
    /// The numbers.
    pub limit: Limit,
}

impl LimitSpec {
    /// Whether both are one rule set's numbers for one tenant, whoever says since when.
    pub(crate) fn same_numbers(&self, other: &Self) -> bool {
        self.version == other.version && self.tenant == other.tenant && self.limit == other.limit
    }
}

/// One command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Take from every counter or from none.
    Acquire(Acquire),
    /// Give back what an earlier acquire took.
    Refund(Refund),
    /// Forget what counters hold.
    Reset(Reset),
    /// Lend units of one counter to an edge, and hear what became of those it has.
    Lease(LeaseCommand),
}

/// Takes from every counter or from none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acquire {
    /// Under one id it is charged once and answered the same.
    pub id: Option<RequestId>,
    /// Whether a denial is remembered under the id as well. Who asks again only when no answer came has no need of it: a
    /// denial charges nothing, and without it the denial needs no entry in a log.
    pub remember_denial: bool,
    /// What is asked of which counter. One counter may stand here more than once; it then pays for each.
    pub demands: Vec<Demand>,
}

/// An ask of one counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Demand {
    /// The counter.
    pub key: Key,
    /// Index into the batch's `limits`.
    pub limit: u32,
    /// Units.
    pub ask: Ask,
    /// A shadow demand is decided, and charged when everything else is admitted and it fits; it never refuses the rest.
    pub shadow: bool,
}

/// Gives back what an acquire took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refund {
    /// Under one id it is credited once.
    pub id: RequestId,
    /// What comes back.
    pub items: Vec<RefundItem>,
}

/// Units of one counter that come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RefundItem {
    /// The counter.
    pub key: Key,
    /// Units taken.
    pub cost: u64,
    /// When they were taken ([`Acquired::at`]).
    pub charged_at: Stamp,
}

/// Makes counters fresh again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reset {
    /// The counters.
    pub keys: Vec<Key>,
}

/// An edge's ask of one counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseCommand {
    /// Under one id it is granted once and answered the same. Usage has no need of it: it is told in totals.
    pub id: Option<RequestId>,
    /// Index into the batch's `limits`.
    pub limit: u32,
    /// What is asked and told.
    pub ask: LeaseAsk,
}

/// The answer to one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To [`Command::Acquire`].
    Acquired(Acquired),
    /// To [`Command::Refund`]: whole units that came back, an item each.
    Refunded(Vec<u64>),
    /// To [`Command::Reset`]: how many of the counters held anything.
    Reset(u32),
    /// It was not carried out, and nothing changed.
    Refused(Refusal),
    /// To [`Command::Lease`].
    Leased(Leased),
}

/// The answer to an acquire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquired {
    /// Whether everything that is no shadow was admitted, and so charged.
    pub admitted: bool,
    /// The stamp that decided.
    pub at: Stamp,
    /// One for each demand, in order. When not admitted, a demand that would have fitted says `allowed` with nothing granted.
    pub decisions: Vec<Decision>,
}

/// Why a command was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The tenant holds as many counters as it may, and this needs a new one.
    #[error("the domain holds as many counters as it may; they are dropped as they refill")]
    KeysFull(TenantId),
    /// The tenant has as many remembered replies as it may, or too many for one as long as this, and this id is new.
    #[error("the domain has as many request ids to remember as it may; retry later or without an id")]
    RepliesFull(TenantId),
    /// The id was used by a different command.
    #[error("the request id was used for a different request")]
    RequestIdReused,
    /// A command that no honest peer sends: an index beyond `limits`, or more demands than the bound.
    #[error("malformed command")]
    Malformed,
}

/// Decisions (items of a refund) up to which a remembered reply counts as one. Most requests stand under fewer limits.
pub const DECISIONS_PER_REPLY: usize = 4;

/// What a shard may hold. At a bound the newcomer is refused; nothing held is dropped to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Counters of one tenant. Each takes some 40 bytes; a sliding log 16 bytes more an entry, and it has at most one for
    /// each unit of its limit.
    pub keys_per_tenant_max: u32,
    /// Counters of all tenants.
    pub keys_max: u32,
    /// Remembered replies of one tenant. Every [`DECISIONS_PER_REPLY`] decisions of a reply, or part of that, count as
    /// one, so that this bounds bytes: some 600 for each.
    pub replies_per_tenant_max: u32,
    /// How long a reply is remembered: retries come within it.
    pub retry_window: leasehold_model::Nanos,
    /// Demands in one acquire, items in one refund, keys in one reset.
    pub items_max: u32,
    /// Leases of all keys, and edges whose demand on a key is known: some 120 bytes each. At the bound nothing is lent:
    /// edges are answered one need at a time.
    pub leases_max: u32,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            keys_per_tenant_max: 1_000_000,
            keys_max: 10_000_000,
            replies_per_tenant_max: 100_000,
            retry_window: leasehold_model::Nanos::from_secs(60),
            items_max: 256,
            leases_max: 100_000,
        }
    }
}
