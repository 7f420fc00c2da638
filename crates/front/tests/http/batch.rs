//! Batches: each check is decided on its own, in order, and has a status of its own.

use std::sync::Arc;
use std::time::Duration;

use leasehold_front::CheckError;
use leasehold_front::bounds::BATCH_LIMITS_TOLD_MAX;
use leasehold_front::http::{HttpConfig, client_routes};
use leasehold_limit::check::Verdict;
use serde_json::json;

use crate::double::{Double, SECOND, admitting, allowed, answer, json_request, refused, retry, send};

#[tokio::test]
async fn each_item_has_its_own_status_in_order() {
    let double = Arc::new(Double::new(|request| match request.descriptors[0].cost {
        1 => Ok(answer(Verdict::Allowed, &[("login", allowed(4, SECOND, 0))])),
        2 => Ok(answer(Verdict::OverLimit, &[("login", refused(0, retry(SECOND), SECOND, SECOND))])),
        _ => Err(CheckError::RequestIdReused),
    }));
    let body = r#"{"checks": [
        {"domain": "api", "attributes": {"a": "1"}, "cost": 2},
        {"domain": "api", "attributes": {}},
        {"domain": "api", "attributes": {"a": "1"}, "cots": 2},
        {"domain": "api", "attributes": {"a": "1"}},
        7,
        {"domain": "api", "attributes": {"a": "1"}, "cost": 3, "request_id": "x"}
    ]}"#;
    let reply =
        send(&client_routes(Arc::clone(&double), HttpConfig::default()), json_request("/v1/check", body))
            .await;
    assert_eq!((reply.status.as_u16(), reply.header("content-type")), (200, Some("application/json")));
    assert_eq!((reply.header("ratelimit"), reply.header("retry-after")), (None, None));
    let results = reply.json()["results"].as_array().unwrap().clone();
    let statuses: Vec<_> = results.iter().map(|result| result["status"].clone()).collect();
    assert_eq!(statuses, [429, 400, 400, 200, 400, 422]);
    let fields: Vec<_> = results.iter().map(|result| result["field"].as_str().unwrap_or_default()).collect();
    assert_eq!(fields, ["", "attributes", "cots", "", "body", "request_id"]);
    assert_eq!((&results[0]["retry_after_ms"], &results[3]["allowed"]), (&json!(1000), &json!(true)));
    assert_eq!(double.asked.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn a_batch_of_peeks_takes_nothing() {
    let (double, router) = admitting();
    let body = r#"{"checks": [{"domain": "api", "attributes": {"a": "1"}}]}"#;
    let reply = send(&router, json_request("/v1/peek", body)).await;
    assert_eq!(reply.json()["results"][0]["would_allow"], true);
    assert_eq!(double.asked.lock().unwrap()[0].descriptors[0].1, 0);
}

#[tokio::test]
async fn a_batch_that_is_none_is_refused_as_a_whole() {
    let (double, router) = admitting();
    let check = r#"{"domain":"api","attributes":{"a":"1"}}"#;
    for (body, field) in [
        (r#"{"checks": []}"#.to_owned(), "checks"),
        (r#"{"checks": 7}"#.to_owned(), "checks"),
        (r#"{"checks": null}"#.to_owned(), "checks"),
        (format!(r#"{{"checks": [{check}], "domain": "api"}}"#), "domain"),
    ] {
        send(&router, json_request("/v1/check", body)).await.is_problem(400, field);
    }
    let mut request = json_request("/v1/check", format!(r#"{{"checks": [{check}]}}"#));
    request.headers_mut().insert("idempotency-key", "one".parse().unwrap());
    send(&router, request).await.is_problem(400, "Idempotency-Key");
    assert!(double.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn items_past_a_full_answer_are_refused_undecided() {
    let many = vec![("login", allowed(4, SECOND, 0)); BATCH_LIMITS_TOLD_MAX / 2];
    let double = Arc::new(Double::new(move |_| Ok(answer(Verdict::Allowed, &many))));
    let checks = [r#"{"domain":"api","attributes":{"a":"1"}}"#; 4].join(",");
    let request = json_request("/v1/check", format!(r#"{{"checks": [{checks}]}}"#));
    let reply = send(&client_routes(Arc::clone(&double), HttpConfig::default()), request).await;
    let results = reply.json()["results"].as_array().unwrap().clone();
    let statuses: Vec<_> = results.iter().map(|result| result["status"].clone()).collect();
    assert_eq!(statuses, [200, 200, 413, 413]);
    assert_eq!(double.asked.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn the_items_of_a_batch_share_the_callers_deadline() {
    let pause = Duration::from_millis(20);
    let double = Arc::new(Double::new(move |_| {
        std::thread::sleep(pause);
        Ok(answer(Verdict::Allowed, &[]))
    }));
    let check = r#"{"domain":"api","attributes":{"a":"1"}}"#;
    let mut request = json_request("/v1/check", format!(r#"{{"checks": [{check}, {check}]}}"#));
    request.headers_mut().insert("x-request-timeout-ms", "18446744073709551615".parse().unwrap());
    send(&client_routes(Arc::clone(&double), HttpConfig::default()), request).await;
    let budgets: Vec<_> = double.asked.lock().unwrap().iter().map(|asked| asked.budget.unwrap()).collect();
    assert!(budgets[0] <= Duration::from_secs(3600), "no deadline is further than any clock can tell");
    assert!(budgets[1] <= budgets[0] - pause, "{budgets:?}");
}
