//! Random requests over HTTP, good and bad: every status is one that its kind of request may get, and no limit admits
//! more than it says, whatever comes between.
//!
//! `LEASEHOLD_REQUESTS` sets how many, `LEASEHOLD_SEED` which; a failure prints both.

use std::collections::BTreeMap;
use std::env;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use leasehold_tests::{Deadline, Http, TestNode};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// Enough to meet every kind of request thousands of times, few enough for every test run.
const REQUESTS: u64 = 20_000;
/// Requests in flight at a time.
const CALLERS: u64 = 16;
const USERS: u64 = 500;
/// The limit of each user.
const USER_LIMIT: u64 = 50;

const RULES: &str = "
domain: api
limits:
  - { name: per-user, per: [user], limit: 50/8760h, algorithm: fixed_window }
  - { name: per-ip, per: [ip], limit: 100/second, burst: 1000 }
  - { name: queue, when: { path: /queue* }, limit: 1000/second, algorithm: shaper, queue: 100 }
  - { name: log, when: { path: /log }, per: [ip], limit: 5/min, algorithm: sliding_log }
  - { name: tried, when: { plan: [free, 'trial*'] }, per: [user], limit: 10/min, algorithm: sliding_counter, shadow: true }
";

/// A request, what kind it is, and the statuses that this kind may get.
struct Random {
    kind: &'static str,
    may: &'static [u16],
    method: Method,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    /// The user who is charged, and how much, if it is admitted.
    charges: Option<(usize, u64)>,
}

const JSON: &str = "application/json";

fn post(kind: &'static str, may: &'static [u16], path: &str, body: impl Into<Vec<u8>>) -> Random {
    Random {
        kind,
        may,
        method: Method::POST,
        path: path.to_owned(),
        headers: vec![("content-type", JSON.to_owned())],
        body: body.into(),
        charges: None,
    }
}

fn pick<T: Copy>(random: &mut StdRng, from: &[T]) -> T {
    from[random.random_range(0..from.len())]
}

fn any_text(random: &mut StdRng, chars_max: usize) -> String {
    (0..random.random_range(0..=chars_max)).map(|_| random.random::<char>()).collect()
}

/// A check that is right in every part; what it charges to a user.
fn valid_check(random: &mut StdRng) -> (Value, Option<(usize, u64)>) {
    let cost = random.random_range(0..=4_u64);
    let user = random.random_range(0..USERS);
    let mut attributes = json!({ "ip": format!("203.0.113.{}", random.random_range(0..=255)) });
    attributes["path"] = json!(pick(random, &["/", "/queue/a", "/log", "/\u{1F980}", ""]));
    if random.random_bool(0.2) {
        attributes["plan"] = json!(pick(random, &["free", "trial-7", "paid"]));
    }
    let charged = random.random_bool(0.5);
    if charged {
        attributes["user"] = json!(format!("u{user}"));
    }
    let check = json!({ "domain": "api", "attributes": attributes, "cost": cost });
    (check, charged.then(|| (usize::try_from(user).expect("few users"), cost)))
}

fn check(random: &mut StdRng) -> Random {
    let (body, charges) = valid_check(random);
    Random { charges, ..post("check", &[200, 429], "/v1/check", body.to_string()) }
}

fn peek(random: &mut StdRng) -> Random {
    let (mut body, _) = valid_check(random);
    body.as_object_mut().expect("a check is an object").remove("cost");
    post("peek", &[200, 429], "/v1/peek", body.to_string())
}

fn reset(random: &mut StdRng) -> Random {
    let user = format!("reset-{}", random.random_range(0..USERS));
    post("reset", &[200], "/v1/reset", json!({ "domain": "api", "attributes": { "user": user } }).to_string())
}

fn batch(random: &mut StdRng) -> Random {
    let item = |random: &mut StdRng| match random.random_bool(0.2) {
        true => json!({ "domain": "api", "attributes": 7 }),
        false => json!({ "domain": "api", "attributes": { "ip": "203.0.113.1" } }),
    };
    let checks: Vec<Value> = (0..random.random_range(1..=20)).map(|_| item(random)).collect();
    post("batch", &[200], "/v1/check", json!({ "checks": checks }).to_string())
}

