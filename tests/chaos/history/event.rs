//! What a line of a history can say: one type an event, as it is written to JSON.
//!
//! All moments are nanoseconds since the run began, on the load generator's monotonic clock; nothing here is a node's clock.
//! Fields that may be absent are left out of the line. A reader passes over fields that it doesn't know.

use serde::{Deserialize, Serialize};

/// One line. `event` names which it is, and stands first.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event {
    Run(Run),
    Rules(Rules),
    Check(Check),
    Log(Resolved),
    Fault(Fault),
    State(State),
    Phase(Phase),
    Reached(Reached),
}

/// The first line: what was run and what it promised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    /// The scenario's name.
    pub(crate) scenario: String,
    pub(crate) seed: u64,
    /// For people: `3 nodes, 2 sidecars`.
    pub(crate) topology: String,
    /// The product's commit.
    pub(crate) commit: String,
    /// Calendar time, RFC 3339.
    pub(crate) started: String,
    /// For people: cores and memory. Empty: not said.
    #[serde(default)]
    pub(crate) machine: String,
    /// By how many millionths the owners' clocks may run faster than the load generator's, the slew to wall time included.
    #[serde(default = "clock_ppm")]
    pub(crate) clock_ppm: u64,
    /// Whoever holds a lease spends nothing of it later than this after it could last ask for one.
    #[serde(default = "lease_ns")]
    pub(crate) lease_ns: u64,
    /// A leader that can't reach a quorum grants nothing later than this.
    #[serde(default = "leader_lease_ns")]
    pub(crate) leader_lease_ns: u64,
    /// After an owner was killed its keys are granted again within this, at worst.
    #[serde(default = "regrant_ns")]
    pub(crate) regrant_ns: u64,
    /// Resident bytes a process may take. Absent: not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) memory_max: Option<u64>,
    /// Connections a process may hold. Absent: not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) connections_max: Option<u64>,
    /// States that the run is for: without one of them it has no result. Names as in [`Reached`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) must_reach: Vec<String>,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            scenario: String::new(),
            seed: 0,
            topology: String::new(),
            commit: String::new(),
            started: String::new(),
            machine: String::new(),
            clock_ppm: clock_ppm(),
            lease_ns: lease_ns(),
            leader_lease_ns: leader_lease_ns(),
            regrant_ns: regrant_ns(),
            memory_max: None,
            connections_max: None,
            must_reach: Vec::new(),
        }
    }
}

/// Slew of 0.1 % and two crystals.
const fn clock_ppm() -> u64 {
    1_200
}

/// Five seconds, and what clocks may differ.
const fn lease_ns() -> u64 {
    5_500_000_000
}

/// A leader's lease on its defaults, with room for a loaded machine.
const fn leader_lease_ns() -> u64 {
    2_000_000_000
}

/// Promise P5.
const fn regrant_ns() -> u64 {
    2_000_000_000
}

/// All rules, as of a version. The first are in force from 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rules {
    pub(crate) version: u64,
    /// When the first node could have decided by them: before they were sent.
    #[serde(default)]
    pub(crate) pushed: u64,
    /// When every process was known to decide by them. Absent: never known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) in_force: Option<u64>,
    pub(crate) limits: Vec<Limit>,
}

/// One limit of the rules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Limit {
    pub(crate) domain: String,
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) algorithm: Algorithm,
    /// Units each period.
    pub(crate) amount: u64,
    pub(crate) period_ns: u64,
    /// Units at once: of a bucket its burst, of a shaper its queue. Others don't look at it.
    #[serde(default)]
    pub(crate) burst: u64,
    /// The rule's x.
    #[serde(default)]
    pub(crate) max_overshoot: f64,
    #[serde(default)]
    pub(crate) on_unavailable: OnUnavailable,
    /// Of a `local` limit: what is set aside for edges that are cut off.
    #[serde(default)]
    pub(crate) local_share: f64,
    /// Of such a limit or one with `max_overshoot`: among how many edges that is divided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) edges: Option<u64>,
    /// Whether units may be lent: false for `lease: never`.
    #[serde(default = "leased")]
    pub(crate) leased: bool,
}

const fn leased() -> bool {
    true
}

/// As rule files spell them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Algorithm {
    #[default]
    TokenBucket,
    LeakyBucket,
    Shaper,
    FixedWindow,
    SlidingLog,
    SlidingCounter,
}

