//! The load generator against small servers of its own: what it sends, counts and reports.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_wire::Message;
use leasehold_wire::proto::envoy::service::ratelimit::v3::RateLimitRequest;
use leasehold_wire::proto::leasehold::v1 as pb;
use serde_json::Value;

use super::keys::{Distribution, Sampler};
use super::plan::{End, Plan, Protocol, target};
use super::template::Template;
use super::{cpu, run};

fn plan(protocol: Protocol) -> Plan {
    Plan {
        authority: "127.0.0.1:1".to_owned(),
        address: "127.0.0.1:1".parse().unwrap(),
        protocol,
        connections: 1,
        streams: 1,
        threads: 1,
        batch: 1,
        rate: None,
        domain: "api".to_owned(),
        attributes: vec![
            ("user".to_owned(), "u-{key}-{key}".to_owned()),
            ("plan".to_owned(), "free".to_owned()),
        ],
        cost: 3,
        keys: 1_000,
        distribution: Distribution::Uniform,
        warmup: Duration::ZERO,
        end: End::After(Duration::from_millis(600)),
        cpu_of: None,
        seed: 1,
    }
}

fn filled(plan: &Plan) -> Vec<u8> {
    let mut key = 41;
    let request = Template::new(plan).unwrap().fill(|| {
        key += 1;
        key
    });
    request.to_vec()
}

/// What is behind gRPC's prefix, whose length must be right.
fn payload(bytes: &[u8]) -> &[u8] {
    assert_eq!(bytes[0], 0);
    assert_eq!(u32::from_be_bytes(bytes[1..5].try_into().unwrap()) as usize, bytes.len() - 5);
    &bytes[5..]
}

#[test]
fn a_request_carries_its_key_wherever_an_attribute_names_it() {
    let bytes = filled(&plan(Protocol::Grpc));
    let check = pb::CheckRequest::decode(payload(&bytes)).unwrap();
    assert_eq!((check.domain.as_str(), check.cost), ("api", Some(3)));
    assert_eq!(check.attributes[0].value.as_ref(), b"u-00000042-00000042");
    assert_eq!(check.attributes[1].value.as_ref(), b"free");

    let request = String::from_utf8(filled(&plan(Protocol::Http))).unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(head.ends_with(&format!("content-length: {}", body.len())), "{head}");
    let json: Value = serde_json::from_str(body).unwrap();
    assert_eq!(json["attributes"]["user"], "u-00000042-00000042");
    assert_eq!(json["cost"], 3);
}

#[test]
fn every_check_of_a_batch_has_a_key_of_its_own() {
    let batch = |protocol| filled(&Plan { batch: 3, ..plan(protocol) });
    let bytes = batch(Protocol::GrpcBatch);
    let checks = pb::CheckBatchRequest::decode(payload(&bytes)).unwrap().checks;
    let values: Vec<_> = checks.iter().map(|check| check.attributes[0].value.clone()).collect();
    assert_eq!(values, ["u-00000042-00000042", "u-00000043-00000043", "u-00000044-00000044"]);

    let bytes = batch(Protocol::Rls);
    let descriptors = RateLimitRequest::decode(payload(&bytes)).unwrap().descriptors;
    let values: Vec<_> = descriptors.iter().map(|descriptor| descriptor.entries[0].value.clone()).collect();
    assert_eq!(values, ["u-00000042-00000042", "u-00000043-00000043", "u-00000044-00000044"]);
    assert!(descriptors.iter().all(|descriptor| descriptor.hits_addend == Some(3)));
}

#[test]
fn a_request_may_have_no_key_at_all() {
    let plan = Plan { attributes: Vec::new(), batch: 2, ..plan(Protocol::GrpcBatch) };
    let bytes = filled(&plan);
    assert_eq!(pb::CheckBatchRequest::decode(payload(&bytes)).unwrap().checks.len(), 2);
}