/// A few ids for many requests: now a retry, now an id that belongs to another request.
fn with_request_id(random: &mut StdRng) -> Random {
    let user = format!("retrying-{}", random.random_range(0..3));
    let mut body = json!({ "domain": "api", "attributes": { "user": user } });
    body["request_id"] = json!(format!("id-{}", random.random_range(0..200)));
    post("request id", &[200, 429, 422], "/v1/check", body.to_string())
}

/// A right check in which a few bytes were changed: most are still JSON, some are still right.
fn mutated(random: &mut StdRng) -> Random {
    let body = json!({ "domain": "api", "attributes": { "ip": "203.0.113.9", "path": "/log" }, "cost": 2 });
    let mut body = body.to_string().into_bytes();
    for _ in 0..random.random_range(1..=4) {
        let at = random.random_range(0..body.len());
        body[at] = random.random();
    }
    post("mutated", &[200, 400, 429], "/v1/check", body)
}

fn noise(random: &mut StdRng) -> Random {
    let body: Vec<u8> = (0..random.random_range(0..200)).map(|_| random.random()).collect();
    post("noise", &[400], pick(random, &["/v1/check", "/v1/peek", "/v1/reset"]), body)
}

fn wrong_types(random: &mut StdRng) -> Random {
    let field = pick(random, &["domain", "attributes", "cost", "request_id", "surprise"]);
    let wrong = match random.random_range(0..5) {
        0 => json!(-1),
        1 => json!(true),
        2 => json!([[]]),
        3 => json!(1.5),
        _ => json!({ "": any_text(random, 20) }),
    };
    let mut body = json!({ "domain": "api", "attributes": { "ip": "203.0.113.9" } });
    body[field] = wrong;
    post("wrong types", &[400], "/v1/check", body.to_string())
}

fn any_attributes(random: &mut StdRng) -> Random {
    let mut attributes = serde_json::Map::new();
    for index in 0..random.random_range(0..70) {
        attributes.insert(format!("{index}{}", any_text(random, 25)), json!(any_text(random, 300)));
    }
    post(
        "any attributes",
        &[200, 400],
        "/v1/check",
        json!({ "domain": "api", "attributes": attributes }).to_string(),
    )
}

fn unknown_domain(random: &mut StdRng) -> Random {
    let body = json!({ "domain": format!("{}x", any_text(random, 40)), "attributes": {} });
    post("unknown domain", &[400], "/v1/check", body.to_string())
}

fn wrong_method(random: &mut StdRng) -> Random {
    let method = pick(random, &["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"]);
    let path = pick(random, &["/v1/check", "/v1/peek", "/v1/reset"]);
    Random { method: method.parse().expect("a method"), ..post("wrong method", &[405], path, "") }
}

fn wrong_path(random: &mut StdRng) -> Random {
    let path: String =
        (0..random.random_range(1..40)).map(|_| pick(random, &['a', '/', '.', '-', '7', '~'])).collect();
    // A dot before the second slash is how gRPC services look, and those are spoken to in another way.
    let in_a_service = path.split_once('/').is_some_and(|(first, _)| first.contains('.'));
    post("wrong path", if in_a_service { &[415] } else { &[404] }, &format!("/x{path}"), "{}")
}

fn wrong_type_header(random: &mut StdRng) -> Random {
    let mut request = post("wrong content type", &[415], "/v1/check", "{}");
    request.headers =
        vec![("content-type", pick(random, &["text/plain", "application/xml", "json"]).to_owned())];
    request
}

fn too_large(random: &mut StdRng) -> Random {
    let value = "v".repeat(random.random_range(70_000..80_000));
    let body = json!({ "domain": "api", "attributes": { "user": value } });
    post("too large", &[413], "/v1/check", body.to_string())
}

/// As proxies ask; a status for refusals that auth_request takes.
fn authorize(random: &mut StdRng) -> Random {
    let mut request = post("authorize", &[200, 403], "/v1/authorize?domain=api&deny_status=403", "");
    request.method = Method::GET;
    request.headers = vec![
        ("x-forwarded-for", format!("203.0.113.{}", random.random_range(0..=255))),
        ("x-original-uri", pick(random, &["/log", "/queue/1", "/a%20b?c=d"]).to_owned()),
        ("x-original-method", "GET".to_owned()),
    ];
    request
}

