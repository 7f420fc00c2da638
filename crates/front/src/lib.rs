//! Front doors over a [`Decider`]: HTTP and JSON, gRPC, Envoy RLS, and the listener that bounds what comes in.
//!
//! A node and a sidecar offer the same doors, so the doors know neither: they turn bytes into checked requests and
//! answers into bytes. No decision is taken here.

mod admin;
mod batch;
pub mod bounds;
pub mod cluster;
pub mod grpc;
pub mod http;
pub mod leases;
pub mod rls;
mod serve;
#[cfg(test)]
mod testing;
pub mod top_keys;

pub use admin::{Admin, AdminError, DomainStatus, RulesStatus, Status};
pub use leasehold_decide::{CheckError, Decider, Readiness, ResetTarget};
pub use serve::{
    BodyError, ClientDoor, Connection, Door, DoorBody, Listener, RequestBody, ServerLimits, SocketError,
    SocketListener, admin_router, client_router, serve,
};
