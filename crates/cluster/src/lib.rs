//! A node's part in a cluster: it finds the others, follows the control group, answers for the shards that it leads, asks
//! the leaders of the others, and, while it leads the control group, moves shards to where they should be.
//!
//! Invariant: a grant rests on Raft alone. Gossip and hints only say whom to ask first; a node that asks the wrong one is
//! told so. What may have been charged is asked again under the same id or reported as unknown, never taken back.

mod balance;
mod calls;
mod change;
mod clock;
mod config;
mod error;
mod member;
mod plan;
mod report;
mod status;
mod steer;

pub use clock::{Clock, SystemClock};
pub use config::{ClusterConfig, Fatal};
pub use error::{StartError, Unanswered};
pub use leasehold_gossip::Load;
pub use leasehold_wire::peer::{Role, StateHash};
pub use member::{Addresses, Cluster, Holdings, Phase};
pub use report::{GroupReport, MemberReport, ReplicaReport, Report};
