//! Anything at all in: no panic, a documented status, and an answer of the documented kind.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::ConnectInfo;
use http::{HeaderValue, Method, Request, header::CONTENT_TYPE};
use leasehold_front::http::{HttpConfig, XRateLimit, client_routes};
use leasehold_limit::Decision;
use leasehold_limit::RetryAfter;
use leasehold_limit::check::{Answer, Outcome, Verdict};
use leasehold_model::Nanos;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::double::{BODY, Reply, admitting, answer, ask, json_request, send};
use crate::structured::list;

const PATHS: [&str; 9] = [
    "/v1/check",
    "/v1/peek",
    "/v1/reset",
    "/v1/authorize?domain=api",
    "/v1/authorize/x",
    "/livez",
    "/readyz",
    "/",
    "/nothing",
];

fn block<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(work)
}

/// JSON that is nearly a request: known fields with any values.
fn near_json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        any::<i64>().prop_map(|n| n.to_string()),
        any::<f64>().prop_map(|n| format!("{n:e}")),
        ".{0,12}".prop_map(|text| serde_json::to_string(&text).unwrap()),
    ];
    let name = prop_oneof![
        Just("domain"),
        Just("attributes"),
        Just("cost"),
        Just("descriptors"),
        Just("checks"),
        Just("request_id"),
        Just("rule"),
        Just("name"),
        Just("value"),
        Just("value_base64"),
        Just("x"),
    ];
    leaf.prop_recursive(4, 32, 5, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            vec((name.clone(), inner), 0..5).prop_map(|fields| {
                let fields: Vec<_> =
                    fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
                format!("{{{}}}", fields.join(","))
            }),
        ]
    })
}

/// Every answer has a status of the table, and every refusal is a problem.
fn documented(reply: &Reply) -> Result<(), TestCaseError> {
    let status = reply.status.as_u16();
    prop_assert!([200, 400, 404, 405, 413, 415].contains(&status), "{status}: {}", reply.body);
    if status != 200 {
        prop_assert_eq!(reply.header("content-type"), Some("application/problem+json"));
        prop_assert_eq!(&reply.json()["status"], status);
        prop_assert!(reply.json()["detail"].as_str().is_some_and(|detail| !detail.is_empty()));
    }
    if status == 400 {
        prop_assert!(reply.json()["field"].is_string(), "{}", reply.body);
    }
    Ok(())
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let numbers = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>());
    (numbers, any::<bool>(), any::<bool>()).prop_map(|((remaining, retry, reset, next), allowed, never)| {
        let retry = if never { RetryAfter::Never } else { RetryAfter::In(Nanos(retry)) };
        Outcome::Decided(Decision {
            allowed,
            granted: u64::from(allowed),
            remaining,
            retry_after: (!allowed).then_some(retry),
            reset_after: Nanos(reset),
            next_unit_after: Nanos(next),
            wait: None,
        })
    })
}

