//! What answers at a port: routes, with a short way past them for what is asked most.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use http::{Request, Response};
use http_body_util::Either;
use leasehold_wire::proto::envoy::service::ratelimit::v3::rate_limit_service_server::RateLimitServiceServer;
use leasehold_wire::proto::leasehold::v1::lease_service_server::LeaseService;
use leasehold_wire::proto::leasehold::v1::limiter_server::LimiterServer;
use tower::{Service, ServiceExt};

use super::place::RequestBody;
use crate::grpc::{LimiterService, limiter_server};
use crate::http::HttpConfig;
use crate::rls::{RlsService, rls_server};
use crate::{Admin, Decider, grpc, http as json};

const RLS_PATHS: &str = "/envoy.service.ratelimit.v3.RateLimitService/";
const LIMITER_PATHS: &str = "/leasehold.v1.Limiter/";

/// Body of a response: a gRPC service's own, or a route's.
pub type DoorBody = Either<tonic::body::Body, axum::body::Body>;

/// What answers the requests of a port. It always answers: what goes wrong is a status.
pub trait Door: Send + Sync + 'static {
    /// Answers one request.
    fn answer(&self, request: Request<RequestBody>) -> impl Future<Output = Response<DoorBody>> + Send;
}

impl Door for Router {
    async fn answer(&self, request: Request<RequestBody>) -> Response<DoorBody> {
        always(self.clone().oneshot(request).await).map(Either::Right)
    }
}

/// The clients' port: [`client_router`], with checks over gRPC answered without a walk through the routes.
pub struct ClientDoor<D> {
    rls: RateLimitServiceServer<RlsService<D>>,
    limiter: LimiterServer<LimiterService<D>>,
    router: Router,
}

impl<D: Decider> ClientDoor<D> {
    /// Over this decider.
    pub fn new(decider: Arc<D>, http: HttpConfig) -> Self {
        let router = client_router(Arc::clone(&decider), http.clone());
        Self::over(decider, &http, router)
    }

    /// Over this decider, with a service that lends tokens to edges.
    pub fn lending<L: LeaseService>(decider: Arc<D>, http: HttpConfig, leases: L) -> Self {
        let grpc = grpc::lending_routes(&decider, http.reset, leases);
        let router = grpc.merge(json::client_routes(Arc::clone(&decider), http.clone()));
        Self::over(decider, &http, router)
    }

    fn over(decider: Arc<D>, http: &HttpConfig, router: Router) -> Self {
        Self { rls: rls_server(Arc::clone(&decider)), limiter: limiter_server(decider, http.reset), router }
    }
}

impl<D: Decider> Door for ClientDoor<D> {
    async fn answer(&self, request: Request<RequestBody>) -> Response<DoorBody> {
        let path = request.uri().path();
        if path.starts_with(RLS_PATHS) {
            always(self.rls.clone().call(request).await).map(Either::Left)
        } else if path.starts_with(LIMITER_PATHS) {
            always(self.limiter.clone().call(request).await).map(Either::Left)
        } else {
            self.router.answer(request).await
        }
    }
}

/// Every route of the clients' port: HTTP and JSON, `leasehold.v1.Limiter`, Envoy's rate limit service, health, reflection.
pub fn client_router<D: Decider>(decider: Arc<D>, http: HttpConfig) -> Router {
    grpc::client_routes(&decider, http.reset).merge(json::client_routes(decider, http))
}

/// Every route of the operators' port: HTTP and JSON, metrics, `leasehold.v1.Admin`, health, reflection. What a browser
/// sends for another site's page is refused.
pub fn admin_router<A: Decider + Admin>(admin: Arc<A>) -> Router {
    let routes = grpc::admin_routes(&admin).merge(json::admin_routes(admin));
    routes.layer(axum::middleware::from_fn(json::refuse_other_sites))
}

fn always<T>(answered: Result<T, Infallible>) -> T {
    match answered {
        Ok(response) => response,
        Err(never) => match never {},
    }
}
