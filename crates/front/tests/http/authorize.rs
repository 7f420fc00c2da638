//! What proxies ask, what becomes of their headers, and what a client behind them can't choose.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::ConnectInfo;
use http::{Method, Request, StatusCode};
use leasehold_front::CheckError;
use leasehold_front::http::{AuthorizeConfig, ForwardedBy, HttpConfig, client_routes};
use leasehold_limit::RetryAfter;
use leasehold_limit::address::TrustedProxies;
use leasehold_limit::check::{Answer, Outcome, Verdict};
use leasehold_model::Nanos;

use crate::double::{Asked, Double, Reply, SECOND, allowed, answer, refused, retry, send};

type Headers<'a> = &'a [(&'a str, &'a str)];

/// A question of a proxy on this machine.
fn request(method: Method, target: &str, headers: Headers<'_>) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(target);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let peer: SocketAddr = "127.0.0.1:40000".parse().unwrap();
    request.extension(ConnectInfo(peer)).body(Body::from("never read")).unwrap()
}

fn config(authorize: AuthorizeConfig) -> HttpConfig {
    HttpConfig { authorize, ..HttpConfig::default() }
}

async fn reply_to(authorize: AuthorizeConfig, target: &str, headers: Headers<'_>, answer: Answer) -> Reply {
    let double = Arc::new(Double::new(move |_| Ok(answer.clone())));
    send(&client_routes(double, config(authorize)), request(Method::GET, target, headers)).await
}

/// What the decider is asked.
async fn asked_by(authorize: AuthorizeConfig, method: Method, target: &str, headers: Headers<'_>) -> Asked {
    let double = Arc::new(Double::new(|_| Ok(answer(Verdict::Allowed, &[]))));
    let router = client_routes(Arc::clone(&double), config(authorize));
    let reply = send(&router, request(method, target, headers)).await;
    assert_eq!((reply.status.as_u16(), reply.body.as_str()), (200, ""));
    let asked = double.asked.lock().unwrap();
    asked.first().expect("it was asked").clone()
}

/// The attributes as text: `path=/x method=GET ...`.
fn attributes(asked: &Asked) -> String {
    let pair = |(name, value): &(String, Vec<u8>)| format!("{name}={}", String::from_utf8_lossy(value));
    asked.descriptors[0].0.iter().map(pair).collect::<Vec<_>>().join(" ")
}

async fn check(headers: Headers<'_>, expected: &str) {
    let asked = asked_by(AuthorizeConfig::default(), Method::GET, "/v1/authorize?domain=api", headers).await;
    assert_eq!(attributes(&asked), expected);
    assert_eq!((asked.domain.as_str(), asked.descriptors[0].1), ("api", 1));
}

async fn refuses(authorize: AuthorizeConfig, target: &str, headers: Headers<'_>, field: &str) {
    let told = answer(Verdict::Allowed, &[]);
    reply_to(authorize, target, headers, told).await.is_problem(400, field);
}

#[tokio::test]
async fn nginx_tells_the_original_request() {
    let headers = [
        ("x-original-method", "POST"),
        ("x-original-uri", "/login?next=%2F"),
        ("host", "Shop.Example:8443"),
        ("x-forwarded-for", "203.0.113.7"),
    ];
    check(&headers, "path=/login method=POST host=shop.example ip=203.0.113.7").await;
}

#[tokio::test]
async fn traefik_and_caddy_tell_the_original_request() {
    let headers = [
        ("x-forwarded-method", "PUT"),
        ("x-forwarded-uri", "/a%20b/#x"),
        ("x-forwarded-host", "shop.example"),
        ("host", "leasehold:7600"),
        ("x-forwarded-for", "198.51.100.1, 2001:db8:1:2:3::4"),
    ];
    check(&headers, "path=/a%20b/ method=PUT host=shop.example ip=2001:db8:1:2::/64").await;
}

#[tokio::test]
async fn a_whole_uri_gives_its_path() {
    check(&[("x-forwarded-uri", "https://shop.example/x?y")], "path=/x method=GET ip=127.0.0.1").await;
}

#[tokio::test]
async fn without_a_proxys_word_the_request_speaks_for_itself() {
    check(&[("host", "[::1]:7600")], "path=/v1/authorize method=GET host=[::1] ip=127.0.0.1").await;
}

