//! The machine of the control group: who is in the cluster, which rules hold, where shards live.
//!
//! Invariant: `apply` is pure, deterministic and total, and a version only ever counts up: rules by one at each accepted
//! change, the shard map's epoch likewise. Whether a command is wise was decided before it was proposed (rules were
//! validated, a map was planned); here it is checked only against what it may not contradict. Nothing here plans moves,
//! parses rules, or knows who is alive.

mod command;
mod machine;
mod record;
mod snapshot;

pub use command::{Command, Refusal, Reply, RulesChange};
pub use machine::Control;
pub use record::{AuditEntry, Cluster, ClusterId, NodeRecord, RulesText};
pub use snapshot::{RestoreError, Snapshot};
