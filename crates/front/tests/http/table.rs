//! The table of answers: one test a row, with the exact headers.

use std::sync::Arc;

use http::StatusCode;
use leasehold_front::http::{HttpConfig, RateLimitFields, XRateLimit};
use leasehold_limit::RetryAfter;
use leasehold_limit::check::{Answer, Outcome, Verdict};
use leasehold_model::RulesVersion;
use serde_json::json;

use crate::double::{BODY, Reply, SECOND, allowed, answer, ask, check, descriptor, refused, retry};

const PEEK: &str = r#"{"domain":"api","attributes":{"path":"/x"},"cost":0}"#;

/// Asserts that no limit is told.
#[track_caller]
fn tells_no_limit(reply: &Reply) {
    for name in ["ratelimit", "ratelimit-policy", "retry-after", "x-ratelimit-limit"] {
        assert_eq!(reply.header(name), None, "{name}");
    }
}

#[track_caller]
fn headers(reply: &Reply, policy: &str, limit: &str, retry_after: Option<&str>) {
    assert_eq!(reply.header("ratelimit-policy"), Some(policy));
    assert_eq!(reply.header("ratelimit"), Some(limit));
    assert_eq!(reply.header("retry-after"), retry_after);
}

#[tokio::test]
async fn allowed_is_200_with_what_is_left_and_when_it_is_full_again() {
    let reply = check(Verdict::Allowed, &[("login", allowed(4, 60 * SECOND, 0))]).await;
    assert_eq!(reply.status, StatusCode::OK);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    headers(&reply, r#""login";q=5;w=60"#, r#""login";r=4;t=60"#, None);
    assert_eq!(
        reply.json(),
        json!({
            "verdict": "allowed", "allowed": true,
            "matched": [{
                "rule": "login", "limit": "5/min", "algorithm": "sliding_log", "n": 5, "period_ns": 60_000_000_000_u64,
                "allowed": true, "source": "owner", "remaining": 4, "reset_after_ms": 60_000,
            }],
            "shadow_denied": [], "degraded": false, "rules_version": 3,
        })
    );
}

#[tokio::test]
async fn the_last_unit_tells_when_the_next_one_comes_rounded_up() {
    let reply = check(Verdict::Allowed, &[("login", allowed(0, 60 * SECOND, 11 * SECOND + 1))]).await;
    headers(&reply, r#""login";q=5;w=60"#, r#""login";r=0;t=12"#, None);
}

#[tokio::test]
async fn over_the_limit_is_429_with_a_problem_that_no_cache_keeps() {
    let outcome = refused(0, retry(11 * SECOND + 1), 60 * SECOND, 11 * SECOND + 1);
    let reply = check(Verdict::OverLimit, &[("login", outcome)]).await;
    assert_eq!(reply.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    assert_eq!(reply.header("content-type"), Some("application/problem+json"));
    headers(&reply, r#""login";q=5;w=60"#, r#""login";r=0;t=12"#, Some("12"));
    let body = reply.json();
    assert_eq!(body["type"], "https://iana.org/assignments/http-problem-types#quota-exceeded");
    assert_eq!((&body["status"], &body["retry_after_ms"]), (&json!(429), &json!(11_001)));
    assert_eq!(body["violated-policies"], json!(["login"]));
    assert_eq!(body["detail"], "over the limit of login; retry in 11001 ms");
    assert_eq!((&body["verdict"], &body["allowed"]), (&json!("over_limit"), &json!(false)));
    assert_eq!(body["matched"][0]["retry_after_ns"], 11 * SECOND + 1);
}

#[tokio::test]
async fn an_exact_second_is_not_inflated_and_less_than_one_is_one() {
    for (nanos, header) in [(2 * SECOND, "2"), (1, "1"), (0, "1")] {
        let outcome = refused(0, retry(nanos), 60 * SECOND, nanos);
        let reply = check(Verdict::OverLimit, &[("login", outcome)]).await;
        assert_eq!(reply.header("retry-after"), Some(header), "{nanos} ns");
    }
}

#[tokio::test]
async fn a_refused_request_that_fits_sooner_than_the_counter_is_full_never_has_t_beyond_retry_after() {
    let outcome = refused(3, retry(2 * SECOND), 60 * SECOND, 0);
    let reply = check(Verdict::OverLimit, &[("login", outcome)]).await;
    headers(&reply, r#""login";q=5;w=60"#, r#""login";r=3;t=2"#, Some("2"));
}

#[tokio::test]
async fn a_cost_above_the_cap_is_429_without_retry_after_and_names_the_largest_cost() {
    let reply = check(Verdict::OverLimit, &[("login", refused(4, RetryAfter::Never, 30 * SECOND, 0))]).await;
    assert_eq!(reply.status, StatusCode::TOO_MANY_REQUESTS);
    headers(&reply, r#""login";q=5;w=60"#, r#""login";r=4;t=30"#, None);
    let body = reply.json();
    assert_eq!((&body["retryable"], &body["max_cost"]), (&json!(false), &json!(5)));
    assert_eq!(body["retry_after_ms"], json!(null));
}

#[tokio::test]
async fn several_limits_are_all_told_and_the_longest_wait_counts() {
    let reply = check(
        Verdict::OverLimit,
        &[
            ("login", refused(0, retry(12 * SECOND), 60 * SECOND, 12 * SECOND)),
            ("daily", refused(0, retry(3600 * SECOND), 3600 * SECOND, 3600 * SECOND)),
            ("burst", allowed(29, SECOND / 10, 0)),
        ],
    )
    .await;
    headers(
        &reply,
        r#""login";q=5;w=60, "daily";q=1000;w=86400, "burst";q=30;w=3"#,
        r#""login";r=0;t=12, "daily";r=0;t=3600, "burst";r=29;t=1"#,
        Some("3600"),
    );
    assert_eq!(reply.json()["violated-policies"], json!(["login", "daily"]));
    assert_eq!(reply.json()["retry_after_ms"], 3_600_000);
}

#[tokio::test]
async fn no_limit_tells_of_a_time_past_the_retry() {
    let waits = [("login", refused(0, retry(2 * SECOND), 60 * SECOND, 2 * SECOND))];
    let full_later = [("daily", allowed(9, 3600 * SECOND, 0))];
    let reply = check(Verdict::OverLimit, &[waits, full_later].concat()).await;
    let told = r#""login";r=0;t=2, "daily";r=9;t=2"#;
    headers(&reply, r#""login";q=5;w=60, "daily";q=1000;w=86400"#, told, Some("2"));
}

#[tokio::test]
async fn one_limit_that_can_never_be_met_makes_the_whole_never() {
    let reply = check(
        Verdict::OverLimit,
        &[
            ("login", refused(4, RetryAfter::Never, 30 * SECOND, 0)),
            ("daily", refused(0, retry(3600 * SECOND), 3600 * SECOND, 3600 * SECOND)),
        ],
    )
    .await;
    assert_eq!(reply.header("retry-after"), None);
    assert_eq!((&reply.json()["retryable"], &reply.json()["max_cost"]), (&json!(false), &json!(5)));
}

#[tokio::test]
async fn declared_fail_open_is_200_marked_degraded() {
    let reply = check(Verdict::Allowed, &[("login", Outcome::Unavailable)]).await;
    assert_eq!(reply.status, StatusCode::OK);
    tells_no_limit(&reply);
    assert_eq!(reply.header("x-leasehold-degraded"), Some("true"));
    let body = reply.json();
    assert_eq!((&body["degraded"], &body["allowed"]), (&json!(true), &json!(true)));
    assert_eq!(body["matched"][0]["outcome"], "unavailable");
    assert_eq!(body["matched"][0]["on_unavailable"], "allow");
}

#[tokio::test]
async fn declared_fail_closed_is_503_with_retry_after() {
    let reply = check(Verdict::Unavailable, &[("closed", Outcome::Unavailable)]).await;
    assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(reply.header("retry-after"), Some("1"));
    assert_eq!(reply.header("x-leasehold-degraded"), Some("true"));
    assert_eq!(reply.header("ratelimit"), None);
    let body = reply.json();
    assert_eq!(body["type"], "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity");
    assert_eq!((&body["status"], &body["verdict"]), (&json!(503), &json!("unavailable")));
    assert_eq!(body["violated-policies"], json!(["closed"]));
}

#[tokio::test]
async fn a_shadow_rule_never_refuses_and_appears_only_in_the_body() {
    let outcome = refused(0, retry(12 * SECOND), 60 * SECOND, 12 * SECOND);
    let reply = check(Verdict::Allowed, &[("tried", outcome)]).await;
    assert_eq!(reply.status, StatusCode::OK);
    tells_no_limit(&reply);
    assert_eq!(reply.json()["shadow_denied"], json!(["tried"]));
    assert_eq!(reply.json()["matched"][0]["shadow"], true);
}

#[tokio::test]
async fn no_rule_is_200_without_headers() {
    let reply = check(Verdict::Allowed, &[]).await;
    assert_eq!(reply.status, StatusCode::OK);
    tells_no_limit(&reply);
    assert_eq!(reply.json()["matched"], json!([]));
}

#[tokio::test]
async fn a_peek_says_what_one_unit_would_get() {
    for (path, body) in [("/v1/peek", BODY), ("/v1/check", PEEK)] {
        let told = answer(Verdict::Allowed, &[("login", allowed(5, 0, 0))]);
        let reply = ask(HttpConfig::default(), path, body, told).await;
        assert_eq!((reply.status, &reply.json()["would_allow"]), (StatusCode::OK, &json!(true)));
        headers(&reply, r#""login";q=5;w=60"#, r#""login";r=5;t=0"#, None);

        let over = refused(0, retry(12 * SECOND), 60 * SECOND, 12 * SECOND);
        let reply =
            ask(HttpConfig::default(), path, body, answer(Verdict::OverLimit, &[("login", over)])).await;
        assert_eq!(reply.status, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(reply.json()["would_allow"], false);
        headers(&reply, r#""login";q=5;w=60"#, r#""login";r=0;t=12"#, Some("12"));
    }
}

#[tokio::test]
async fn a_request_that_cannot_be_told_apart_is_refused_for_good() {
    let reply = check(Verdict::OverLimit, &[("login", Outcome::Unidentified)]).await;
    assert_eq!(reply.status, StatusCode::TOO_MANY_REQUESTS);
    tells_no_limit(&reply);
    assert_eq!(reply.json()["retryable"], false);
    assert_eq!(reply.json()["max_cost"], json!(null));
    assert_eq!(reply.json()["matched"][0]["outcome"], "unidentified");
}

#[tokio::test]
async fn a_shaper_says_how_long_to_wait() {
    let Outcome::Decided(mut decision) = allowed(17, SECOND, 0) else { unreachable!() };
    decision.wait = Some(leasehold_model::Nanos(150_000_001));
    let reply = check(Verdict::Allowed, &[("queue", Outcome::Decided(decision))]).await;
    headers(&reply, r#""queue";q=20;w=2"#, r#""queue";r=17;t=1"#, None);
    let body = reply.json();
    assert_eq!(body["wait_ms"], 151);
    assert_eq!(
        (&body["matched"][0]["wait_ns"], &body["matched"][0]["queue"]),
        (&json!(150_000_001), &json!(20))
    );
}

#[tokio::test]
async fn a_rule_met_by_several_descriptors_is_told_once_by_its_fullest_counter() {
    let told = Answer {
        verdict: Verdict::Allowed,
        descriptors: [3, 1, 2].map(|left| descriptor(&[("login", allowed(left, 60 * SECOND, 0))])).into(),
        degraded: false,
        rules_version: RulesVersion(3),
    };
    let reply = ask(HttpConfig::default(), "/v1/check", BODY, told).await;
    headers(&reply, r#""login";q=5;w=60"#, r#""login";r=1;t=60"#, None);
    let matched = reply.json()["matched"].clone();
    assert_eq!(
        matched.as_array().unwrap().iter().map(|m| m["descriptor"].clone()).collect::<Vec<_>>(),
        [0, 1, 2]
    );
}

#[tokio::test]
async fn numbers_beyond_15_digits_are_capped_as_structured_fields_ask() {
    let reply = check(Verdict::Allowed, &[("login", allowed(u64::MAX, SECOND, 0))]).await;
    assert_eq!(reply.header("ratelimit"), Some(r#""login";r=999999999999999;t=1"#));
    assert_eq!(reply.json()["matched"][0]["remaining"], u64::MAX);
}

#[tokio::test]
async fn a_limit_that_never_has_another_unit_gives_no_time() {
    let reply = check(Verdict::OverLimit, &[("login", refused(0, RetryAfter::Never, 0, u64::MAX))]).await;
    assert_eq!(reply.header("ratelimit"), Some(r#""login";r=0"#));
}

#[tokio::test]
async fn the_old_headers_are_off_until_asked_for_and_tell_the_tightest_limit() {
    let told = || {
        answer(
            Verdict::Allowed,
            &[("daily", allowed(999, 60 * SECOND, 0)), ("login", allowed(4, 59 * SECOND + 1, 0))],
        )
    };
    let reply = ask(HttpConfig::default(), "/v1/check", BODY, told()).await;
    assert_eq!(reply.header("x-ratelimit-limit"), None);
    let clock = XRateLimit::EpochSeconds(Arc::new(|| 1_800_000_000));
    for (x_rate_limit, reset) in [(XRateLimit::DeltaSeconds, "60"), (clock, "1800000060")] {
        let config = HttpConfig { x_rate_limit, rate_limit: RateLimitFields::Off, ..HttpConfig::default() };
        let reply = ask(config, "/v1/check", BODY, told()).await;
        assert_eq!(reply.header("x-ratelimit-limit"), Some("5"));
        assert_eq!(reply.header("x-ratelimit-remaining"), Some("4"));
        assert_eq!(reply.header("x-ratelimit-reset"), Some(reset));
        assert_eq!((reply.header("ratelimit"), reply.header("ratelimit-policy")), (None, None));
    }
}
