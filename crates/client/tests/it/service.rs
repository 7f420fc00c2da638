//! Services behind limits, over HTTP and gRPC alike.

use std::convert::Infallible;
use std::time::Duration;

use http::{Request, Response};
use leasehold_client::layer::{Attributes, RateLimitLayer};
use tower::{ServiceBuilder, ServiceExt, service_fn};

use crate::owner::Faults;
use crate::support::{TestClient, World};

const RULES: &str = "  - { name: few, per: [user], limit: 2/h }";

async fn call(client: &TestClient, headers: &[(&str, &str)]) -> Response<String> {
    let by_user = |request: &Request<()>| {
        let headers = request.headers();
        headers.contains_key("user").then(|| Attributes::new().with_header("user", headers, "user"))
    };
    let service = ServiceBuilder::new().layer(RateLimitLayer::new(client.clone(), "api", by_user)).service(
        service_fn(|_: Request<()>| async { Ok::<_, Infallible>(Response::new("served".to_owned())) }),
    );
    let mut request = Request::new(());
    for (name, value) in headers {
        let name: http::HeaderName = name.parse().expect("a name");
        request.headers_mut().insert(name, value.parse().expect("a value"));
    }
    service.oneshot(request).await.expect("a response")
}

fn header<'a>(response: &'a Response<String>, name: &str) -> &'a str {
    response.headers().get(name).map_or("", |value| value.to_str().expect("text"))
}

#[tokio::test(start_paused = true)]
async fn what_is_admitted_is_served_and_told_what_is_left() {
    let world = World::new(RULES, Faults::default());
    let response = call(&world.client(1), &[("user", "a")]).await;
    assert_eq!((response.status().as_u16(), response.body().as_str()), (200, "served"));
    assert_eq!(header(&response, "ratelimit-policy"), "\"few\";q=2;w=3600");
    assert!(header(&response, "ratelimit").starts_with("\"few\";r=1;"), "{response:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_over_the_limit_is_answered_429_with_the_time_to_come_back() {
    let world = World::new(RULES, Faults::default());
    let client = world.client(1);
    for _ in 0..2 {
        assert_eq!(call(&client, &[("user", "a")]).await.status(), 200);
    }
    let response = call(&client, &[("user", "a")]).await;
    assert_eq!((response.status().as_u16(), response.body().as_str()), (429, ""));
    assert_eq!(header(&response, "retry-after"), "1800");
    assert_eq!(header(&response, "cache-control"), "no-store");
    assert!(header(&response, "ratelimit").starts_with("\"few\";r=0;"), "{response:?}");
}

#[tokio::test(start_paused = true)]
async fn a_grpc_call_over_the_limit_ends_as_one() {
    let world = World::new(RULES, Faults::default());
    let client = world.client(1);
    let grpc = [("user", "a"), ("content-type", "application/grpc+proto")];
    for _ in 0..2 {
        assert_eq!(call(&client, &grpc).await.body(), "served");
    }
    let response = call(&client, &grpc).await;
    assert_eq!((response.status().as_u16(), header(&response, "grpc-status")), (200, "8"));
    assert_eq!(header(&response, "content-type"), "application/grpc");
}

#[tokio::test(start_paused = true)]
async fn what_nobody_can_decide_is_answered_503_where_its_rule_refuses() {
    let world = World::new("  - { name: few, limit: 2/h, on_unavailable: deny }", Faults::default());
    world.owner.set(|faults| faults.away = true);
    let response = call(&world.client(1), &[("user", "a")]).await;
    assert_eq!(response.status(), 503);
    assert_eq!((header(&response, "retry-after"), header(&response, "x-leasehold-degraded")), ("1", "true"));
}

#[tokio::test(start_paused = true)]
async fn overload_is_answered_503_and_too_long_a_value_400() {
    let world = World::new(RULES, Faults { overloaded: true, ..Faults::default() });
    let client = world.client(1);
    assert_eq!(call(&client, &[("user", "a")]).await.status(), 503);
    assert_eq!(call(&client, &[("user", &"a".repeat(5_000))]).await.status(), 400);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_counted_by_nothing_is_served() {
    let world = World::new(RULES, Faults { silent: true, ..Faults::default() });
    assert_eq!(call(&world.client(1), &[]).await.body(), "served");
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_for_its_turn_before_it_is_served() {
    let rules = "  - { name: turns, per: [user], limit: 10/s, algorithm: shaper, queue: 5 }";
    let world = World::new(rules, Faults::default());
    let client = world.client(1);
    call(&client, &[("user", "a")]).await;
    let started = tokio::time::Instant::now();
    assert_eq!(call(&client, &[("user", "a")]).await.status(), 200);
    assert!(started.elapsed() >= Duration::from_millis(100));
}
