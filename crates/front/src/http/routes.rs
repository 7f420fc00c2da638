//! Routes for callers: check, peek, reset, and whether the process serves.

use std::future::{self, Future, Ready};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, any, get, on};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use serde::ser::{Serialize, SerializeStruct, Serializer};
use tokio::time::Instant;
use tracing::Instrument;

use super::answer::{self, DecisionBody};
use super::authorize::{authorize, authorize_below};
use super::body;
use super::config::{HttpConfig, RESET_OFF};
use super::json::echo;
use super::problem::Problem;
use super::request::{self, Body, Check, Mode, Reset};
use crate::{CheckError, Decider, Readiness, ResetTarget, bounds};

/// What every route needs.
pub(super) struct Door<D> {
    pub(super) decider: Arc<D>,
    pub(super) config: HttpConfig,
}

pub(super) type Shared<D> = State<Arc<Door<D>>>;

/// Routes for callers and proxies. See [the module](crate::http) for statuses and headers.
pub fn client_routes<D: Decider>(decider: Arc<D>, config: HttpConfig) -> Router {
    Router::new()
        .route("/", get(index).fallback(get_only))
        .route("/livez", get(live).fallback(get_only))
        .route("/readyz", get(ready::<D>).fallback(get_only))
        .route("/v1/check", on(MethodFilter::POST, check::<D>).fallback(post_only))
        .route("/v1/peek", on(MethodFilter::POST, peek::<D>).fallback(post_only))
        .route("/v1/reset", on(MethodFilter::POST, reset::<D>).fallback(post_only))
        .route("/v1/authorize", any(authorize::<D>))
        .route("/v1/authorize/{*rest}", any(authorize_below::<D>))
        .fallback(not_found)
        .with_state(Arc::new(Door { decider, config }))
}

/// `POST /v1/check`.
async fn check<D: Decider>(State(door): Shared<D>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    named(&parts.headers, decide(&door, Mode::Check, &parts.headers, body)).await
}

/// `POST /v1/peek`.
async fn peek<D: Decider>(State(door): Shared<D>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    named(&parts.headers, decide(&door, Mode::Peek, &parts.headers, body)).await
}

/// `POST /v1/reset`.
async fn reset<D: Decider>(State(door): Shared<D>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    named(&parts.headers, make_fresh(&door, &parts.headers, body)).await
}

/// Does the work under the name that the caller gave the request, if any, and sends the name back.
pub(super) async fn named(
    headers: &HeaderMap,
    work: impl Future<Output = Result<Response, Problem>>,
) -> Response {
    let Some(id) = body::request_id(headers) else { return work.await.into_response() };
    let span = tracing::debug_span!("request", id = id.to_str().unwrap_or_default());
    let mut response = work.instrument(span).await.into_response();
    response.headers_mut().insert(body::REQUEST_ID, id.clone());
    response
}

async fn decide<D: Decider>(
    door: &Door<D>,
    mode: Mode,
    headers: &HeaderMap,
    body: axum::body::Body,
) -> Result<Response, Problem> {
    let budget = body::budget(headers)?;
    let key = body::idempotency_key(headers)?;
    let bytes = body::read_json(headers, body, door.config.batch_bytes_max).await?;
    match request::parse(&bytes, mode)? {
        Body::One(_) if bytes.len() > door.config.check_bytes_max => {
            Err(body::too_large(door.config.check_bytes_max))
        }
        Body::One(mut check) => {
            if let Some(key) = key {
                check.identify(key)?;
            }
            let request = check.request(&*door.decider)?;
            let answer = door.decider.check(&request, budget).await?;
            Ok(answer::respond(&answer, check.is_peek(), &door.config))
        }
        Body::Batch(_) if key.is_some() => Err(Problem::field(
            "Idempotency-Key",
            "it names one check; send request_id in each item of a batch",
        )),
        // Boxed, so that a single check's future doesn't carry its size.
        Body::Batch(checks) => Ok(json(&Box::pin(batch(door, checks, budget)).await)),
    }
}

/// Decides a batch, until its answer is full. Its items share the caller's deadline: each gets what is left when it begins.
async fn batch<D: Decider>(
    door: &Door<D>,
    checks: Vec<Result<Check<'_>, CheckError>>,
    budget: Option<Duration>,
) -> Batch {
    let deadline = budget.map(|budget| Instant::now() + budget);
    let items = checks.into_iter().map(|check| async move {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        item(door, check, left).await
    });
    let full = || Item::Refused(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, bounds::BATCH_FULL));
    let results = crate::batch::decide(items, Item::limits_told, full).await;
    Batch { results }
}

