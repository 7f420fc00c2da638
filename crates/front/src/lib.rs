//! Front doors over a [`Decider`]: HTTP and JSON, gRPC, Envoy RLS, and the listener that bounds what comes in.
//!
//! A node and a sidecar offer the same doors, so the doors know neither: they turn bytes into checked requests and
//! answers into bytes. No decision is taken here.

mod batch;
pub mod bounds;
pub mod cluster;
mod decider;
pub mod grpc;
pub mod http;
pub mod rls;
mod serve;
#[cfg(test)]
mod testing;

pub use decider::{
    Admin, AdminError, CheckError, Decider, DomainStatus, Readiness, ResetTarget, RulesStatus, Status,
};
pub use serve::{
    BodyError, ClientDoor, Door, DoorBody, RequestBody, ServerLimits, admin_router, client_router, serve,
};
