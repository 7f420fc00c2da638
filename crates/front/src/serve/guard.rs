//! Around every request: a place among those in flight, a deadline, and who asks.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use axum::extract::ConnectInfo;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use tokio::sync::Semaphore;
use tonic::Code;

use super::door::{Door, DoorBody};
use super::limits::ServerLimits;

/// A door behind its guard.
pub(super) struct Guard<D> {
    door: D,
    in_flight: Semaphore,
    request_timeout: Duration,
}

/// A response of the door, or of the guard.
type Guarded = Response<Either<DoorBody, Full<Bytes>>>;

impl<D: Door> Guard<D> {
    pub(super) fn new(door: D, limits: &ServerLimits) -> Self {
        // The semaphore's own bound is far beyond any number of requests.
        let in_flight = Semaphore::new(limits.in_flight_max.min(Semaphore::MAX_PERMITS));
        Self { door, in_flight, request_timeout: limits.request_timeout }
    }

    /// Answers one request: within its deadline, or with a status that says why not.
    pub(super) async fn answer(&self, mut request: Request<Incoming>, peer: SocketAddr) -> Guarded {
        let is_grpc = is_grpc(request.headers());
        let Ok(_place) = self.in_flight.try_acquire() else {
            return refuse(is_grpc, Code::Unavailable, "too many requests are in flight; retry later");
        };
        if !is_grpc {
            request.extensions_mut().insert(ConnectInfo(peer));
        }
        match within(self.door.answer(request), self.request_timeout).await {
            Some(response) => response.map(Either::Left),
            None => {
                refuse(is_grpc, Code::DeadlineExceeded, "the request was not answered in time; retry later")
            }
        }
    }
}

/// What the future gives, if it does within `limit`. A future that is ready at once costs no timer.
async fn within<F: Future>(future: F, limit: Duration) -> Option<F::Output> {
    let mut future = pin!(future);
    if let Poll::Ready(output) = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
        return Some(output);
    }
    tokio::time::timeout(limit, future).await.ok()
}

fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

fn refuse(is_grpc: bool, code: Code, message: &'static str) -> Guarded {
    if is_grpc {
        return tonic::Status::new(code, message).into_http::<Full<Bytes>>().map(Either::Right);
    }
    let problem = serde_json::json!({ "title": "Service Unavailable", "status": 503, "detail": message });
    let mut response = Response::new(Either::Right(Full::from(problem.to_string())));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}
