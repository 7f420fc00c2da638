//! The metrics page.

use leasehold_limit::check::{Outcome, RuleAnswer, Source};
use leasehold_limit::rules::parse;
use leasehold_limit::{Ask, KeySecret};
use leasehold_model::Stamp;

use super::*;

fn book(version: u64, rules: &str) -> RuleBook {
    let text = format!("domain: d\nlimits:\n{rules}");
    let domain = parse("d.yaml", &text, &KeySecret::new([1; 16])).expect("valid rules");
    RuleBook::new(RulesVersion(version), vec![("d.yaml".to_owned(), domain)]).expect("one domain")
}

/// The series of one rule, in the order of the page.
fn series(metrics: &Metrics, rule: &str) -> Vec<String> {
    let label = format!("rule=\"{rule}\"");
    let page = metrics.page(0, 0);
    let mut lines: Vec<_> = page.lines().filter(|line| line.contains(&label)).map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn every_rule_has_its_series_from_the_start() {
    let metrics = Metrics::new(Registry::default(), "Counters held");
    let _meters = metrics.meters(&book(1, "  - { name: a, limit: 1/s, on_unavailable: deny }\n"));
    assert_eq!(
        series(&metrics, "a"),
        [
            r#"leasehold_decisions_total{domain="d",rule="a",decision="allowed",source="deny_cache"} 0"#,
            r#"leasehold_decisions_total{domain="d",rule="a",decision="allowed",source="fallback"} 0"#,
            r#"leasehold_decisions_total{domain="d",rule="a",decision="allowed",source="lease"} 0"#,
            r#"leasehold_decisions_total{domain="d",rule="a",decision="allowed",source="owner"} 0"#,
            r#"leasehold_decisions_total{domain="d",rule="a",decision="over_limit",source="deny_cache"} 0"#,
            r#"leasehold_decisions_total{domain="d",rule="a",decision="over_limit",source="fallback"} 0"#,
            r#"leasehold_decisions_total{domain="d",rule="a",decision="over_limit",source="lease"} 0"#,
            r#"leasehold_decisions_total{domain="d",rule="a",decision="over_limit",source="owner"} 0"#,
            r#"leasehold_decisions_total{domain="d",rule="a",decision="unavailable",source="declared"} 0"#,
            r#"leasehold_decisions_total{domain="d",rule="a",decision="unidentified",source="declared"} 0"#,
            r#"leasehold_degraded_total{domain="d",rule="a",mode="deny"} 0"#,
        ]
    );
    assert_eq!(series(&metrics, meters::OVERRIDE_LABEL).len(), 11);
}

#[test]
fn a_rule_that_is_gone_takes_its_series_along_and_others_keep_theirs() {
    let metrics = Metrics::new(Registry::default(), "Counters held");
    let old = book(1, "  - { name: a, limit: 1/s }\n  - { name: b, limit: 1/s }\n");
    let new = book(2, "  - { name: b, limit: 1/s, shadow: true }\n");
    let (before, after) = (metrics.meters(&old), metrics.meters(&new));
    metrics.forget_rules_missing_from(&old, &new);
    drop((before, after));
    assert_eq!(series(&metrics, "a"), [""; 0]);
    let of_b = series(&metrics, "b");
    assert_eq!(of_b.len(), 11, "{of_b:?}");
    assert!(of_b.iter().any(|line| line.contains("shadow_over_limit")), "{of_b:?}");
}

#[test]
fn a_decision_counts_with_whoever_took_it_and_a_stand_in_is_degraded_as_well() {
    let metrics = Metrics::new(Registry::default(), "Counters held");
    let book = book(1, "  - { name: a, limit: 1/s }\n");
    let meters = metrics.meters(&book);
    let rule = &book.domains["d"].rules[0];
    for source in [Source::Owner, Source::Lease, Source::Lease, Source::DenyCache, Source::Fallback] {
        let ask = Ask::exactly(if source == Source::DenyCache { 2 } else { 1 });
        let decision = rule.limit.decide(&rule.limit.fresh(), Stamp::ZERO, ask);
        let (rule, limit, outcome) = (Arc::clone(rule), Arc::clone(&rule.limit), Outcome::Decided(decision));
        meters.count(&RuleAnswer { rule, limit, outcome, source });
    }
    let counted: Vec<_> = series(&metrics, "a").into_iter().filter(|line| !line.ends_with(" 0")).collect();
    assert_eq!(
        counted,
        [
            r#"leasehold_decisions_total{domain="d",rule="a",decision="allowed",source="fallback"} 1"#,
            r#"leasehold_decisions_total{domain="d",rule="a",decision="allowed",source="lease"} 2"#,
            r#"leasehold_decisions_total{domain="d",rule="a",decision="allowed",source="owner"} 1"#,
            r#"leasehold_decisions_total{domain="d",rule="a",decision="over_limit",source="deny_cache"} 1"#,
            r#"leasehold_degraded_total{domain="d",rule="a",mode="allow"} 1"#,
        ]
    );
}

#[test]
fn the_page_tells_the_program_the_process_and_what_is_held() {
    let metrics = Metrics::new(Registry::default(), "Counters held");
    metrics.rules_version(RulesVersion(3));
    metrics.reload_accepted();
    metrics.duration.observe(Nanos(300));
    let page = metrics.page(12, 34);
    let version = env!("CARGO_PKG_VERSION");
    for line in [
        &format!("leasehold_build_info{{version=\"{version}\"}} 1"),
        "leasehold_rules_version 3",
        r#"leasehold_rules_reloads_total{result="accepted"} 1"#,
        r#"leasehold_rules_reloads_total{result="refused"} 0"#,
        "leasehold_keys 12",
        "leasehold_evictions_total 34",
        r#"leasehold_decision_duration_seconds_bucket{le="2.56e-7"} 0"#,
        r#"leasehold_decision_duration_seconds_bucket{le="5.12e-7"} 1"#,
        r#"leasehold_decision_duration_seconds_bucket{le="+Inf"} 1"#,
        "leasehold_decision_duration_seconds_count 1",
    ] {
        assert!(page.lines().any(|found| found == line), "{line} is not on\n{page}");
    }
    if cfg!(target_os = "linux") {
        assert!(!page.contains("process_resident_memory_bytes 0\n"), "{page}");
    }
}

#[test]
fn a_domain_spelled_wrongly_is_counted() {
    let metrics = Metrics::new(Registry::default(), "Counters held");
    metrics.unmatched(false);
    metrics.unmatched(false);
    metrics.unmatched(true);
    let page = metrics.page(0, 0);
    for line in [
        r#"leasehold_unmatched_requests_total{reason="no_such_domain"} 2"#,
        r#"leasehold_unmatched_requests_total{reason="no_matching_rule"} 1"#,
    ] {
        assert!(page.contains(line), "{line} in\n{page}");
    }
}