/// As rule files spell it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnUnavailable {
    #[default]
    Allow,
    Deny,
    Local,
}

/// One request, from when it was first sent until an answer came or it was given up. Retries under one id in one go are one
/// line. Asking again under the id later, to see whether the answer is the same, is a line of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Check {
    pub(crate) invoked: u64,
    /// When its answer came or it was given up. Absent: nobody knows when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) returned: Option<u64>,
    /// Who asked: a worker of the load.
    pub(crate) client: String,
    /// The process that answered, or the last one asked: `node-1`, `edge-2`.
    pub(crate) door: String,
    /// Every counter that the request counts on, as `domain/limit` or `domain/limit=value`.
    pub(crate) keys: Vec<String>,
    /// Units; 0 is a peek.
    pub(crate) cost: u64,
    /// The request id. Absent: it was asked under none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    pub(crate) outcome: Outcome,
    /// Whether the answer was a declared failure behaviour.
    #[serde(default)]
    pub(crate) degraded: bool,
    /// Who decided; of several keys, of the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<Source>,
    /// Units left, as the answer says for the first key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) remaining: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) retry_after_ns: Option<u64>,
    /// How often it was sent.
    #[serde(default = "once")]
    pub(crate) tries: u32,
}

const fn once() -> u32 {
    1
}

/// How a check ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Allowed,
    OverLimit,
    /// The door says that nobody could decide. It may have been charged.
    Unavailable,
    /// No answer. It may have been charged.
    #[default]
    Unknown,
}

/// Who decided, as answers spell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Source {
    Owner,
    Lease,
    DenyCache,
    Fallback,
}

/// What the owners' logs say of a check whose outcome was unknown or unavailable. Those without such a line stay unresolved:
/// they count for nobody.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Resolved {
    /// When it was looked up: what was charged was charged by then.
    pub(crate) at: u64,
    /// The request id.
    pub(crate) id: String,
    /// The keys that it was charged to; empty when it is in no log.
    pub(crate) charged: Vec<String>,
}

/// Something that was done to a process, its network, clock or disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Fault {
    pub(crate) at: u64,
    /// The kind: `kill`, `stop`, `cut`, `clock-step`, …
    pub(crate) name: String,
    /// The process, as doors are named; or what else was touched.
    pub(crate) target: String,
    pub(crate) phase: FaultPhase,
    /// Whether the target can reach no other node while it lasts.
    #[serde(default)]
    pub(crate) isolates: bool,
    /// Whether it leads some of the keys that are asked for: its keys have to be granted again.
    #[serde(default)]
    pub(crate) owner: bool,
    /// For people.
    #[serde(default)]
    pub(crate) note: String,
}

/// Whether a fault begins or ends. `once` is both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FaultPhase {
    #[default]
    Begin,
    End,
    Once,
}

/// What a process says about itself on its admin port. What it doesn't say is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) at: u64,
    /// The process, as doors are named.
    pub(crate) node: String,
    /// The shard map's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) epoch: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rules_version: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) shards: Vec<Shard>,
    /// What is out on leases of the counters that it leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lent: Option<Lent>,
    /// Calls to owners since it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hops: Option<u64>,
    /// Resident bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) memory: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) connections: Option<u64>,
}

/// A replica.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shard {
    pub(crate) shard: u32,
    /// The last entry in its state.
    pub(crate) applied: u64,
    /// Of its state just after that entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hash: Option<String>,
    #[serde(default)]
    pub(crate) leader: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) term: Option<u64>,
}

/// What became of all units that were ever lent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lent {
    pub(crate) granted: u64,
    pub(crate) spent: u64,
    pub(crate) returned: u64,
    /// Not heard of until their lease ended.
    pub(crate) stranded: u64,
    pub(crate) outstanding: u64,
    /// Times that the owner itself found units unaccounted for.
    #[serde(default)]
    pub(crate) violations: u64,
}

/// A part of the run begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Phase {
    pub(crate) at: u64,
    pub(crate) name: PhaseName,
}

/// The parts of a run, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PhaseName {
    /// Faults come and go.
    #[default]
    Trouble,
    /// All faults have ended; what is down starts again.
    Heal,
    /// Everything must be served by now.
    Calm,
    End,
}

/// A state that is worth visiting, as whoever ran it knows. Some are seen in the history itself, see `check::reached`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reached {
    pub(crate) at: u64,
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) note: String,
}