fn bad_authorize(random: &mut StdRng) -> Random {
    let query = pick(
        random,
        &["", "?domain=", "?domain=api&deny_status=999", "?domain=api&deny_status=x", "?nonsense=1"],
    );
    Random { method: Method::GET, ..post("bad authorize", &[400], &format!("/v1/authorize{query}"), "") }
}

fn any(random: &mut StdRng) -> Random {
    match random.random_range(0..1000) {
        0..300 => check(random),
        300..360 => peek(random),
        360..400 => reset(random),
        400..440 => batch(random),
        440..500 => with_request_id(random),
        500..600 => mutated(random),
        600..680 => noise(random),
        680..740 => wrong_types(random),
        740..790 => any_attributes(random),
        790..820 => unknown_domain(random),
        820..860 => wrong_method(random),
        860..890 => wrong_path(random),
        890..910 => wrong_type_header(random),
        910..915 => too_large(random),
        915..970 => authorize(random),
        _ => bad_authorize(random),
    }
}

/// What came of it: how often each kind got each status, and what each user was charged.
#[derive(Default)]
struct Tally {
    statuses: BTreeMap<(&'static str, u16), u64>,
    charged: BTreeMap<usize, u64>,
}

async fn caller(http: Http, seed: u64, asked: Arc<AtomicU64>, requests: u64) -> Tally {
    let mut random = StdRng::seed_from_u64(seed);
    let mut tally = Tally::default();
    while asked.fetch_add(1, Ordering::Relaxed) < requests {
        let request = any(&mut random);
        let headers: Vec<(&str, &str)> =
            request.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let shown = String::from_utf8_lossy(&request.body[..request.body.len().min(300)]).into_owned();
        let reply = http.send(request.method, &request.path, &headers, Bytes::from(request.body)).await;
        let status = reply.status.as_u16();
        assert!(
            request.may.contains(&status),
            "{}: {status} instead of {:?} for {} {shown}: {}",
            request.kind,
            request.may,
            request.path,
            reply.text()
        );
        *tally.statuses.entry((request.kind, status)).or_default() += 1;
        if let (Some((user, cost)), 200) = (request.charges, status) {
            *tally.charged.entry(user).or_default() += cost;
        }
    }
    tally
}

fn from_env(name: &str, default: u64) -> u64 {
    env::var(name)
        .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_requests_get_only_statuses_that_explain_themselves_and_no_limit_is_exceeded() {
    let (requests, seed) = (from_env("LEASEHOLD_REQUESTS", REQUESTS), from_env("LEASEHOLD_SEED", 1));
    let mut node = TestNode::start(RULES);
    let (asked, began) = (Arc::new(AtomicU64::new(0)), Deadline::after(Duration::MAX));
    let mut callers = JoinSet::new();
    for caller_index in 0..CALLERS {
        let seed = seed.wrapping_mul(CALLERS).wrapping_add(caller_index);
        callers.spawn(caller(node.http(), seed, Arc::clone(&asked), requests));
    }
    let mut total = Tally::default();
    while let Some(ended) = callers.join_next().await {
        let tally = ended.unwrap_or_else(|error| {
            panic!("{error}; repeat with LEASEHOLD_SEED={seed} LEASEHOLD_REQUESTS={requests} cargo test random_requests")
        });
        for (kind, count) in tally.statuses {
            *total.statuses.entry(kind).or_default() += count;
        }
        for (user, cost) in tally.charged {
            *total.charged.entry(user).or_default() += cost;
        }
    }
    report(&total, requests, began.elapsed());
    for (user, charged) in total.charged {
        assert!(charged <= USER_LIMIT, "user {user} was admitted {charged} of {USER_LIMIT}");
    }
    assert!(node.process.is_running(), "the node ended:\n{}", node.process.printed());
    assert!(!node.process.printed().contains("panicked"), "{}", node.process.printed());
    assert_eq!(node.http().get("/readyz").await.status, 200);
}

/// The tally as a table, past the harness for those who asked for many.
fn report(total: &Tally, requests: u64, took: Duration) {
    if env::var_os("LEASEHOLD_REQUESTS").is_none() {
        return;
    }
    let mut stderr = std::io::stderr().lock();
    let _ = writeln!(stderr, "{requests} requests in {took:.1?}");
    for ((kind, status), count) in &total.statuses {
        let _ = writeln!(stderr, "{kind:<20} {status} {count:>9}");
    }
}
