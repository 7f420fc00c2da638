//! What callers send: every way to say it right, and what is said about every way to get it wrong.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{Method, Request, header::CONTENT_TYPE};
use leasehold_front::http::{HttpConfig, client_routes};
use leasehold_front::{CheckError, Decider, Readiness};
use leasehold_limit::check::Verdict;
use leasehold_model::Nanos;
use serde_json::json;

use crate::double::{Asked, BODY, Double, Reply, admitting, answer, json_request, send};

/// What the decider is asked for a body that is right.
async fn asked(body: &str) -> Asked {
    let (double, router) = admitting();
    let reply = send(&router, json_request("/v1/check", body.to_owned())).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    let asked = double.asked.lock().unwrap();
    asked.first().expect("it was asked").clone()
}

/// Asserts that a body is refused for this field, and that nothing was decided.
async fn refuses(body: impl Into<Vec<u8>>, field: &str) {
    refuses_at("/v1/check", body, field).await;
}

async fn refuses_at(path: &str, body: impl Into<Vec<u8>>, field: &str) {
    let (double, router) = admitting();
    send(&router, json_request(path, body.into())).await.is_problem(400, field);
    assert!(double.asked.lock().unwrap().is_empty() && double.resets.lock().unwrap().is_empty());
}

fn attribute(name: &str, value: &[u8]) -> (String, Vec<u8>) {
    (name.to_owned(), value.to_owned())
}

#[tokio::test]
async fn attributes_keep_their_order_and_cost_is_1_unless_said() {
    let asked = asked(r#"{"attributes": {"z": "1", "a": "\u00e9\n"}, "domain": "api"}"#).await;
    assert_eq!(asked.domain, "api");
    assert_eq!(asked.descriptors, [(vec![attribute("z", b"1"), attribute("a", "é\n".as_bytes())], 1)]);
    assert_eq!((asked.request_id, asked.budget), (None, None));
}

#[tokio::test]
async fn a_list_of_attributes_carries_repeated_names_and_raw_bytes() {
    let body = r#"{"domain": "api", "cost": 7, "attributes":
        [["a", "1"], {"name": "a", "value": ""}, {"name": "b", "value_base64": "AP8="}]}"#;
    let attributes = vec![attribute("a", b"1"), attribute("a", b""), attribute("b", &[0, 255])];
    assert_eq!(asked(body).await.descriptors, [(attributes, 7)]);
}

#[tokio::test]
async fn several_descriptors_are_one_request() {
    let body = r#"{"domain": "api", "descriptors": [
        {"attributes": {"a": "1"}}, {"attributes": {"b": "2"}, "cost": 18446744073709551615}]}"#;
    let descriptors = [(vec![attribute("a", b"1")], 1), (vec![attribute("b", b"2")], u64::MAX)];
    assert_eq!(asked(body).await.descriptors, descriptors);
}

