//! What spends tokens where the requests are: in a service's own process, in a sidecar, or in a node for the counters that
//! other nodes lead.
//!
//! Invariant: whoever is asked for tokens is an [`Upstream`]; it may be a node at the other end of a [`NodeStream`], or a
//! cluster from within. Nothing here decides what an owner would decide otherwise, and nothing is asked twice under
//! two ids.

pub mod stream;
mod upstream;

pub use stream::NodeStream;
pub use upstream::{Answers, Away, Grant, NoGrant, Upstream, UpstreamAnswer, UpstreamAsk};
