//! What the HTTP door costs: a check through its routes, beside the same routes' plainest handler.
//!
//! No socket and no counter: the difference is JSON in, headers and JSON out.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::post;
use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use http::Request;
use leasehold_front::http::{HttpConfig, client_routes};
use leasehold_front::{CheckError, Decider, Readiness, ResetTarget};
use leasehold_limit::check::{Answer, DescriptorAnswer, Outcome, RuleAnswer, Source, Verdict};
use leasehold_limit::rules::parse;
use leasehold_limit::{Decision, KeySecret};
use leasehold_model::{Nanos, RequestId, RulesVersion};
use tower::ServiceExt;

const RULES: &str = "domain: api\nlimits:\n  - { name: per-user, per: [user], limit: 100/s, burst: 200 }\n";
const BODY: &str = r#"{"domain":"api","attributes":{"path":"/v1/orders","user":"u-4711"},"cost":1}"#;

/// Admits everything under one rule.
struct Admitting(Answer);

impl Decider for Admitting {
    async fn check(
        &self,
        _: &leasehold_limit::check::Request<'_>,
        _: Option<Duration>,
    ) -> Result<Answer, CheckError> {
        std::future::ready(Ok(self.0.clone())).await
    }

    async fn reset(&self, _: ResetTarget<'_>) -> Result<u32, CheckError> {
        std::future::ready(Ok(0)).await
    }

    fn request_id(&self, _: &str, _: &str) -> RequestId {
        RequestId { session: 0, seq: 0 }
    }

    fn readiness(&self) -> Readiness {
        Readiness::Ready
    }
}

fn admitting() -> Admitting {
    let domain = parse("api.yaml", RULES, &KeySecret::new([7; 16])).expect("the rules are right");
    let rule = Arc::clone(&domain.rules[0]);
    let decision = Decision {
        allowed: true,
        granted: 1,
        remaining: 199,
        retry_after: None,
        reset_after: Nanos(10_000_000),
        next_unit_after: Nanos::ZERO,
        wait: None,
    };
    let matched = vec![RuleAnswer {
        limit: Arc::clone(&rule.limit),
        rule,
        outcome: Outcome::Decided(decision),
        source: Source::Owner,
    }];
    Admitting(Answer {
        verdict: Verdict::Allowed,
        descriptors: vec![DescriptorAnswer { matched }],
        degraded: false,
        rules_version: RulesVersion(1),
    })
}

async fn once(router: &Router, path: &'static str) -> Bytes {
    let request = Request::post(path).header("content-type", "application/json");
    let request = request.header("host", "localhost").body(Body::from(BODY)).expect("the request is right");
    let response = router.clone().oneshot(request).await.expect("a router always answers");
    assert_eq!(response.status(), 200);
    http_body_util::BodyExt::collect(response.into_body()).await.expect("the body is in memory").to_bytes()
}

fn doors(criterion: &mut Criterion) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime starts");
    let empty = Router::new().route("/empty", post(|body: Bytes| async move { body }));
    let door = client_routes(Arc::new(admitting()), HttpConfig::default());
    let mut group = criterion.benchmark_group("http");
    for (name, router, path) in [
        ("empty axum handler", &empty, "/empty"),
        ("check", &door, "/v1/check"),
        ("authorize", &door, "/v1/authorize?domain=api"),
    ] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| runtime.block_on(async { black_box(once(router, path).await) }));
        });
    }
    group.finish();
}

criterion_group!(benches, doors);
criterion_main!(benches);