fn draw(distribution: Distribution, keys: u64, seed: u64) -> Vec<u64> {
    let mut sampler = Sampler::new(distribution, keys, seed);
    (0..20_000).map(|_| sampler.next()).collect()
}

#[test]
fn keys_stay_in_range_and_equal_seeds_draw_equal_keys() {
    for distribution in
        [Distribution::Uniform, Distribution::Zipf(0.0), Distribution::Zipf(1.0), Distribution::Zipf(2.5)]
    {
        for keys in [1, 2, 100] {
            let drawn = draw(distribution, keys, 7);
            assert!(drawn.iter().all(|key| *key < keys), "{distribution} of {keys}");
            assert_eq!(drawn, draw(distribution, keys, 7));
        }
    }
    assert_ne!(draw(Distribution::Uniform, 100, 1), draw(Distribution::Uniform, 100, 2));
}

#[test]
fn zipf_asks_the_first_key_twice_as_often_as_the_second() {
    let mut counts = BTreeMap::new();
    for key in draw(Distribution::Zipf(1.0), 1_000, 3) {
        *counts.entry(key).or_insert(0_i32) += 1;
    }
    let (first, second, tenth) = (counts[&0], counts[&1], counts[&9]);
    assert!((first - 2 * second).abs() < first / 5, "{first} and {second}");
    assert!((first - 10 * tenth).abs() < first / 3, "{first} and {tenth}");
}

fn check_distribution(text: &str, expected: Option<Distribution>) {
    assert_eq!(text.parse().ok(), expected, "{text}");
}

#[test]
fn distributions_are_read_from_the_command_line() {
    check_distribution("uniform", Some(Distribution::Uniform));
    check_distribution("zipf", Some(Distribution::Zipf(1.0)));
    check_distribution("zipf:0.9", Some(Distribution::Zipf(0.9)));
    for wrong in ["", "uniform:2", "zipf:", "zipf:-1", "zipf:NaN", "zipf:inf", "pareto"] {
        check_distribution(wrong, None);
    }
}

#[test]
fn other_machines_are_left_alone_unless_they_are_meant() {
    let remote = Plan { address: "192.0.2.1:7600".parse().unwrap(), ..plan(Protocol::Grpc) };
    assert!(remote.check(false).unwrap_err().to_string().contains("--allow-remote"));
    remote.check(true).unwrap();
    plan(Protocol::Grpc).check(false).unwrap();
}

fn check_refused(plan: &Plan, flag: &str) {
    let error = plan.check(false).expect_err(flag).to_string();
    assert!(error.starts_with(flag), "{error}");
}

#[test]
fn a_plan_that_cannot_be_run_names_its_flag() {
    check_refused(&Plan { connections: 0, ..plan(Protocol::Grpc) }, "--connections");
    check_refused(&Plan { threads: 2, ..plan(Protocol::Grpc) }, "--threads");
    check_refused(&Plan { streams: 2, ..plan(Protocol::Http) }, "--streams");
    check_refused(&Plan { batch: 2, ..plan(Protocol::Grpc) }, "--batch");
    check_refused(&Plan { rate: Some(0), ..plan(Protocol::Grpc) }, "--rate");
    check_refused(&Plan { keys: 0, ..plan(Protocol::Grpc) }, "--keys");
    check_refused(&Plan { end: End::Requests(0), ..plan(Protocol::Grpc) }, "--requests");
    for wrong in ["", "localhost", "https://127.0.0.1:1", "http://127.0.0.1:port", "http://127.0.0.1:1/v1"] {
        assert!(target(wrong).is_err(), "{wrong}");
    }
    assert_eq!(target("http://127.0.0.1:7600/").unwrap().0, "127.0.0.1:7600");
}

