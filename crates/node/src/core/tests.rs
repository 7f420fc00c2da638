//! What a node's counters and pages say of what its engine decides.

use leasehold_limit::check::{Attribute, Descriptor, Verdict};
use leasehold_limit::{Algorithm, Limit, Window};
use leasehold_shard::Bounds;

use super::*;
use crate::authority::LocalAuthority;
use crate::kept::Log;
use crate::metrics::Totals;
use crate::rules::{FileRules, Source};

/// Room for this many counters.
fn core(keys: u32, rules: &str) -> Core<LocalAuthority> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rules.yaml");
    std::fs::write(&path, rules).expect("written");
    let metrics = Arc::new(Metrics::new());
    let secret = KeySecret::new([7; 16]);
    let rules = FileRules::load(Source::File(path), secret, Arc::clone(&metrics), None).expect("valid rules");
    let bounds = Bounds { keys_per_tenant_max: keys, ..Bounds::default() };
    Core::new(Keeper::Files(Arc::new(rules)), LocalAuthority::new(bounds), metrics, TopKeys::new(true), 256)
}

fn request<'a>(attributes: &[(&'a str, &'a str)], cost: u64) -> Request<'a> {
    let attributes = attributes.iter().map(|(name, value)| Attribute { name, value: value.as_bytes() });
    let descriptor = Descriptor { attributes: attributes.collect(), cost, limit_override: None };
    Request { domain: "d", descriptors: vec![descriptor], request_id: None }
}

async fn check(core: &Core<LocalAuthority>, request: &Request<'_>) -> Verdict {
    core.check(request, None).await.expect("decided").verdict
}

/// Checks that the page has this line.
fn shows(core: &Core<LocalAuthority>, line: &str) {
    let page = core.metrics.page(0, 0);
    assert!(page.contains(line), "{line} is not in {page}");
}

const ONE_A_USER: &str = "{domain: d, limits: [{name: a, per: [user], limit: 1/day}]}";

#[tokio::test]
async fn what_is_decided_is_counted_and_a_peek_is_not() {
    let core = core(10, ONE_A_USER);
    for (cost, verdict) in [(0, Verdict::Allowed), (1, Verdict::Allowed), (1, Verdict::OverLimit)] {
        assert_eq!(check(&core, &request(&[("user", "u")], cost)).await, verdict);
    }
    assert_eq!(core.metrics.totals(), Totals { allowed: 1, over_limit: 1, unavailable: 0 });
    assert_eq!(core.authority.holdings().keys, 1);
}

#[tokio::test]
async fn what_is_answered_as_declared_is_counted_as_degraded() {
    for on_unavailable in ["allow", "deny", "local"] {
        let rules = format!(
            "{{domain: d, limits: [{{name: a, per: [user], limit: 10/day, on_unavailable: {on_unavailable}}}]}}"
        );
        let core = core(1, &rules);
        for user in ["first", "second"] {
            check(&core, &request(&[("user", user)], 1)).await;
        }
        shows(
            &core,
            &format!(r#"leasehold_degraded_total{{domain="d",rule="a",mode="{on_unavailable}"}} 1"#),
        );
    }
}

#[tokio::test]
async fn what_a_shadow_would_have_refused_is_counted() {
    let core = core(10, "{domain: d, limits: [{name: a, limit: 1/day, shadow: true}]}");
    for _ in 0..3 {
        assert_eq!(check(&core, &request(&[], 1)).await, Verdict::Allowed);
    }
    shows(
        &core,
        r#"leasehold_decisions_total{domain="d",rule="a",decision="shadow_over_limit",source="owner"} 2"#,
    );
}

#[tokio::test]
async fn a_rule_named_override_is_counted_apart_from_overrides() {
    let core = core(10, "{domain: d, limits: [{name: override, limit: 10/day}]}");
    let limit = Limit::new(Algorithm::FixedWindow(Window::Epoch), 2, Nanos::from_secs(86_400));
    let mut overridden = request(&[], 1);
    overridden.descriptors[0].limit_override = Some(limit.expect("valid"));
    check(&core, &overridden).await;
    for (rule, count) in [("override", 0), ("(override)", 1)] {
        shows(
            &core,
            &format!(
                r#"leasehold_decisions_total{{domain="d",rule="{rule}",decision="allowed",source="owner"}} {count}"#
            ),
        );
    }
}

#[tokio::test]
async fn why_the_rules_are_not_known_is_told() {
    let (metrics, secret) = (Arc::new(Metrics::new()), KeySecret::new([7; 16]));
    let rules = Arc::new(RulesInForce::unknown("nowhere".to_owned(), secret, Arc::clone(&metrics), None));
    let gate = Arc::new(Gate::closed("waiting for b"));
    let (top_keys, fullness) = (Arc::new(TopKeys::new(false)), Fullness::default());
    let base = Base { rules, metrics, gate, top_keys, fullness };
    let authority = Arc::new(LocalAuthority::new(Bounds::default()));
    let answered = Engine::new(base, authority, 256).check(&request(&[], 1), None).await;
    let Err(CheckError::Overloaded { reason, .. }) = answered else { panic!("{answered:?}") };
    assert_eq!(reason, "waiting for b");
}

#[tokio::test]
async fn a_request_leaves_a_trace_without_its_attributes_values() {
    let log = Log::keep();
    let core = core(10, ONE_A_USER);
    check(&core, &request(&[("user", "secret")], 1)).await;
    let text = log.text();
    for part in ["TRACE", "decided", "domain=\"d\"", "verdict=Allowed", "matched=1"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("secret"), "{text}");
}
