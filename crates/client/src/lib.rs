//! What spends tokens where the requests are: in a service's own process, in a sidecar, or in a node for the counters that
//! other nodes lead.
//!
//! Invariant: whoever is asked for tokens is an [`Upstream`]; it may be a node at the other end of a [`NodeStream`], or a
//! cluster from within. Nothing here decides what an owner would decide otherwise, and nothing is asked twice under
//! two ids.

mod authority;
mod client;
mod clock;
mod counts;
mod handle;
mod holder;
pub mod layer;
mod set_aside;
pub mod stream;
mod upstream;

pub use authority::{AuthoritySettings, LeaseAuthority};
pub use client::{Client, Config, ConnectError};
pub use clock::{Clock, SystemClock};
pub use counts::Counts;
pub use handle::{AtOnce, Handle};
pub use stream::{KnownRules, NodeStream};
pub use upstream::{Answers, Away, Grant, NoGrant, Upstream, UpstreamAnswer, UpstreamAsk};
