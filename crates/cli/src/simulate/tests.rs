//! Every golden case through the path that `simulate --output json` takes: file formats in, field names out.

use serde_json::Value;

use super::policy::PolicyFile;
use super::*;

fn golden(file: &str) -> Vec<Value> {
    let path = format!("{}/../../tests/golden/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap()
}

fn policy(value: &Value) -> Result<Limit, policy::PolicyError> {
    serde_json::from_value::<PolicyFile>(value.clone()).unwrap().limit()
}

fn lines(events: &Value) -> String {
    events.as_array().unwrap().iter().map(|event| format!("{event}\n")).collect()
}

fn check_case(case: &Value) -> usize {
    let id = &case["id"];
    let events =
        events::read(lines(&case["events"]).as_bytes()).unwrap_or_else(|error| panic!("{id}: {error:#}"));
    let answers = replay(&policy(&case["policy"]).unwrap(), &events);
    let given = case["events"].as_array().unwrap();
    assert_eq!(answers.len(), given.len(), "{id}");
    let mut compared = 0;
    for (index, (answer, event)) in answers.iter().zip(given).enumerate() {
        let answer = answer.to_json();
        for (field, expected) in event["expect"].as_object().into_iter().flatten() {
            assert_eq!(&answer[field], expected, "{id}, event {index}, {field}");
            assert!(answer.get(field).is_some(), "{id}, event {index}: {field} is missing");
            compared += 1;
        }
    }
    if let Some(total) = case["total_allowed"].as_u64() {
        let allowed: u64 = answers.iter().filter_map(|step| step.answer.taken()).sum();
        assert_eq!(allowed, total, "{id}");
    }
    compared
}

fn check_file(file: &str) {
    let compared: usize = golden(file).iter().map(check_case).sum();
    assert!(compared > 100, "{file}: only {compared} fields compared");
}

#[test]
fn every_golden_decision_comes_out_field_by_field() {
    check_file("decisions.json");
}

#[test]
fn every_golden_rule_change_comes_out_field_by_field() {
    check_file("rule_change.json");
}

/// The requests allowed by fixed window, sliding log, sliding counter, token bucket and leaky bucket.
fn check_totals(example: &str, expected: [u64; 5]) {
    let path = format!("{}/examples/{example}", env!("CARGO_MANIFEST_DIR"));
    let events = events::read(std::fs::read(path).unwrap().as_slice()).unwrap();
    let limits = "5/min".parse::<policy::Rate>().unwrap().under_every_algorithm().unwrap();
    let totals: Vec<_> = limits.iter().map(|limit| compare::Lane::new(limit, &events).totals).collect();
    let names: Vec<_> = totals.iter().map(|totals| totals.algorithm.as_str()).collect();
    assert_eq!(
        names,
        ["fixed_window", "sliding_log", "sliding_counter", "token_bucket", "leaky_bucket", "shaper"]
    );
    let allowed: Vec<_> = totals.iter().take(5).map(|totals| totals.allowed).collect();
    assert_eq!(allowed, expected, "{example}");
}

#[test]
fn two_bursts_across_a_window_boundary_show_what_each_algorithm_lets_through() {
    check_totals("bursts-59s-60s.jsonl", [10, 5, 5, 5, 5]);
}

#[test]
fn two_bursts_half_a_minute_apart_show_what_each_algorithm_lets_through() {
    check_totals("bursts-59s-90s.jsonl", [10, 5, 8, 7, 7]);
}

fn check_policy_error(policy_text: &str, expected: &str) {
    let error = match serde_json::from_str::<PolicyFile>(policy_text) {
        Ok(policy) => policy.limit().expect_err(policy_text).to_string(),
        Err(error) => error.to_string(),
    };
    assert!(error.contains(expected), "{policy_text}: {error}");
}

#[test]
fn a_policy_that_cannot_be_names_its_field() {
    check_policy_error(r#"{"algorithm": "token_bucket", "n": 5, "p": 0}"#, "p: ");
    check_policy_error(r#"{"algorithm": "token_bucket", "n": 5}"#, "p: ");
    check_policy_error(r#"{"algorithm": "token_bucket", "n": 0, "p": 1}"#, "n: ");
    check_policy_error(r#"{"algorithm": "token_bucket", "n": 5, "p": 1, "burst": 0}"#, "burst: ");
    check_policy_error(r#"{"algorithm": "shaper", "n": 5, "p": 1, "queue": 0}"#, "queue: ");
    check_policy_error(
        r#"{"algorithm": "sliding_log", "n": 5, "p": 1, "burst": 9}"#,
        "burst: sliding_log has none",
    );
    check_policy_error(r#"{"algorithm": "fixed_window", "n": 5, "unit": "day", "zone": "Mars"}"#, "zone: ");
    check_policy_error(r#"{"algorithm": "fixed_window", "n": 5, "p": 1, "zone": "UTC"}"#, "zone: ");
    check_policy_error(r#"{"algorithm": "fixed_window", "n": 5, "p": 1, "unit": "day"}"#, "unit: ");
    check_policy_error(r#"{"algorithm": "token_bucket", "n": 1.5, "p": 1}"#, "1.5");
    check_policy_error(r#"{"algorithm": "tokenbucket", "n": 5, "p": 1}"#, "tokenbucket");
    check_policy_error(r#"{"algorithm": "token_bucket", "n": 5, "p": 1, "brust": 2}"#, "brust");
}

fn check_events_error(text: &str, expected: &[&str]) {
    let error = format!("{:#}", events::read(text.as_bytes()).expect_err(text));
    for part in expected {
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn a_bad_event_names_its_line_and_field() {
    check_events_error("{\"t_ns\": 1, \"cost\": 1}\n\n{\"t_ns\": 1}", &["line 3", "cost"]);
    check_events_error("{\"t_ns\": 1, \"csot\": 1}", &["line 1", "csot"]);
    check_events_error("{\"t_ns\": -1, \"cost\": 1}", &["line 1", "-1"]);
    check_events_error("{\"t_ns\": 1, \"cost\": 0.5}", &["line 1", "0.5"]);
    check_events_error(&"x".repeat(100_000), &["line 1", "longer"]);
}

fn check_rate(text: &str, expected: Option<(u64, u64)>) {
    let rate = text.parse::<policy::Rate>().ok();
    let limit = rate.map(|rate| rate.under_every_algorithm().unwrap().swap_remove(0));
    assert_eq!(limit.map(|limit| (limit.n(), limit.period().0)), expected, "{text}");
}

#[test]
fn rates_are_read_as_rules_write_them() {
    check_rate("5/min", Some((5, 60_000_000_000)));
    check_rate("100/second", Some((100, 1_000_000_000)));
    check_rate("10/90s", Some((10, 90_000_000_000)));
    check_rate("7/250ms", Some((7, 250_000_000)));
    for wrong in
        ["5", "/min", "5/", "5/fortnight", "-5/min", "5/99999999999999999999s", "5/18446744073709551615h"]
    {
        check_rate(wrong, None);
    }
}
