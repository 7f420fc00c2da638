//! The gRPC services of `leasehold.v1`, with health and reflection, over a [`Decider`] and an [`Admin`].
//!
//! | what happened | answer | with `leasehold-status-errors: true` |
//! |---|---|---|
//! | allowed | OK, `VERDICT_ALLOWED` | the same |
//! | over the limit | OK, `VERDICT_OVER_LIMIT` | `RESOURCE_EXHAUSTED`, `RetryInfo` unless it can never be admitted |
//! | could not be asked, `on_unavailable: allow` | OK, `VERDICT_ALLOWED`, `degraded` | the same |
//! | could not be asked, `on_unavailable: deny` | OK, `VERDICT_UNAVAILABLE`, `degraded` | `UNAVAILABLE`, `RetryInfo` |
//! | a field is wrong | `INVALID_ARGUMENT`, `BadRequest` names the field | the same |
//! | the request id belongs to another request | `ALREADY_EXISTS` | the same |
//! | too much is going on | `UNAVAILABLE`, `RetryInfo` | the same |
//! | a reset where callers may not | `PERMISSION_DENIED` names the setting | the same |
//!
//! Overload is `UNAVAILABLE` so that nobody takes it for a limit. A caller's `grpc-timeout` is the decider's budget; one
//! that can't be read counts as absent.

mod admin;
mod health;
mod limiter;
mod metadata;
mod reflection;

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use http::{Request, Response};
use leasehold_wire::lease::REQUEST_BYTES_MAX;
use leasehold_wire::proto::envoy::service::ratelimit::v3::rate_limit_service_server;
use leasehold_wire::proto::leasehold::v1;
use leasehold_wire::proto::leasehold::v1::lease_service_server::{LeaseService, LeaseServiceServer};
use leasehold_wire::status;
use tonic::server::NamedService;
use tonic::{Code, Status};

pub use admin::{AdminService, admin_server};
pub use health::{HealthService, health_server};
pub use limiter::{LimiterService, limiter_server};
pub use metadata::budget;

use crate::rls::rls_server;
use crate::{Admin, CheckError, Decider};

/// Services that a client may ask about.
const CLIENT_SERVICES: [&str; 2] =
    [v1::limiter_server::SERVICE_NAME, rate_limit_service_server::SERVICE_NAME];
/// The same where tokens are lent.
const LENDING_SERVICES: [&str; 3] =
    [v1::limiter_server::SERVICE_NAME, rate_limit_service_server::SERVICE_NAME, LEASE_SERVICE];
/// The service that lends tokens. Its streams last as long as an edge, and have bounds of their own.
pub(crate) const LEASE_SERVICE: &str = v1::lease_service_server::SERVICE_NAME;
/// Services that an operator may ask about.
const ADMIN_SERVICES: [&str; 1] = [v1::admin_server::SERVICE_NAME];

/// Every gRPC service of the clients' port as routes. `reset`: whether callers may make counters fresh.
pub fn client_routes<D: Decider>(decider: &Arc<D>, reset: bool) -> Router {
    routes(decider, reset, &CLIENT_SERVICES)
}

/// The same, with a service that lends tokens.
pub fn lending_routes<D: Decider, L: LeaseService>(decider: &Arc<D>, reset: bool, leases: L) -> Router {
    let leases = LeaseServiceServer::new(leases).max_decoding_message_size(REQUEST_BYTES_MAX);
    add(routes(decider, reset, &LENDING_SERVICES), leases)
}

fn routes<D: Decider>(decider: &Arc<D>, reset: bool, services: &'static [&'static str]) -> Router {
    let router = add(Router::new(), limiter_server(Arc::clone(decider), reset));
    let router = add(router, rls_server(Arc::clone(decider)));
    let router = add(router, health_server(Arc::clone(decider), services));
    add(router, reflection::reflection_server(services))
}

/// Every gRPC service of the operators' port as routes.
pub fn admin_routes<A: Decider + Admin>(admin: &Arc<A>) -> Router {
    let router = add(Router::new(), admin_server(Arc::clone(admin)));
    let router = add(router, health_server(Arc::clone(admin), &ADMIN_SERVICES));
    add(router, reflection::reflection_server(&ADMIN_SERVICES))
}

/// Whether a path is a gRPC service's: `/package.Service/Method`. No other route has a dot before its second slash.
pub(crate) fn is_service(path: &str) -> bool {
    let mut parts = path.splitn(3, '/').skip(1);
    parts.next().is_some_and(|service| service.contains('.')) && parts.next().is_some()
}

fn add<S>(router: Router, service: S) -> Router
where
    S: NamedService
        + tower::Service<Request<Body>, Response = Response<tonic::body::Body>, Error = Infallible>
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
{
    router.route_service(&format!("/{}/{{*method}}", S::NAME), service)
}

/// The status of a check that was not decided; see the table of this module.
#[must_use]
pub fn check_status(error: &CheckError) -> Status {
    match error {
        CheckError::Invalid { field, message } => status::invalid(field, message),
        CheckError::RequestIdReused => Status::already_exists(error.to_string()),
        CheckError::Overloaded { retry_after, .. } => {
            status::with_retry(Code::Unavailable, &error.to_string(), *retry_after)
        }
    }
}