#[tokio::test]
async fn null_is_absent() {
    let asked =
        asked(r#"{"domain": "api", "attributes": {"a": "1"}, "cost": null, "request_id": null}"#).await;
    assert_eq!((asked.descriptors[0].1, asked.request_id), (1, None));
}

#[tokio::test]
async fn a_request_id_comes_in_the_body_or_as_idempotency_key() {
    let (double, router) = admitting();
    let expected = double.request_id("api", "7f3a");
    let with_id = r#"{"domain":"api","attributes":{"path":"/x"},"request_id":"7f3a"}"#;
    for (body, key) in
        [(with_id, None), (BODY, Some("7f3a")), (BODY, Some("\"7f3a\"")), (with_id, Some("7f3a"))]
    {
        let mut request = json_request("/v1/check", body);
        if let Some(key) = key {
            request.headers_mut().insert("idempotency-key", key.parse().unwrap());
        }
        assert_eq!(send(&router, request).await.status, 200);
    }
    assert!(double.asked.lock().unwrap().iter().all(|asked| asked.request_id == Some(expected)));

    let mut request = json_request("/v1/check", with_id);
    request.headers_mut().insert("idempotency-key", "another".parse().unwrap());
    send(&router, request).await.is_problem(400, "request_id");
}

#[tokio::test]
async fn a_peek_is_asked_as_cost_0_and_remembers_no_id() {
    let (double, router) = admitting();
    let body = r#"{"domain":"api","attributes":{"path":"/x"},"request_id":"7f3a"}"#;
    assert_eq!(send(&router, json_request("/v1/peek", body)).await.status, 200);
    let asked = double.asked.lock().unwrap()[0].clone();
    assert_eq!((asked.descriptors[0].1, asked.request_id), (0, None));
}

#[tokio::test]
async fn the_callers_deadline_becomes_the_budget() {
    let (double, router) = admitting();
    let mut request = json_request("/v1/check", BODY);
    request.headers_mut().insert("x-request-timeout-ms", "20".parse().unwrap());
    send(&router, request).await;
    assert_eq!(double.asked.lock().unwrap()[0].budget, Some(Duration::from_millis(20)));
    for wrong in ["0", "-1", "1.5", "soon", "99999999999999999999"] {
        let mut request = json_request("/v1/check", BODY);
        request.headers_mut().insert("x-request-timeout-ms", wrong.parse().unwrap());
        send(&router, request).await.is_problem(400, "x-request-timeout-ms");
    }
}

#[tokio::test]
async fn bad_input_is_400_and_names_the_field() {
    for (body, field) in [
        ("", "body"),
        ("{", "body"),
        ("[1]", "body"),
        ("\"api\"", "body"),
        (r#"{"domain":"api","attributes":{"a":"1"}} x"#, "body"),
        (r#"{"attributes":{"a":"1"}}"#, "domain"),
        (r#"{"domain":"","attributes":{"a":"1"}}"#, "domain"),
        (r#"{"domain":7,"attributes":{"a":"1"}}"#, "domain"),
        (r#"{"domain":"api"}"#, "attributes"),
        (r#"{"domain":"api","attributes":{}}"#, "attributes"),
        (r#"{"domain":"api","attributes":[]}"#, "attributes"),
        (r#"{"domain":"api","attributes":"a=1"}"#, "attributes"),
        (r#"{"domain":"api","attributes":{"a":1}}"#, "attributes.a"),
        (r#"{"domain":"api","attributes":{"a":null}}"#, "attributes.a"),
        (r#"{"domain":"api","attributes":{"":"1"}}"#, "attributes[0]"),
        (r#"{"domain":"api","attributes":[["a","1"],["b"]]}"#, "attributes[1]"),
        (r#"{"domain":"api","attributes":[["a",1]]}"#, "attributes[0][1]"),
        (r#"{"domain":"api","attributes":[{"name":"a"}]}"#, "attributes[0].value"),
        (r#"{"domain":"api","attributes":[{"value":"a"}]}"#, "attributes[0].name"),
        (r#"{"domain":"api","attributes":[{"name":"a","value_base64":"*"}]}"#, "attributes[0].value_base64"),
        (
            r#"{"domain":"api","attributes":[{"name":"a","value":"1","value_base64":"MQ=="}]}"#,
            "attributes[0].value_base64",
        ),
        (r#"{"domain":"api","attributes":{"a":"1"},"cost":-1}"#, "cost"),
        (r#"{"domain":"api","attributes":{"a":"1"},"cost":1.0}"#, "cost"),
        (r#"{"domain":"api","attributes":{"a":"1"},"cost":1e3}"#, "cost"),
        (r#"{"domain":"api","attributes":{"a":"1"},"cost":"1"}"#, "cost"),
        (r#"{"domain":"api","attributes":{"a":"1"},"cost":18446744073709551616}"#, "cost"),
        (r#"{"domain":"api","attributes":{"a":"1"},"hits":1}"#, "hits"),
        (r#"{"domain":"api","domain":"api","attributes":{"a":"1"}}"#, "domain"),
        (r#"{"domain":"api","attributes":{"a":"1"},"request_id":""}"#, "request_id"),
        (r#"{"domain":"api","attributes":{"a":"1"},"request_id":5}"#, "request_id"),
        (r#"{"domain":"api","descriptors":[]}"#, "descriptors"),
        (r#"{"domain":"api","descriptors":[{"attributes":{}}]}"#, "descriptors[0].attributes"),
        (r#"{"domain":"api","descriptors":[{"attributes":{"a":"1"},"cost":-1}]}"#, "descriptors[0].cost"),
        (
            r#"{"domain":"api","descriptors":[{"attributes":{"a":"1"},"domain":"x"}]}"#,
            "descriptors[0].domain",
        ),
        (r#"{"domain":"api","attributes":{"a":"1"},"descriptors":[]}"#, "descriptors"),
    ] {
        refuses(body, field).await;
    }
}

#[tokio::test]
async fn every_bound_is_refused_by_name() {
    let list = |count: usize, item: &str| vec![item; count].join(",");
    let check = r#"{"domain":"api","attributes":{"a":"1"}}"#;
    for (body, field) in [
        (format!(r#"{{"domain":"{}","attributes":{{"a":"1"}}}}"#, "d".repeat(129)), "domain"),
        (format!(r#"{{"domain":"api","attributes":[{}]}}"#, list(65, r#"["a","1"]"#)), "attributes"),
        (format!(r#"{{"domain":"api","attributes":{{"{}":"1"}}}}"#, "n".repeat(129)), "attributes[0]"),
        (
            format!(r#"{{"domain":"api","attributes":{{"a":"{}"}}}}"#, "v".repeat(4097)),
            "attributes[0] (\"a\")",
        ),
        (
            format!(r#"{{"domain":"api","descriptors":[{}]}}"#, list(33, r#"{"attributes":{"a":"1"}}"#)),
            "descriptors",
        ),
        (format!(r#"{{"checks":[{}]}}"#, list(1001, check)), "checks"),
        (
            format!(r#"{{"domain":"api","attributes":{{"a":"1"}},"request_id":"{}"}}"#, "i".repeat(129)),
            "request_id",
        ),
        (format!(r#"{{"domain":{}1{}}}"#, "[".repeat(200), "]".repeat(200)), "body"),
    ] {
        refuses(body, field).await;
    }
}

#[tokio::test]
async fn an_error_repeats_little_of_what_was_sent() {
    let (_, router) = admitting();
    let body = format!(r#"{{"domain":"api","attributes":{{"a":"1"}},"{}\u0007":1}}"#, "x".repeat(5000));
    let reply = send(&router, json_request("/v1/check", body)).await;
    assert_eq!(reply.status, 400);
    assert!(reply.body.len() < 600, "{}", reply.body);
}

#[tokio::test]
async fn a_peek_with_a_cost_is_refused() {
    refuses_at("/v1/peek", r#"{"domain":"api","attributes":{"a":"1"},"cost":2}"#, "cost").await;
}

async fn with(method: Method, path: &str, content_type: Option<&str>, body: impl Into<Body>) -> Reply {
    let (_, router) = admitting();
    let mut request = Request::builder().method(method).uri(path);
    if let Some(content_type) = content_type {
        request = request.header(CONTENT_TYPE, content_type);
    }
    send(&router, request.body(body.into()).unwrap()).await
}

#[tokio::test]
async fn only_json_is_taken_and_the_answer_says_which_header_to_send() {
    for wrong in [None, Some("text/plain"), Some("application/x-www-form-urlencoded"), Some("json")] {
        let reply = with(Method::POST, "/v1/check", wrong, BODY).await;
        reply.is_problem(415, "");
        assert!(reply.body.contains("Content-Type: application/json"));
    }
    for right in ["application/json", "application/JSON; charset=utf-8", "application/vnd.api+json"] {
        assert_eq!(with(Method::POST, "/v1/check", Some(right), BODY).await.status, 200, "{right}");
    }
}

#[tokio::test]
async fn a_body_beyond_its_bound_is_413_whether_announced_or_not() {
    let check = format!("{}{BODY}", " ".repeat(64 * 1024));
    with(Method::POST, "/v1/check", Some("application/json"), check.clone()).await.is_problem(413, "");
    with(Method::POST, "/v1/reset", Some("application/json"), check).await.is_problem(413, "");
    let batch = " ".repeat(1024 * 1024 + 1);
    let stream = Body::from_stream(unannounced(batch.clone()));
    with(Method::POST, "/v1/check", Some("application/json"), stream).await.is_problem(413, "");
    with(Method::POST, "/v1/check", Some("application/json"), batch).await.is_problem(413, "");
}

#[tokio::test]
async fn a_body_that_comes_in_pieces_is_read_in_order_and_one_that_breaks_off_is_400() {
    let pieces = |broken: bool| {
        let (start, end) = BODY.split_at(20);
        let end = if broken { Err(std::io::Error::other("gone")) } else { Ok(end) };
        Body::from_stream(tokio_stream::iter([Ok(""), Ok(start), Ok(""), end]))
    };
    let json = Some("application/json");
    assert_eq!(with(Method::POST, "/v1/check", json, pieces(false)).await.status, 200);
    with(Method::POST, "/v1/check", json, pieces(true)).await.is_problem(400, "body");
}

/// A body whose length isn't announced.
fn unannounced(text: String) -> impl tokio_stream::Stream<Item = Result<String, std::io::Error>> + Send {
    tokio_stream::iter([Ok(text)])
}

#[tokio::test]
async fn wrong_methods_name_the_right_ones() {
    for (path, method, allow) in [
        ("/v1/check", Method::GET, "POST"),
        ("/v1/peek", Method::DELETE, "POST"),
        ("/v1/reset", Method::OPTIONS, "POST"),
        ("/livez", Method::POST, "GET, HEAD"),
        ("/", Method::PUT, "GET, HEAD"),
    ] {
        let reply = with(method, path, None, "").await;
        reply.is_problem(405, "");
        assert_eq!(reply.headers.get_all("allow").iter().collect::<Vec<_>>(), [allow], "{path}");
    }
}

#[tokio::test]
async fn an_unknown_path_is_a_problem_that_points_to_the_index() {
    let reply = with(Method::GET, "/v1/chek", None, "").await;
    reply.is_problem(404, "");
    assert!(reply.body.contains("GET /"));
    let index = with(Method::GET, "/", None, "").await;
    assert!(index.status == 200 && index.body.contains("/v1/check") && index.body.contains("curl"));
}

#[tokio::test]
async fn what_the_decider_refuses_has_its_own_status() {
    let reply_to = |error: CheckError| async {
        let double = Arc::new(Double::new(move |_| Err(error.clone())));
        send(&client_routes(double, HttpConfig::default()), json_request("/v1/check", BODY)).await
    };
    let error = CheckError::Invalid { field: "domain".into(), message: "it has no rules".into() };
    reply_to(error).await.is_problem(400, "domain");
    reply_to(CheckError::RequestIdReused).await.is_problem(422, "request_id");
    let overloaded = CheckError::Overloaded { reason: "keys".into(), retry_after: Nanos(1_500_000_000) };
    let reply = reply_to(overloaded).await;
    reply.is_problem(503, "");
    assert_eq!((reply.header("retry-after"), &reply.json()["retry_after_ms"]), (Some("2"), &json!(1500)));
}

#[tokio::test]
async fn a_reset_tells_how_many_counters_are_fresh_again() {
    let (double, router) = admitting();
    let body = r#"{"domain":"api","attributes":{"a":"1","b":"2"},"rule":"login"}"#;
    let reply = send(&router, json_request("/v1/reset", body)).await;
    assert_eq!((reply.status.as_u16(), reply.json()), (200, json!({ "reset": 2 })));
    assert_eq!(*double.resets.lock().unwrap(), [("api".to_owned(), 2, Some("login".to_owned()))]);

    for (body, field) in [
        (r#"{"domain":"api","attributes":{"a":"1"},"rule":""}"#, "rule"),
        (r#"{"domain":"api","attributes":{"a":"1"},"cost":1}"#, "cost"),
        (r#"{"domain":"api"}"#, "attributes"),
    ] {
        refuses_at("/v1/reset", body, field).await;
    }
}

#[tokio::test]
async fn a_reset_can_be_switched_off() {
    let double = Arc::new(Double::new(|_| Ok(answer(Verdict::Allowed, &[]))));
    let config = HttpConfig { reset: false, ..HttpConfig::default() };
    let router = client_routes(Arc::clone(&double), config);
    send(&router, json_request("/v1/reset", BODY)).await.is_problem(403, "");
    assert!(double.resets.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_request_id_for_logs_comes_back_if_it_is_one() {
    let (_, router) = admitting();
    let long = "x".repeat(129);
    for (path, id, back) in [
        ("/v1/check", "5f-0c", Some("5f-0c")),
        ("/v1/reset", "5f-0c", Some("5f-0c")),
        ("/v1/check", "two words", None),
        ("/v1/check", long.as_str(), None),
    ] {
        let mut request = json_request(path, "{");
        request.headers_mut().insert("x-request-id", id.parse().unwrap());
        let reply = send(&router, request).await;
        assert_eq!((reply.status.as_u16(), reply.header("x-request-id")), (400, back));
    }
}

#[tokio::test]
async fn a_process_that_is_not_ready_lives_and_says_why() {
    let mut double = Double::new(|_| Ok(answer(Verdict::Allowed, &[])));
    double.readiness = Readiness::NotReady("draining".into());
    let router = client_routes(Arc::new(double), HttpConfig::default());
    let get = |path| send(&router, Request::get(path).body(Body::empty()).unwrap());
    let ready = get("/readyz").await;
    assert_eq!((ready.status.as_u16(), ready.body.as_str()), (503, "not ready: draining\n"));
    assert_eq!(get("/livez").await.status, 200);

    let (_, router) = admitting();
    let get = |path| send(&router, Request::get(path).body(Body::empty()).unwrap());
    assert_eq!(get("/readyz").await.status, 200);
}