#[test]
fn processor_time_is_read_behind_a_name_with_spaces_and_parentheses() {
    let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194560 100 0 0 0 250 150 0 0 20 0 3 0 100 1 1";
    assert_eq!(cpu::parse(stat), Some(Duration::from_secs(4)));
    assert_eq!(cpu::parse("7 (a) S 1"), None);
    assert_eq!(cpu::parse(""), None);
    cpu::used_by(std::process::id()).unwrap();
}

/// A server that answers every request with `status`, and once, at request `stall_at`, takes `stall` to do it.
fn server(status: &'static str, stall_at: u64, stall: Duration) -> (std::net::SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let served = Arc::new(AtomicU64::new(0));
    let counter = served.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let counter = counter.clone();
            std::thread::spawn(move || serve(&stream.unwrap(), status, stall_at, stall, &counter));
        }
    });
    (address, served)
}

fn serve(stream: &TcpStream, status: &str, stall_at: u64, stall: Duration, served: &AtomicU64) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line == "\r\n" {
                break;
            }
        }
        reader.read_exact(&mut vec![0; length]).ok()?;
        if served.fetch_add(1, Ordering::Relaxed) == stall_at {
            std::thread::sleep(stall);
        }
        (&*stream)
            .write_all(format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\n\r\n{{}}").as_bytes())
            .ok()?;
    }
}

/// Runs that measure time don't run beside each other.
static ALONE: Mutex<()> = Mutex::new(());

fn report(plan: Plan) -> Value {
    let _alone = ALONE.lock();
    serde_json::to_value(run(plan, false).unwrap()).unwrap()
}

#[test]
fn an_open_loop_charges_a_stall_to_everybody_who_would_have_waited() {
    let (address, _) = server("200 OK", 100, Duration::from_millis(300));
    let report = report(Plan { address, rate: Some(1_000), ..plan(Protocol::Http) });
    let latency = &report["latency_us"];
    let service = &report["service_us"];
    // 300 of about 600 requests were due during the stall; only one was on its way.
    assert!(latency["p90"].as_f64().unwrap() > 100_000.0, "{report}");
    assert!(service["p90"].as_f64().unwrap() < 50_000.0, "{report}");
    assert!(service["max"].as_f64().unwrap() > 250_000.0, "{report}");
    assert!(report["requests"].as_u64().unwrap() + report["unsent"].as_u64().unwrap() >= 590, "{report}");
}

#[test]
fn an_open_loop_says_what_it_could_not_send() {
    let (address, _) = server("200 OK", 0, Duration::from_secs(1));
    let report = report(Plan { address, rate: Some(1_000), ..plan(Protocol::Http) });
    assert!(report["unsent"].as_u64().unwrap() > 500, "{report}");
}

#[test]
fn a_run_by_requests_sends_exactly_so_many_over_all_threads() {
    let (address, served) = server("429 Too Many Requests", u64::MAX, Duration::ZERO);
    let plan = Plan { address, connections: 3, threads: 2, end: End::Requests(501), ..plan(Protocol::Http) };
    let report = report(plan);
    assert_eq!((report["denied"].as_u64(), report["allowed"].as_u64()), (Some(501), Some(0)), "{report}");
    assert_eq!(served.load(Ordering::Relaxed), 501);
}

#[test]
fn what_is_sent_to_warm_up_is_not_counted() {
    let (address, served) = server("200 OK", u64::MAX, Duration::ZERO);
    let plan =
        Plan { address, warmup: Duration::from_millis(100), end: End::Requests(10), ..plan(Protocol::Http) };
    assert_eq!(report(plan)["requests"], 10);
    assert!(served.load(Ordering::Relaxed) > 10);
}

#[test]
fn errors_are_counted_by_kind_and_are_no_decisions() {
    let (address, _) = server("503 Service Unavailable", u64::MAX, Duration::ZERO);
    let report = report(Plan { address, end: End::Requests(20), ..plan(Protocol::Http) });
    assert_eq!(report["errors"]["HTTP status 503"], 20, "{report}");
    assert_eq!(report["decisions"], 0);
}
