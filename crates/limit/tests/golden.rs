//! The golden cases, event by event, through the same time line that a shard uses. Only what a case states is compared.

#![expect(
    clippy::unwrap_used,
    reason = "a test reports bad input by panicking, and the lint only spares #[test] functions"
)]

use std::path::Path;

use leasehold_limit::{Algorithm, Ask, CalendarUnit, Decision, Limit, RetryAfter, State, Window, Zone};
use leasehold_model::{Nanos, Stamp, TimeLine};
use serde_json::{Map, Value, json};

#[test]
fn every_golden_decision_is_met() {
    check_file("decisions.json", 52);
}

#[test]
fn every_golden_rule_change_keeps_used_tokens_used() {
    check_file("rule_change.json", 20);
}

fn check_file(name: &str, cases: usize) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert_eq!(file.len(), cases, "{name} has another number of cases than this test was written for");
    let mistakes: Vec<String> = file.iter().flat_map(check_case).collect();
    assert!(mistakes.is_empty(), "{name}:\n{}", mistakes.join("\n"));
}

/// One counter of one case, and the clock that only moves forward.
struct Replay {
    limit: Limit,
    state: State,
    line: TimeLine,
}

fn check_case(case: &Value) -> Vec<String> {
    let limit = limit(&case["policy"]);
    let mut replay = Replay { state: limit.fresh(), limit, line: TimeLine::default() };
    let events = case["events"].as_array().unwrap();
    assert!(!events.is_empty(), "{} has no events", case["id"]);
    let mut allowed = 0_u64;
    let mut mistakes = Vec::new();
    for (index, event) in events.iter().enumerate() {
        let Some(answer) = replay.play(event) else { continue };
        allowed += u64::from(answer.get("allowed") == Some(&json!(true)));
        for (field, expected) in event["expect"].as_object().unwrap() {
            let got = answer.get(field).unwrap_or(&Value::Null);
            if got != expected {
                mistakes.push(format!("{} event {index}: {field} is {got}, expected {expected}", case["id"]));
            }
        }
    }
    if let Some(total) = case.get("total_allowed").filter(|&total| *total != allowed) {
        mistakes.push(format!("{}: {allowed} allowed in all, expected {total}", case["id"]));
    }
    mistakes
}

impl Replay {
    /// The answer to an ask; `None` for a change of the limit.
    fn play(&mut self, event: &Value) -> Option<Map<String, Value>> {
        let at = Stamp(event["t_ns"].as_u64().unwrap());
        if let Some(policy) = event.get("set_policy") {
            let at = self.line.advance(at);
            let old = std::mem::replace(&mut self.limit, limit(policy));
            self.limit.carry_over(&old, &mut self.state, at);
            return None;
        }
        let Ok(cost) = u64::try_from(cost(event)) else {
            return Some(Map::from_iter([("error".to_owned(), json!("invalid_cost"))]));
        };
        let at = self.line.advance(at);
        Some(answer(&self.limit.acquire(&mut self.state, at, Ask::exactly(cost))))
    }
}

/// A golden cost is any integer from −2^63 to 2^64 − 1; whoever reads a cost from outside refuses the negative ones.
fn cost(event: &Value) -> i128 {
    let cost = &event["cost"];
    cost.as_i64().map(i128::from).or_else(|| cost.as_u64().map(i128::from)).expect("an integer cost")
}

fn answer(decision: &Decision) -> Map<String, Value> {
    let retry = match decision.retry_after {
        None => Value::Null,
        Some(RetryAfter::In(wait)) => json!(wait.0),
        Some(RetryAfter::Never) => json!("never"),
    };
    let fields = [
        ("allowed", json!(decision.allowed)),
        ("remaining", json!(decision.remaining)),
        ("retry_after_ns", retry),
        ("reset_after_ns", json!(decision.reset_after.0)),
        ("wait_ns", json!(decision.wait.map(|wait| wait.0))),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn limit(policy: &Value) -> Limit {
    let n = policy["n"].as_u64().unwrap();
    let period = Nanos(policy["p"].as_u64().unwrap_or(0));
    let algorithm = match policy["algorithm"].as_str().unwrap() {
        "token_bucket" => Algorithm::TokenBucket { burst: policy["burst"].as_u64().unwrap_or(n) },
        "leaky_bucket" => Algorithm::LeakyBucket { burst: policy["burst"].as_u64().unwrap_or(n) },
        "shaper" => Algorithm::Shaper { queue: policy["queue"].as_u64().unwrap() },
        "fixed_window" => Algorithm::FixedWindow(window(policy)),
        "sliding_log" => Algorithm::SlidingLog,
        "sliding_counter" => Algorithm::SlidingCounter,
        other => panic!("no such algorithm: {other}"),
    };
    Limit::new(algorithm, n, period).unwrap()
}

fn window(policy: &Value) -> Window {
    let Some(unit) = policy.get("unit") else { return Window::Epoch };
    let unit = match unit.as_str().unwrap() {
        "minute" => CalendarUnit::Minute,
        "hour" => CalendarUnit::Hour,
        "day" => CalendarUnit::Day,
        "week" => CalendarUnit::Week,
        "month" => CalendarUnit::Month,
        "year" => CalendarUnit::Year,
        other => panic!("no such unit: {other}"),
    };
    let zone = Zone::new(policy.get("zone").map_or("UTC", |zone| zone.as_str().unwrap())).unwrap();
    Window::Calendar { unit, zone }
}
