//! Limits in front of a service: a `tower` layer for axum, tonic and anything else over `http`.
//!
//! | answer | HTTP | gRPC (by the request's content type) |
//! |---|---|---|
//! | allowed, or nothing to count | the service's response, with `RateLimit` headers | the same |
//! | over the limit | 429, `Retry-After` | `RESOURCE_EXHAUSTED` |
//! | undecided, declared `deny` | 503, `Retry-After` | `UNAVAILABLE` |
//! | too much is going on | 503, `Retry-After` | `UNAVAILABLE` |
//! | attributes that are none | 400 | `INVALID_ARGUMENT` |
//!
//! A refusal has no body: what there is to say is in its headers. A shaper's wait is waited for before the service is called.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use leasehold_decide::headers::{self, RateLimitFields, XRateLimit};
use leasehold_decide::{CheckError, Decider, bounds};
use leasehold_limit::check::{self, Answer, Attribute, Descriptor, RuleAnswer, Verdict};
use tower_layer::Layer;
use tower_service::Service;

const GRPC: &str = "application/grpc";
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const INVALID_ARGUMENT: u8 = 3;
const RESOURCE_EXHAUSTED: u8 = 8;
const UNAVAILABLE: u8 = 14;

/// What a request is counted by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    named: Vec<(&'static str, Vec<u8>)>,
    cost: u64,
}

impl Attributes {
    /// None yet, at a cost of one unit.
    #[must_use]
    pub const fn new() -> Self {
        Self { named: Vec::new(), cost: 1 }
    }

    /// With another, under the name that rules give it.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl AsRef<[u8]>) -> Self {
        self.named.push((name, value.as_ref().to_vec()));
        self
    }

    /// With a header's value, if the request has it.
    #[must_use]
    pub fn with_header(self, name: &'static str, headers: &HeaderMap, header: &str) -> Self {
        match headers.get(header) {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// At so many units.
    #[must_use]
    pub const fn at_cost(mut self, cost: u64) -> Self {
        self.cost = cost;
        self
    }
}

impl Default for Attributes {
    fn default() -> Self {
        Self::new()
    }
}

/// Puts limits in front of services. `D` decides: a [`Client`](crate::Client); `F` says what a request is counted by,
/// `None`: by nothing.
#[derive(Clone)]
pub struct RateLimitLayer<D, F> {
    decider: D,
    domain: Arc<str>,
    attributes: F,
}

impl<D, F> RateLimitLayer<D, F> {
    /// By the rules of `domain`.
    pub fn new(decider: D, domain: impl Into<Arc<str>>, attributes: F) -> Self {
        Self { decider, domain: domain.into(), attributes }
    }
}

impl<D, F> fmt::Debug for RateLimitLayer<D, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayer").field("domain", &self.domain).finish_non_exhaustive()
    }
}

impl<S, D: Clone, F: Clone> Layer<S> for RateLimitLayer<D, F> {
    type Service = RateLimit<S, D, F>;

    fn layer(&self, inner: S) -> Self::Service {
        RateLimit { inner, limits: self.clone() }
    }
}

/// A service behind limits.
#[derive(Clone, Debug)]
pub struct RateLimit<S, D, F> {
    inner: S,
    limits: RateLimitLayer<D, F>,
}

impl<S, D, F, B, R> Service<Request<B>> for RateLimit<S, D, F>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    D: Decider + Clone,
    F: Fn(&Request<B>) -> Option<Attributes>,
    B: Send + 'static,
    R: Default,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The one that is ready is called; the clone takes its place.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let Some(attributes) = (self.limits.attributes)(&request) else {
            return Box::pin(inner.call(request));
        };
        let (decider, domain) = (self.limits.decider.clone(), Arc::clone(&self.limits.domain));
        Box::pin(async move {
            let answer = match decide(&decider, &domain, &attributes).await {
                Ok(answer) if answer.verdict == Verdict::Allowed => answer,
                Ok(answer) => return Ok(refusal(&request, &answer)),
                Err(error) => return Ok(failure(&request, &error)),
            };
            if let Some(wait) = wait(&answer) {
                tokio::time::sleep(wait).await;
            }
            let mut response = inner.call(request).await?;
            insert(&answer, response.headers_mut());
            Ok(response)
        })
    }
}

async fn decide(decider: &impl Decider, domain: &str, attributes: &Attributes) -> Result<Answer, CheckError> {
    let Attributes { named, cost } = attributes;
    let attributes: Vec<_> = named.iter().map(|(name, value)| Attribute { name, value }).collect();
    bounds::domain(domain)?;
    bounds::attributes("attributes", &attributes)?;
    let descriptor = Descriptor { attributes, cost: *cost, limit_override: None };
    let request = check::Request { domain, descriptors: vec![descriptor], request_id: None };
    decider.check(&request, None).await
}

/// How long an admitted request waits for its turn: the longest of all shapers.
fn wait(answer: &Answer) -> Option<Duration> {
    let enforced = answer.matched().filter(|matched| !matched.rule.shadow);
    let longest = enforced.filter_map(RuleAnswer::decision).filter_map(|decision| decision.wait).max();
    longest.map(|wait| Duration::from_nanos(wait.0))
}

fn insert(answer: &Answer, headers: &mut HeaderMap) {
    headers::insert(answer, RateLimitFields::Draft11, &XRateLimit::Off, headers);
}

fn refusal<B, R: Default>(request: &Request<B>, answer: &Answer) -> Response<R> {
    let (code, message) = match answer.verdict {
        Verdict::Unavailable => (UNAVAILABLE, "the limit can't be decided for now"),
        Verdict::Allowed | Verdict::OverLimit => (RESOURCE_EXHAUSTED, "over the limit"),
    };
    let mut response = empty(request, headers::status(answer.verdict), code, message);
    insert(answer, response.headers_mut());
    response
}

fn failure<B, R: Default>(request: &Request<B>, error: &CheckError) -> Response<R> {
    match error {
        CheckError::Overloaded { retry_after, .. } => {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            let mut response = empty(request, status, UNAVAILABLE, "too much is going on");
            headers::insert_retry_after(response.headers_mut(), *retry_after);
            response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
            response
        }
        CheckError::Invalid { .. } | CheckError::RequestIdReused => {
            tracing::debug!(%error, "a request's attributes are none");
            empty(
                request,
                StatusCode::BAD_REQUEST,
                INVALID_ARGUMENT,
                "what the request is counted by is malformed",
            )
        }
    }
}

/// A response without a body: of HTTP a status, of gRPC a call that ends with its headers.
fn empty<B, R: Default>(
    request: &Request<B>,
    status: StatusCode,
    code: u8,
    message: &'static str,
) -> Response<R> {
    let mut response = Response::new(R::default());
    let content_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if content_type.is_some_and(|value| value.starts_with(GRPC)) {
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(GRPC));
        headers.insert(GRPC_STATUS, HeaderValue::from(u16::from(code)));
        headers.insert(GRPC_MESSAGE, HeaderValue::from_static(message));
    } else {
        *response.status_mut() = status;
    }
    response
}
