//! What is read of scenarios, what is refused, and that a seed plans the same again.

use super::*;

const SMALL: &str = r#"
about = "One node is killed."
topology = { nodes = 3, edges = 1 }
phases = { trouble_s = 20 }

[[limit]]
name = "hot"
amount = 40
period_s = 1

[[load]]
limits = ["hot"]
doors = "nodes"
ids = true
rate = 100

[[fault]]
kind = "kill"
target = "leader"
at_s = 2
every_s = [4, 6]
for_s = 1.5
"#;

#[track_caller]
fn check_refused(old: &str, new: &str, expected: &str) {
    assert!(SMALL.contains(old), "{old}");
    let error = Scenario::read("small", &SMALL.replace(old, new)).expect_err("it has a mistake");
    assert_eq!(error.to_string(), format!("small.toml: {expected}"));
}

#[test]
fn a_mistake_is_named_with_its_field_and_what_to_write_instead() {
    check_refused(r#"target = "leader""#, "", "fault[0].target: kill is done to somebody; name the target");
    check_refused(
        r#"target = "leader""#,
        r#"target = "node-3""#,
        "fault[0].target: there is no node-3; count from 0 to 2",
    );
    check_refused(
        r#"kind = "kill""#,
        r#"kind = "clock-step""#,
        "fault[0].seconds: clock-step needs it; write a number, or [least, most]",
    );
    check_refused(
        r#"limits = ["hot"]"#,
        r#"limits = ["cold"]"#,
        r#"load[0].limits: no limit is called "cold"; name a [[limit]]"#,
    );
    check_refused(
        "rate = 100",
        "rate = 5000",
        "load.rate: 5000 checks a second in all; ask for 2000 at most",
    );
    check_refused(
        "nodes = 3, edges = 1",
        "nodes = 9, edges = 2",
        "topology.nodes: 9 nodes and 2 edges; run at least a node, and 10 processes at most",
    );
}

#[test]
fn an_unknown_field_and_an_unknown_kind_are_refused_where_they_are() {
    for (old, new, field) in [
        ("rate = 100", "rates = 100", "load[0]"),
        (r#"kind = "kill""#, r#"kind = "explode""#, "fault[0].kind"),
        (r#"target = "leader""#, r#"target = "everybody""#, "fault[0].target"),
    ] {
        let error = Scenario::read("small", &SMALL.replace(old, new)).expect_err("it has a mistake");
        assert!(error.field.starts_with(field), "{error}");
    }
}

#[test]
fn a_seed_plans_the_same_again_and_another_seed_something_else() {
    let scenario = Scenario::read("small", SMALL).expect("it has no mistake");
    let trouble = scenario.trouble(None);
    let planned = plan(&scenario, 7, trouble);
    assert_eq!(planned, plan(&scenario, 7, trouble));
    assert_ne!(planned, plan(&scenario, 8, trouble));
    assert!((3..=5).contains(&planned.len()), "{planned:?}");
    assert!(planned.iter().all(|one| one.at + one.lasts <= trouble), "{planned:?}");
}

#[test]
fn every_scenario_that_comes_with_the_harness_can_be_read_and_has_a_history_of_its_faults() {
    for name in names() {
        let scenario = Scenario::named(name).unwrap_or_else(|error| panic!("{error}"));
        let planned = plan(&scenario, 1, scenario.trouble(None));
        let happens = |fault: usize| planned.iter().any(|one| one.fault == fault);
        assert!((0..scenario.faults.len()).all(happens), "{name}: a fault never comes: {planned:?}");
    }
    assert!(short().iter().all(|name| Scenario::named(name).is_ok()));
}

#[test]
fn the_rules_of_every_scenario_are_rules() {
    for name in names() {
        let scenario = Scenario::named(name).unwrap_or_else(|error| panic!("{error}"));
        let pushed: Vec<LimitSpec> = scenario.limits.iter().map(LimitSpec::pushed).collect();
        for limits in [&scenario.limits, &pushed] {
            let text = yaml(limits);
            let parsed =
                leasehold_limit::rules::parse("rules.yaml", &text, &leasehold_limit::KeySecret::new([7; 16]));
            assert!(parsed.is_ok(), "{name}: {parsed:?}\n{text}");
        }
    }
}
