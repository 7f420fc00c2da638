//! What callers send to the doors, and what operators write into rule files.

use std::cell::OnceCell;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::Request as HttpRequest;
use leasehold_front::http::{HttpConfig, client_routes};
use leasehold_front::{CheckError, Decider, Readiness, ResetTarget};
use leasehold_limit::check::{Answer, DescriptorAnswer, Request, Verdict};
use leasehold_limit::{KeySecret, rules};
use leasehold_model::{RequestId, RulesVersion};
use leasehold_wire::Message as _;
use leasehold_wire::proto::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use leasehold_wire::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use leasehold_wire::proto::envoy::service::ratelimit::v3::RateLimitRequest;
use leasehold_wire::rls;
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt as _;

use super::Target;

/// Envoy's rate limit request.
pub(super) const RLS: Target = Target { name: "rls", run: rate_limit, seeds: some_rate_limits };

/// Bodies of `/v1/check`, `/v1/peek` and `/v1/reset`: the first byte says of which.
pub(super) const HTTP: Target = Target { name: "http-json", run: body, seeds: some_bodies };

/// Rule files.
pub(super) const RULES: Target = Target { name: "rules-yaml", run: rule_file, seeds: some_rule_files };

fn rate_limit(bytes: &[u8]) {
    if let Ok(message) = RateLimitRequest::decode(bytes) {
        let _ = rls::request(&message);
    }
}

fn some_rate_limits() -> Vec<Vec<u8>> {
    let entry = |key: &str, value: &str| Entry { key: key.to_owned(), value: value.to_owned() };
    let entries = vec![entry("path", "/login"), entry("ip", "10.0.0.1")];
    let descriptor = RateLimitDescriptor { entries, ..RateLimitDescriptor::default() };
    let request =
        RateLimitRequest { domain: "api".to_owned(), descriptors: vec![descriptor], hits_addend: 2 };
    vec![request.encode_to_vec()]
}

/// Lets everything pass: what matters is how a request is read.
#[derive(Debug)]
struct Anything;

impl Decider for Anything {
    async fn check<'a>(
        &'a self,
        request: &'a Request<'a>,
        _: Option<Duration>,
    ) -> Result<Answer, CheckError> {
        let descriptors =
            request.descriptors.iter().map(|_| DescriptorAnswer { matched: Vec::new() }).collect();
        let verdict = Verdict::Allowed;
        Ok(Answer { verdict, descriptors, degraded: false, rules_version: RulesVersion(1) })
    }

    async fn reset<'a>(&'a self, target: ResetTarget<'a>) -> Result<u32, CheckError> {
        Ok(u32::from(target.rule.is_some()))
    }

    fn request_id(&self, _: &str, _: &str) -> RequestId {
        RequestId { session: 1, seq: 2 }
    }

    fn readiness(&self) -> Readiness {
        Readiness::Ready
    }
}

const PATHS: [&str; 3] = ["/v1/check", "/v1/peek", "/v1/reset"];

thread_local! {
    static DOOR: OnceCell<(Runtime, Router)> = const { OnceCell::new() };
}

fn body(bytes: &[u8]) {
    let Some((first, body)) = bytes.split_first() else { return };
    let path = PATHS[usize::from(*first) % PATHS.len()];
    let request = HttpRequest::post(path)
        .header("content-type", "application/json")
        .body(Body::from(body.to_vec()))
        .expect("path and header are sound");
    DOOR.with(|door| {
        let (runtime, routes) = door.get_or_init(|| {
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime starts");
            (runtime, client_routes(Arc::new(Anything), HttpConfig::default()))
        });
        let answer = runtime.block_on(routes.clone().oneshot(request));
        answer.expect("a router always answers");
    });
}

fn some_bodies() -> Vec<Vec<u8>> {
    let check = br#"0{"domain":"api","attributes":{"ip":"10.0.0.1","path":"/x"},"cost":2,"request_id":"r"}"#;
    let peek = br#"1{"domain":"api","attributes":{"ip":{"base64":"AAEC"}}}"#;
    let reset = br#"2{"domain":"api","attributes":{"ip":"10.0.0.1"},"rule":"login"}"#;
    vec![check.to_vec(), peek.to_vec(), reset.to_vec(), b"0{\"domain\":\"\\u00e4\\ud83d\\ude00\"}".to_vec()]
}

fn rule_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = rules::parse("rules", text, &KeySecret::new([1; 16]));
    let _ = rules::rate::parse(text);
    let _ = rules::rate::parse_duration(text);
}

fn some_rule_files() -> Vec<Vec<u8>> {
    let text = "domain: api\nlimits:\n  - name: login\n    when: { path: /login*, ip: { cidr: 10.0.0.0/8 } }\n    per: [ip]\n    \
                limit: 5/min\n    algorithm: sliding_log\n    lease: never\n    on_unavailable: deny\n  - { name: all, limit: \
                6000/hour, burst: 200, max_overshoot: 0.1, on_unavailable: local, local_share: 0.2, edges: 4 }\noverrides:\n  \
                - { limit: login, values: [acme], set: { limit: 100000/hour } }\n";
    let calendar = "domain: b\nlimits: [{ name: q, limit: 10/month, algorithm: fixed_window, timezone: Europe/Berlin }]\n";
    vec![text.as_bytes().to_vec(), calendar.as_bytes().to_vec(), b"15/90s".to_vec(), b"2h30m".to_vec()]
}
