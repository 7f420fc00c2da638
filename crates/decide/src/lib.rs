//! Decides requests: rules, demands on counters, one ask of whoever may change them, an answer.
//!
//! A node, a sidecar and a client differ in who may change their counters (an [`Authority`]) and in what the process
//! around it keeps and counts (a [`Host`]). What becomes of a request between the two is the same code, here: an
//! [`Engine`], which front doors see as a [`Decider`]. No door, no network, no rule file.

mod authority;
pub mod bounds;
mod deadline;
mod decider;
mod engine;
pub mod headers;
mod host;
mod plan;
mod region;
pub mod sketch;
pub mod top_keys;

pub use authority::{Authority, Proposal, ProposeError, Proposed, Terms};
pub use decider::{CheckError, Decider, Readiness, ResetTarget};
pub use engine::Engine;
pub use host::{Active, Host};
pub use region::Region;
pub use top_keys::TopKeys;
