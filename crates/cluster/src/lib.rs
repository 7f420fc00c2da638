//! A node's part in a cluster: it finds the others, follows the control group, answers for the shards that it leads, asks
//! the leaders of the others, and, while it leads the control group, moves shards to where they should be.
//!
//! Invariant: a grant rests on Raft alone. Gossip and hints only say whom to ask first; a node that asks the wrong one is
//! told so. What may have been charged is asked again under the same id or reported as unknown, never taken back.

mod attempt;
mod balance;
mod calls;
mod change;
mod clock;
mod config;
mod coordinator;
mod counts;
mod data;
mod error;
mod follow;
mod form;
mod forward;
mod join;
mod lane;
mod leader_client;
mod lent;
mod lines;
mod local_groups;
mod machine;
mod member;
mod merge;
mod misplaced;
mod own;
mod plan;
mod planted;
mod proposer;
mod questions;
mod report;
mod route;
mod router;
mod sessions;
mod spread;
mod status;
mod whereabouts;

pub use clock::{Clock, SystemClock};
pub use config::{ClusterConfig, Fatal};
pub use counts::Counts;
pub use error::{StartError, Unanswered};
pub use leader_client::Hint;
pub use leasehold_gossip::{Counts as GossipCounts, Key as GossipKey, Load, Reason};
pub use leasehold_wire::peer::{Role, StateHash};
pub use lent::Lent;
pub use machine::machines;
pub use member::{Addresses, Cluster, Gauges, Holdings, Phase};
pub use questions::{Question, Told};
pub use report::{GroupReport, MemberReport, ReplicaReport, Report};
pub use router::{Router, RouterParts};