#[tokio::test]
async fn a_forwarded_host_counts_only_beside_a_forwarded_method_or_uri() {
    let headers = [("x-original-uri", "/x"), ("x-forwarded-host", "elsewhere"), ("host", "shop.example")];
    check(&headers, "path=/x method=GET host=shop.example ip=127.0.0.1").await;
}

#[tokio::test]
async fn below_the_endpoint_the_url_is_the_clients_and_the_configuration_decides() {
    let authorize = AuthorizeConfig { domain: Some("edge".into()), ..AuthorizeConfig::default() };
    let target = "/v1/authorize/api/login?domain=other&cost=0&deny_status=403";
    let asked = asked_by(authorize, Method::DELETE, target, &[("x-forwarded-uri", "/free")]).await;
    assert_eq!(attributes(&asked), "path=/api/login method=DELETE ip=127.0.0.1");
    assert_eq!((asked.domain.as_str(), asked.descriptors[0].1), ("edge", 1));
}

#[tokio::test]
async fn two_stories_about_one_request_are_refused_unless_the_configuration_knows_whom_to_believe() {
    let headers = [("x-original-uri", "/nginx"), ("x-forwarded-uri", "/traefik")];
    let target = "/v1/authorize?domain=api";
    refuses(AuthorizeConfig::default(), target, &headers, "X-Forwarded-Uri").await;
    for (forwarded_by, path) in [
        (ForwardedBy::XOriginal, "/nginx"),
        (ForwardedBy::XForwarded, "/traefik"),
        (ForwardedBy::Own, "/v1/authorize"),
    ] {
        let authorize = AuthorizeConfig { forwarded_by, ..AuthorizeConfig::default() };
        let asked = asked_by(authorize, Method::GET, target, &headers).await;
        assert_eq!(attributes(&asked), format!("path={path} method=GET ip=127.0.0.1"));
    }
    let twice = [("x-original-uri", "/nginx"), ("x-original-uri", "/client")];
    refuses(AuthorizeConfig::default(), target, &twice, "x-original-uri").await;
}

#[tokio::test]
async fn a_client_address_counts_only_from_proxies_that_are_trusted() {
    let headers = [("x-forwarded-for", "203.0.113.7"), ("forwarded", "for=203.0.113.9")];
    let of = |proxies| AuthorizeConfig { proxies, ..AuthorizeConfig::default() };
    let loopback = || vec!["127.0.0.0/8".parse().unwrap()];
    for (proxies, ip) in [
        (TrustedProxies::none(), "127.0.0.1"),
        (TrustedProxies::new(loopback(), "x-forwarded-for"), "203.0.113.7"),
        (TrustedProxies::new(loopback(), "forwarded"), "203.0.113.9"),
    ] {
        let asked = asked_by(of(proxies), Method::GET, "/v1/authorize?domain=api", &headers).await;
        assert_eq!(attributes(&asked), format!("path=/v1/authorize method=GET ip={ip}"));
    }
}

#[tokio::test]
async fn configured_headers_become_attributes_as_they_are() {
    let headers = vec![("x-api-key".parse().unwrap(), "api_key".to_owned())];
    let authorize = AuthorizeConfig { headers, ..AuthorizeConfig::default() };
    let sent = [("x-api-key", "Alpha "), ("x-api-key", "beta"), ("x-other", "no")];
    let asked = asked_by(authorize, Method::GET, "/v1/authorize?domain=api&cost=3", &sent).await;
    assert_eq!(attributes(&asked), "path=/v1/authorize method=GET ip=127.0.0.1 api_key=Alpha ");
    assert_eq!(asked.descriptors[0].1, 3);
}

