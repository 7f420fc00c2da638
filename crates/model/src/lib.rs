//! The words every other crate speaks: stamps, durations, keys and ids. Arithmetic only; stays tiny.
//!
//! Invariant: nothing here panics or wraps. Sums saturate, differences floor at zero, and a unit is part of a type.

mod id;
pub mod planted;
mod time;

pub use id::{Epoch, Key, NodeId, RequestId, RulesVersion, ShardId, TenantId};
pub use time::{BootTime, Nanos, Stamp, TimeLine, WallTime};
