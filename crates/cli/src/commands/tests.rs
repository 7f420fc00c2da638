//! The command line: what parses, and to what.

use clap::CommandFactory;

use super::*;

fn check_accepts(line: &str) {
    if let Err(error) = Cli::try_parse_from(line.split_whitespace()) {
        panic!("{line}: {error}");
    }
}

fn check_refuses(line: &str, expected: &str) {
    let error = Cli::try_parse_from(line.split_whitespace()).expect_err(line);
    assert!(error.to_string().contains(expected), "{line}: {error}");
    assert!(error.use_stderr(), "{line}: printed as help");
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn output_may_stand_before_or_after_the_command() {
    check_accepts("leasehold --output json check api");
    check_accepts("leasehold check api ip=1.2.3.4 --output json");
}

#[test]
fn simulate_takes_a_policy_or_a_comparison_not_both() {
    check_accepts("leasehold simulate policy.json events.jsonl --output svg");
    check_accepts("leasehold simulate --compare events.jsonl --limit 10/90s");
    check_refuses("leasehold simulate policy.json", "EVENTS.jsonl");
    check_refuses(
        "leasehold simulate policy.json events.jsonl --compare events.jsonl",
        "cannot be used with",
    );
    check_refuses("leasehold simulate policy.json events.jsonl --limit 5/min", "cannot be used with");
    check_refuses("leasehold simulate --compare events.jsonl --limit 5", "is no rate");
}

#[test]
fn an_attribute_without_a_name_is_refused() {
    check_accepts("leasehold check api note=a=b empty=");
    check_refuses("leasehold check api alice", "name=value");
    check_refuses("leasehold check api =alice", "is empty");
}

#[test]
fn a_node_needs_a_configuration_or_prints_one() {
    check_accepts("leasehold node --print-default-config");
    check_refuses("leasehold node", "--config");
    check_refuses("leasehold node --config a.yaml --print-default-config", "cannot be used with");
}

#[test]
fn what_is_given_empty_is_not_taken_for_left_out() {
    let refused = |line: &[&str]| Cli::try_parse_from(line).expect_err("empty").to_string();
    assert!(refused(&["leasehold", "check", "api", "--request-id", ""]).contains("--request-id"));
    assert!(refused(&["leasehold", "reset", "api", "--rule", ""]).contains("--rule"));
    check_refuses("leasehold simulate --compare events.jsonl --limit 0/min", "--limit");
}
