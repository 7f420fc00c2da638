//! Protobuf and gRPC types, with checked conversions both ways.
//!
//! Invariant: what arrives is checked here once and becomes a type of the pure crates; nothing that arrives can panic.
//! No decision is taken here.

pub mod check;
pub mod control;
pub mod duration;
pub mod entry;
mod envelope;
pub mod lease;
pub mod limit;
pub mod part;
pub mod peer;
pub mod proto;
pub mod raft;
mod reply;
pub mod rls;
pub mod snapshot;
pub mod status;
#[cfg(test)]
mod testing;

/// Encodes and decodes the messages of [`proto`], for callers that bring their own transport.
pub use prost::Message;