/// An answer over some of the enforced rules, with the verdict that follows.
fn any_answer() -> impl Strategy<Value = Answer> {
    let some = proptest::sample::subsequence(vec!["login", "daily", "burst", "queue", "closed"], 1..=5);
    some.prop_flat_map(|names| (Just(names.clone()), vec(outcome(), names.len()))).prop_map(
        |(names, outcomes)| {
            let matched: Vec<_> = names.into_iter().zip(outcomes).collect();
            let told = answer(Verdict::Allowed, &matched);
            let over = told.matched().any(|matched| matched.violated());
            Answer { verdict: if over { Verdict::OverLimit } else { Verdict::Allowed }, ..told }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn arbitrary_bytes_at_any_endpoint_get_a_documented_status(
        body in vec(any::<u8>(), 0..300),
        path in proptest::sample::select(&PATHS[..]),
        method in proptest::sample::select(&["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "BREW"][..]),
        json in any::<bool>(),
        header in vec(any::<u8>(), 0..40),
    ) {
        let (_, router) = admitting();
        let method: Method = method.parse().unwrap();
        let mut request = Request::builder().method(method.clone()).uri(path).body(Body::from(body)).unwrap();
        request.extensions_mut().insert(ConnectInfo(std::net::SocketAddr::from(([127, 0, 0, 1], 1))));
        if json {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Ok(value) = HeaderValue::from_bytes(&header) {
            for name in ["x-request-id", "x-forwarded-for", "x-original-uri", "x-original-method", "host"] {
                request.headers_mut().insert(name, value.clone());
            }
        }
        let reply = block(send(&router, request));
        if method != Method::HEAD {
            documented(&reply)?;
        }
    }

    #[test]
    fn nearly_right_json_gets_a_documented_status(
        body in near_json(),
        path in proptest::sample::select(&PATHS[..3]),
    ) {
        let (_, router) = admitting();
        documented(&block(send(&router, json_request(path, body))))?;
    }

    #[test]
    fn any_query_and_header_of_a_proxy_get_a_documented_status(
        query in "[ -~&&[^#\"<>\\\\^`{|} ]]{0,40}",
        uri in "[ -~]{0,40}",
    ) {
        let (_, router) = admitting();
        let target = format!("/v1/authorize?{query}");
        if let Ok(mut request) = Request::get(&target).body(Body::empty()) {
            request.headers_mut().insert("x-forwarded-uri", uri.parse().unwrap());
            documented(&block(send(&router, request)))?;
        }
    }

    #[test]
    fn rate_limit_fields_are_structured_lists_that_agree_with_retry_after(told in any_answer()) {
        let config = HttpConfig { x_rate_limit: XRateLimit::DeltaSeconds, ..HttpConfig::default() };
        let violated: Vec<_> =
            told.matched().filter(|m| m.violated()).map(|m| m.rule.name.to_string()).collect();
        let rules: Vec<_> = told.matched().map(|matched| matched.rule.name.to_string()).collect();
        let reply = block(ask(config, "/v1/check", BODY, told));

        let limits = list(reply.header("ratelimit").unwrap()).expect("RateLimit is a list");
        let policies = list(reply.header("ratelimit-policy").unwrap()).expect("RateLimit-Policy is a list");
        let names = |members: &[crate::structured::Member]| -> Vec<String> {
            members.iter().map(|member| member.name.clone()).collect()
        };
        prop_assert_eq!(&names(&limits), &rules);
        prop_assert_eq!(&names(&policies), &rules);
        for policy in &policies {
            prop_assert!(policy.parameter("q").is_some_and(|q| q >= 0));
            prop_assert!(policy.parameter("w").is_some_and(|w| w > 0));
        }
        let retry_after: Option<i64> = reply.header("retry-after").map(|value| value.parse().unwrap());
        prop_assert!(retry_after.is_none_or(|seconds| seconds >= 1));
        for limit in &limits {
            prop_assert!(limit.parameter("r").is_some_and(|r| r >= 0));
            if let (Some(t), Some(retry_after)) = (limit.parameter("t"), retry_after) {
                prop_assert!(t <= retry_after);
            }
        }
        prop_assert_eq!(reply.status == 429, !violated.is_empty());
        prop_assert!(reply.header("x-ratelimit-remaining").is_some());
    }

    #[test]
    fn a_refusal_without_retry_after_is_one_that_is_not_retryable(told in any_answer()) {
        let reply = block(ask(HttpConfig::default(), "/v1/check", BODY, told));
        if reply.status == 429 {
            prop_assert_eq!(reply.header("retry-after").is_none(), reply.json()["retryable"] == false);
            prop_assert_eq!(reply.header("retry-after").is_some(), reply.json()["retry_after_ms"].is_u64());
        }
    }
}

#[test]
fn no_answer_holds_an_attribute_of_the_request() {
    let secret = "s3cret-v4lue";
    let double = Arc::new(crate::double::Double::new(|_| Ok(answer(Verdict::Allowed, &[]))));
    let router = client_routes(double, HttpConfig::default());
    for body in [
        format!(r#"{{"domain":"api","attributes":{{"key":"{secret}"}}}}"#),
        format!(r#"{{"domain":"api","attributes":{{"key":"{secret}"}},"cost":-1}}"#),
        format!(r#"{{"domain":"api","attributes":{{"key":"{}"}}}}"#, secret.repeat(1000)),
        format!(r#"{{"domain":"api","attributes":["{secret}"]}}"#),
        format!(r#"{{"domain":"api","attributes":{{"key":"{secret}"}}"#),
    ] {
        let reply = block(send(&router, json_request("/v1/check", body)));
        assert!(!reply.body.contains(secret), "{}", reply.body);
    }
}
