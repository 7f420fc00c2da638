//! A `Decider` that answers what the test says and remembers what it was asked, and a client of the routes over it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use http::{Request as HttpRequest, StatusCode, header::CONTENT_TYPE};
use leasehold_front::http::{HttpConfig, client_routes};
use leasehold_front::{CheckError, Decider, Readiness, ResetTarget};
use leasehold_limit::check::{Answer, DescriptorAnswer, Outcome, Request, RuleAnswer, Source, Verdict};
use leasehold_limit::rules::{Rule, parse};
use leasehold_limit::{Decision, KeySecret, RetryAfter};
use leasehold_model::{Nanos, RequestId, RulesVersion};
use serde_json::Value;
use tower::ServiceExt;

/// Rules of the tests, by name.
const RULES: &str = "
domain: api
limits:
  - { name: login, limit: 5/min, algorithm: sliding_log }
  - { name: daily, limit: 1000/day, algorithm: fixed_window }
  - { name: burst, limit: 10/s, burst: 30 }
  - { name: queue, limit: 10/s, algorithm: shaper, queue: 20 }
  - { name: closed, limit: 5/min, on_unavailable: deny }
  - { name: tried, limit: 5/min, shadow: true }
";

pub(crate) fn rule(name: &str) -> Arc<Rule> {
    let domain = parse("api.yaml", RULES, &KeySecret::new([7; 16])).expect("the rules are right");
    domain.rules.into_iter().find(|rule| &*rule.name == name).expect("the rule is there")
}

pub(crate) const SECOND: u64 = 1_000_000_000;

/// An admitted ask: what remains, and when the counter is fresh and has another unit.
pub(crate) fn allowed(remaining: u64, reset_after: u64, next_unit_after: u64) -> Outcome {
    Outcome::Decided(Decision {
        allowed: true,
        granted: 1,
        remaining,
        retry_after: None,
        reset_after: Nanos(reset_after),
        next_unit_after: Nanos(next_unit_after),
        wait: None,
    })
}

/// A refused ask.
pub(crate) fn refused(remaining: u64, retry: RetryAfter, reset_after: u64, next_unit_after: u64) -> Outcome {
    Outcome::Decided(Decision {
        allowed: false,
        granted: 0,
        remaining,
        retry_after: Some(retry),
        reset_after: Nanos(reset_after),
        next_unit_after: Nanos(next_unit_after),
        wait: None,
    })
}

pub(crate) fn retry(nanos: u64) -> RetryAfter {
    RetryAfter::In(Nanos(nanos))
}

/// One descriptor's limits and what came of them.
pub(crate) fn descriptor(matched: &[(&str, Outcome)]) -> DescriptorAnswer {
    let matched = matched.iter().map(|(name, outcome)| {
        let rule = rule(name);
        RuleAnswer { limit: Arc::clone(&rule.limit), rule, outcome: *outcome, source: Source::Owner }
    });
    DescriptorAnswer { matched: matched.collect() }
}

pub(crate) fn answer(verdict: Verdict, matched: &[(&str, Outcome)]) -> Answer {
    let degraded = matched.iter().any(|(_, outcome)| *outcome == Outcome::Unavailable);
    Answer { verdict, descriptors: vec![descriptor(matched)], degraded, rules_version: RulesVersion(3) }
}

type Decide = Box<dyn Fn(&Request<'_>) -> Result<Answer, CheckError> + Send + Sync>;

/// Names and values in order.
pub(crate) type Attributes = Vec<(String, Vec<u8>)>;

/// What a front door handed over, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) domain: String,
    /// Attributes and cost of each descriptor.
    pub(crate) descriptors: Vec<(Attributes, u64)>,
    pub(crate) request_id: Option<RequestId>,
    pub(crate) budget: Option<Duration>,
}

pub(crate) struct Double {
    pub(crate) decide: Decide,
    pub(crate) readiness: Readiness,
    pub(crate) asked: Mutex<Vec<Asked>>,
    pub(crate) resets: Mutex<Vec<(String, usize, Option<String>)>>,
}

impl Double {
    pub(crate) fn new(
        decide: impl Fn(&Request<'_>) -> Result<Answer, CheckError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            decide: Box::new(decide),
            readiness: Readiness::Ready,
            asked: Mutex::default(),
            resets: Mutex::default(),
        }
    }
}

impl Decider for Double {
    async fn check(&self, request: &Request<'_>, budget: Option<Duration>) -> Result<Answer, CheckError> {
        let descriptors = request.descriptors.iter().map(|descriptor| {
            let attributes = descriptor.attributes.iter().map(|a| (a.name.to_owned(), a.value.to_vec()));
            (attributes.collect(), descriptor.cost)
        });
        self.asked.lock().unwrap().push(Asked {
            domain: request.domain.to_owned(),
            descriptors: descriptors.collect(),
            request_id: request.request_id,
            budget,
        });
        std::future::ready((self.decide)(request)).await
    }

    async fn reset(&self, target: ResetTarget<'_>) -> Result<u32, CheckError> {
        let rule = target.rule.map(str::to_owned);
        self.resets.lock().unwrap().push((target.domain.to_owned(), target.attributes.len(), rule));
        std::future::ready(Ok(2)).await
    }

    fn request_id(&self, domain: &str, text: &str) -> RequestId {
        let session =
            domain.bytes().chain(text.bytes()).fold(7_u128, |hash, byte| hash * 31 + u128::from(byte));
        RequestId { session, seq: 0 }
    }

    fn readiness(&self) -> Readiness {
        self.readiness.clone()
    }
}

/// A response, read to its end.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// Asserts a problem of this status about this field, and that it says what to do.
    #[track_caller]
    pub(crate) fn is_problem(&self, status: u16, field: &str) {
        assert_eq!(self.status.as_u16(), status, "{}", self.body);
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let problem = self.json();
        assert_eq!(problem["status"], status);
        assert_eq!(problem["field"].as_str().unwrap_or_default(), field, "{}", self.body);
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains(field)), "{}", self.body);
    }
}

pub(crate) async fn send(router: &Router, request: HttpRequest<Body>) -> Reply {
    let response = router.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    Reply { status: parts.status, headers: parts.headers, body: String::from_utf8(body.to_vec()).unwrap() }
}

pub(crate) fn json_request(path: &str, body: impl Into<Body>) -> HttpRequest<Body> {
    HttpRequest::post(path).header(CONTENT_TYPE, "application/json").body(body.into()).unwrap()
}

/// A body that every check of these tests could send.
pub(crate) const BODY: &str = r#"{"domain":"api","attributes":{"path":"/x"}}"#;

/// The reply to a check that the counters answer like this.
pub(crate) async fn check(verdict: Verdict, matched: &[(&str, Outcome)]) -> Reply {
    ask(HttpConfig::default(), "/v1/check", BODY, answer(verdict, matched)).await
}

pub(crate) async fn ask(config: HttpConfig, path: &str, body: &'static str, answer: Answer) -> Reply {
    let double = Arc::new(Double::new(move |_| Ok(answer.clone())));
    send(&client_routes(double, config), json_request(path, body)).await
}

/// A door that admits everything, with what it was asked.
pub(crate) fn admitting() -> (Arc<Double>, Router) {
    let double = Arc::new(Double::new(|_| Ok(answer(Verdict::Allowed, &[]))));
    let router = client_routes(Arc::clone(&double), HttpConfig::default());
    (double, router)
}
