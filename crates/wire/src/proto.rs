//! The generated messages, clients and servers, one module for each protobuf package. Not written by hand.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::disallowed_methods,
    clippy::wildcard_enum_match_arm,
    reason = "generated code"
)]

include!(concat!(env!("OUT_DIR"), "/proto.rs"));

/// The descriptors of every `.proto` of this crate and of what they import, encoded: what gRPC reflection serves.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
