//! Around every request: what a browser can't be made to send, a place among those in flight, a deadline, and who asks.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::extract::ConnectInfo;
use axum::response::IntoResponse;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body_util::Either;
use hyper::body::Incoming;
use leasehold_limit::check::RETRY_UNDECIDED;
use tokio::sync::Semaphore;
use tonic::Code;

use super::door::{Door, DoorBody};
use super::limits::ServerLimits;
use super::place::{Place, RequestBody};
use crate::grpc;
use crate::http::Problem;

/// Routes that answer even when no place is left: an orchestrator that hears nothing would end a process for being busy.
const PROBES: [&str; 2] = ["/livez", "/readyz"];

const SHED: &str = "too many requests are in flight; retry later";
const LATE: &str = "the request was not answered in time; retry later";

/// A door behind its guard.
pub(super) struct Guard<D> {
    door: D,
    in_flight: Arc<Semaphore>,
    request_timeout: Duration,
}

impl<D: Door> Guard<D> {
    pub(super) fn new(door: D, limits: &ServerLimits) -> Self {
        // The semaphore's own bound is far beyond any number of requests.
        let in_flight = Arc::new(Semaphore::new(limits.in_flight_max.min(Semaphore::MAX_PERMITS)));
        Self { door, in_flight, request_timeout: limits.request_timeout }
    }

    /// Answers one request: within its deadline, or with a status that says why not.
    pub(super) async fn answer(&self, request: Request<Incoming>, peer: SocketAddr) -> Response<DoorBody> {
        let trace = Trace::begin(&request);
        let response = self.admit(request, peer).await;
        trace.end(peer, response.status());
        response
    }

    async fn admit(&self, request: Request<Incoming>, peer: SocketAddr) -> Response<DoorBody> {
        let is_grpc = grpc::is_service(request.uri().path());
        if is_grpc && !speaks_grpc(&request) {
            return not_grpc();
        }
        let path = request.uri().path();
        let place = if PROBES.contains(&path) || is_lease_stream(path) {
            None
        } else if let Some(place) = Place::take(&self.in_flight) {
            Some(place)
        } else {
            return refuse(is_grpc, Code::Unavailable, SHED);
        };
        let mut request = request.map(|body| RequestBody::new(body, place.clone()));
        if !is_grpc {
            request.extensions_mut().insert(ConnectInfo(peer));
        }
        let answered = within(self.door.answer(request), self.request_timeout).await;
        match answered {
            _ if place.is_some_and(|place| place.is_shed()) => refuse(is_grpc, Code::Unavailable, SHED),
            Some(response) => response,
            None => refuse(is_grpc, Code::DeadlineExceeded, LATE),
        }
    }
}

/// Whether the request begins a stream of an edge: it lasts, and its service bounds what it may do.
fn is_lease_stream(path: &str) -> bool {
    path.strip_prefix('/')
        .and_then(|path| path.strip_prefix(grpc::LEASE_SERVICE))
        .is_some_and(|rest| rest.starts_with('/'))
}

/// Whether the request is one that a gRPC client sends. A page in a browser can have a `POST` of plain text sent to any
/// address without asking; this content type it can't.
fn speaks_grpc<B>(request: &Request<B>) -> bool {
    request.method() == Method::POST
        && request.version() == Version::HTTP_2
        && has_grpc_content(request.headers())
}

fn has_grpc_content(headers: &HeaderMap) -> bool {
    let sent = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    sent.strip_prefix(b"application/grpc")
        .is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}

/// What the future gives, if it does within `limit`. A future that is ready at once costs no timer.
async fn within<F: Future>(future: F, limit: Duration) -> Option<F::Output> {
    let mut future = pin!(future);
    if let Poll::Ready(output) = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
        return Some(output);
    }
    tokio::time::timeout(limit, future).await.ok()
}

fn refuse(is_grpc: bool, code: Code, message: &'static str) -> Response<DoorBody> {
    if is_grpc {
        return tonic::Status::new(code, message).into_http().map(Either::Left);
    }
    Problem::overloaded(message, RETRY_UNDECIDED).into_response().map(Either::Right)
}

fn not_grpc() -> Response<DoorBody> {
    let detail = "a gRPC service is here; send a POST over HTTP/2 with Content-Type: application/grpc";
    Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail).into_response().map(Either::Right)
}

/// A line for every request at the level that shows all. Its path may hold a caller's own values, as keys do.
struct Trace(Option<(Method, String)>);

impl Trace {
    fn begin(request: &Request<Incoming>) -> Self {
        let enabled = tracing::enabled!(tracing::Level::TRACE);
        Self(enabled.then(|| (request.method().clone(), request.uri().path().to_owned())))
    }

    fn end(self, peer: SocketAddr, status: StatusCode) {
        if let Self(Some((method, path))) = self {
            tracing::trace!(%peer, %method, path, status = status.as_u16(), "answered");
        }
    }
}