#[tokio::test]
async fn allowed_is_exactly_200_without_a_body_for_every_method() {
    for method in ["GET", "HEAD", "POST", "OPTIONS", "PROPFIND"] {
        let told = answer(Verdict::Allowed, &[("login", allowed(4, 60 * SECOND, 0))]);
        let double = Arc::new(Double::new(move |_| Ok(told.clone())));
        let router = client_routes(double, HttpConfig::default());
        let reply = send(&router, request(method.parse().unwrap(), "/v1/authorize?domain=api", &[])).await;
        assert_eq!((reply.status, reply.body.as_str()), (StatusCode::OK, ""), "{method}");
        assert_eq!(reply.header("x-leasehold-verdict"), Some("allowed"));
        assert_eq!(reply.header("ratelimit"), Some(r#""login";r=4;t=60"#));
        assert_eq!(reply.header("cache-control"), Some("no-store"));
    }
}

#[tokio::test]
async fn a_refusal_has_the_status_that_was_asked_for_and_names_its_verdict() {
    let over = || answer(Verdict::OverLimit, &[("login", refused(0, retry(2 * SECOND), SECOND, 2 * SECOND))]);
    let undecided = || answer(Verdict::Unavailable, &[("closed", Outcome::Unavailable)]);
    let forbidden =
        || AuthorizeConfig { deny_status: Some(StatusCode::FORBIDDEN), ..AuthorizeConfig::default() };
    for (authorize, query, told, status, verdict) in [
        (AuthorizeConfig::default(), "", over(), 429, "over_limit"),
        (AuthorizeConfig::default(), "&deny_status=403", over(), 403, "over_limit"),
        (forbidden(), "", over(), 403, "over_limit"),
        (forbidden(), "&deny_status=599", over(), 599, "over_limit"),
        (AuthorizeConfig::default(), "", undecided(), 503, "unavailable"),
        (AuthorizeConfig::default(), "&deny_status=403", undecided(), 403, "unavailable"),
    ] {
        let reply = reply_to(authorize, &format!("/v1/authorize?domain=api{query}"), &[], told).await;
        assert_eq!((reply.status.as_u16(), reply.header("x-leasehold-verdict")), (status, Some(verdict)));
        assert_eq!(reply.header("cache-control"), Some("no-store"));
        assert!(reply.header("retry-after").is_some());
        assert_eq!((&reply.json()["status"], &reply.json()["verdict"]), (&status.into(), &verdict.into()));
    }
}

#[tokio::test]
async fn a_cost_that_never_fits_has_no_retry_time_here_either() {
    let never = answer(Verdict::OverLimit, &[("login", refused(5, RetryAfter::Never, 0, 0))]);
    let reply = reply_to(AuthorizeConfig::default(), "/v1/authorize?domain=api&cost=9", &[], never).await;
    assert_eq!((reply.status.as_u16(), reply.header("retry-after")), (429, None));
}

#[tokio::test]
async fn an_overloaded_server_refuses_with_the_status_that_was_asked_for() {
    let overloaded = CheckError::Overloaded { reason: "keys".into(), retry_after: Nanos(SECOND) };
    let double = Arc::new(Double::new(move |_| Err(overloaded.clone())));
    let router = client_routes(double, HttpConfig::default());
    for (query, status) in [("", 503), ("&deny_status=403", 403)] {
        let target = format!("/v1/authorize?domain=api{query}");
        let reply = send(&router, request(Method::GET, &target, &[])).await;
        reply.is_problem(status, "");
        assert_eq!(reply.header("x-leasehold-verdict"), Some("unavailable"));
    }
}

#[tokio::test]
async fn a_wrong_question_is_400_and_names_the_parameter() {
    for (query, field) in [
        ("", "domain"),
        ("?domain=", "domain"),
        ("?domain=api&domain=b", "domain"),
        ("?domain=api&cost=-1", "cost"),
        ("?domain=api&cost=%2B1", "cost"),
        ("?domain=api&cost=", "cost"),
        ("?domain=api&deny_status=200", "deny_status"),
        ("?domain=api&deny_status=600", "deny_status"),
        ("?domain=api&status=403", "status"),
    ] {
        refuses(AuthorizeConfig::default(), &format!("/v1/authorize{query}"), &[], field).await;
    }
    let target = "/v1/authorize?domain=api";
    refuses(AuthorizeConfig::default(), target, &[("x-original-uri", "no path")], "x-original-uri").await;
}

#[tokio::test]
async fn a_forwarded_deadline_is_the_clients_and_does_not_count() {
    for sent in ["1", "x"] {
        let (config, target) = (AuthorizeConfig::default(), "/v1/authorize?domain=api");
        let asked = asked_by(config, Method::GET, target, &[("x-request-timeout-ms", sent)]).await;
        assert_eq!(asked.budget, None);
    }
}
