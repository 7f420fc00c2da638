//! The golden changes of rules, event by event, through `apply`: every change is the next version, in force from its stamp,
//! and no counter is told of it until it is asked.

use std::path::Path;

use leasehold_limit::{CalendarUnit, RetryAfter, Window, Zone};
use serde_json::{Value, json};

use super::*;

/// Cases in the file this test was written for.
const CASES: usize = 20;

#[test]
fn every_golden_rule_change_comes_out_the_same_whenever_a_counter_is_asked() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/rule_change.json");
    let text = std::fs::read_to_string(&path).expect("the golden file");
    let cases: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    assert_eq!(cases.len(), CASES);
    let mistakes: Vec<String> = cases.iter().flat_map(check_case).collect();
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

fn check_case(case: &Value) -> Vec<String> {
    let spec = |version, since, policy| LimitSpec {
        tenant: TenantId(1),
        version: RulesVersion(version),
        since,
        limit: limit(policy),
    };
    let mut bench = Bench::new([spec(1, Stamp::ZERO, &case["policy"])]);
    let mut mistakes = Vec::new();
    for (index, event) in case["events"].as_array().expect("events").iter().enumerate() {
        let at = Stamp(number(event, "t_ns"));
        if let Some(policy) = event.get("set_policy") {
            let version = bench.limits[0].version.0 + 1;
            bench.limits = vec![spec(version, at, policy)];
            continue;
        }
        let batch = Batch {
            limits: bench.limits.clone(),
            commands: vec![acquire([take(1, number(event, "cost"))])],
            ..Batch::default()
        };
        let reply = acquired(bench.shard.apply(&batch, at).remove(0));
        for (field, expected) in event["expect"].as_object().expect("expectations") {
            let got = answer(&reply, field);
            if got != *expected {
                mistakes.push(format!("{} event {index}: {field} is {got}, expected {expected}", case["id"]));
            }
        }
    }
    mistakes
}

fn answer(reply: &Acquired, field: &str) -> Value {
    let decision = &reply.decisions[0];
    match field {
        "allowed" => json!(reply.admitted),
        "remaining" => json!(decision.remaining),
        "retry_after_ns" => match decision.retry_after {
            None => Value::Null,
            Some(RetryAfter::In(wait)) => json!(wait.0),
            Some(RetryAfter::Never) => json!("never"),
        },
        "reset_after_ns" => json!(decision.reset_after.0),
        other => panic!("no such field: {other}"),
    }
}

fn number(from: &Value, field: &str) -> u64 {
    from[field].as_u64().unwrap_or_else(|| panic!("{field} in {from}"))
}

fn limit(policy: &Value) -> Limit {
    let n = number(policy, "n");
    let period = Nanos(policy["p"].as_u64().unwrap_or(0));
    let algorithm = match policy["algorithm"].as_str().expect("an algorithm") {
        "token_bucket" => Algorithm::TokenBucket { burst: n },
        "leaky_bucket" => Algorithm::LeakyBucket { burst: n },
        "fixed_window" => Algorithm::FixedWindow(match policy.get("unit") {
            None => Window::Epoch,
            Some(unit) => {
                assert_eq!(unit, "month", "the only calendar window in the file");
                Window::Calendar { unit: CalendarUnit::Month, zone: Zone::utc() }
            }
        }),
        "sliding_log" => Algorithm::SlidingLog,
        "sliding_counter" => Algorithm::SlidingCounter,
        other => panic!("no such algorithm: {other}"),
    };
    Limit::new(algorithm, n, period).expect("valid")
}