/// One item of a batch: what went wrong with it is its own answer.
async fn item<D: Decider>(
    door: &Door<D>,
    check: Result<Check<'_>, CheckError>,
    budget: Option<Duration>,
) -> Item {
    let decided = async {
        let check = check?;
        let request = check.request(&*door.decider)?;
        Ok::<_, CheckError>((door.decider.check(&request, budget).await?, check.is_peek()))
    };
    match decided.await {
        Ok((answer, is_peek)) => Item::Decided(answer, is_peek),
        Err(error) => Item::Refused(Problem::from(error)),
    }
}

/// Answer to a batch: `{"results": [...]}`, one for each check, in order, each with its own `status`.
struct Batch {
    results: Vec<Item>,
}

enum Item {
    Decided(leasehold_limit::check::Answer, bool),
    Refused(Problem),
}

impl Item {
    fn limits_told(&self) -> usize {
        match self {
            Self::Decided(answer, _) => answer.matched().count(),
            Self::Refused(_) => 0,
        }
    }
}

impl Serialize for Batch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut batch = serializer.serialize_struct("Batch", 1)?;
        batch.serialize_field("results", &self.results)?;
        batch.end()
    }
}

impl Serialize for Item {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Decided(answer, is_peek) => {
                DecisionBody { in_batch: true, ..DecisionBody::new(answer, *is_peek) }.serialize(serializer)
            }
            Self::Refused(problem) => problem.serialize(serializer),
        }
    }
}

async fn make_fresh<D: Decider>(
    door: &Door<D>,
    headers: &HeaderMap,
    body: axum::body::Body,
) -> Result<Response, Problem> {
    if !door.config.reset {
        return Err(Problem::new(StatusCode::FORBIDDEN, RESET_OFF));
    }
    let bytes = body::read_json(headers, body, door.config.check_bytes_max).await?;
    let reset = Reset::parse(&bytes)?;
    let attributes = reset.attributes();
    let target = ResetTarget { domain: &reset.domain, attributes: &attributes, rule: reset.rule.as_deref() };
    let count = door.decider.reset(target).await?;
    Ok(json(&serde_json::json!({ "reset": count })))
}

/// 200 with a JSON body.
pub(super) fn json(body: &impl Serialize) -> Response {
    let body = serde_json::to_vec(body).expect("answers have only text keys and write to memory");
    ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response()
}

const INDEX: &str = "\
leasehold: rate limits. This port answers callers and proxies.

POST /v1/check      decide one request, or a batch
POST /v1/peek       what a check would answer, without taking anything
POST /v1/reset      make counters fresh again
ANY  /v1/authorize  for nginx auth_request, Traefik ForwardAuth, Caddy forward_auth
GET  /livez, /readyz

curl -i http://HOST:PORT/v1/check -H 'content-type: application/json' \\
  -d '{\"domain\": \"DOMAIN\", \"attributes\": {\"NAME\": \"VALUE\"}, \"cost\": 1}'
";

fn index() -> Ready<&'static str> {
    future::ready(INDEX)
}

pub(super) fn live() -> Ready<&'static str> {
    future::ready("ok\n")
}

fn ready<D: Decider>(State(door): Shared<D>) -> Ready<Response> {
    future::ready(readiness(&*door.decider))
}

/// 200 or 503 with the reason in words.
pub(super) fn readiness<D: Decider>(decider: &D) -> Response {
    match decider.readiness() {
        Readiness::Ready => "ready\n".into_response(),
        Readiness::NotReady(reason) => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}\n")).into_response()
        }
    }
}

pub(super) fn get_only(method: Method) -> Ready<Problem> {
    future::ready(body::not_allowed(&method, "GET, HEAD"))
}

pub(super) fn post_only(method: Method) -> Ready<Problem> {
    future::ready(body::not_allowed(&method, "POST"))
}

pub(super) fn not_found(uri: Uri) -> Ready<Problem> {
    let detail = format!("nothing is served at {}; GET / lists what is", echo(uri.path()));
    future::ready(Problem::new(StatusCode::NOT_FOUND, detail))
}
