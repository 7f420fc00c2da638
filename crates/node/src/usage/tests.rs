//! What operators are told of a node that runs alone.

use std::sync::Arc;

use leasehold_decide::{Authority, Proposal, TopKeys};
use leasehold_front::{Admin, Decider};
use leasehold_lease::{EdgeId, LIFETIME_DEFAULT, LeaseAsk, MilliRate};
use leasehold_limit::check::{Attribute, Descriptor, Request};
use leasehold_model::Stamp;
use leasehold_shard::{Batch, Bounds, Command, LeaseCommand, LimitSpec};

use super::*;
use crate::authority::LocalAuthority;
use crate::metrics::Metrics;
use crate::rules::{FileRules, Keeper, Source};

const RULES: &str = "{domain: d, limits: [{name: users, per: [user], limit: 1000/day}]}";

fn core(keep_values: bool) -> Core<LocalAuthority> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rules.yaml");
    std::fs::write(&path, RULES).expect("written");
    let (metrics, secret) = (Arc::new(Metrics::new()), KeySecret::new([7; 16]));
    let rules = FileRules::load(Source::File(path), secret, Arc::clone(&metrics), None).expect("valid rules");
    let keeper = Keeper::Files(Arc::new(rules));
    let authority = LocalAuthority::new(Bounds::default());
    Core::new(keeper, authority, metrics, TopKeys::new(keep_values), 256)
}

/// Lends 40 units of a user's counter.
async fn lend(core: &Core<LocalAuthority>) {
    let active = core.rules.active().expect("loaded");
    let rule = &active.book.domains["d"].rules[0];
    let key = leasehold_limit::rule_key(&core.rules.secret(), "d", "users", [Some(&b"ann"[..])].into_iter());
    let limit = LimitSpec {
        tenant: rule.tenant,
        version: active.book.version,
        since: Stamp::ZERO,
        limit: rule.limit.as_ref().clone(),
    };
    let (edge, rate) = (EdgeId(0xff), MilliRate(1_000));
    let ask = LeaseAsk { edge, key, need: 0, want: 40, rate, lifetime: LIFETIME_DEFAULT, usage: Vec::new() };
    let commands = vec![Command::Lease(LeaseCommand { id: None, limit: 0, ask })];
    let batch = Batch { limits: vec![limit], commands, ..Batch::default() };
    core.authority.propose(Proposal { batch, terms: Vec::new() }, None).await.expect("it is here");
}

async fn check_many(core: &Core<LocalAuthority>, user: &str, times: usize) {
    let attributes = vec![Attribute { name: "user", value: user.as_bytes() }];
    let descriptors = vec![Descriptor { attributes, cost: 1, limit_override: None }];
    let request = Request { domain: "d", descriptors, request_id: None };
    for _ in 0..times {
        core.check(&request, None).await.expect("decided");
    }
}

fn query(show_values: bool) -> TopKeysQuery<'static> {
    TopKeysQuery { domain: Some("d"), most: 10, show_values, this_node: false }
}

#[tokio::test]
async fn a_node_that_runs_alone_tells_what_it_lends_by_domain_and_on_its_page() {
    let core = core(false);
    assert_eq!(core.lent(None, 10).await, Ok(LeasesStatus::default()));
    lend(&core).await;
    let told = core.lent(Some("d"), 10).await.expect("it is here");
    let [lease] = &*told.leases else { panic!("{told:?}") };
    assert_eq!((lease.domain.as_deref(), lease.edge, lease.out()), (Some("d"), 0xff, 40));
    assert_eq!((told.totals.leases, told.totals.out, told.totals.grants), (1, 40, 1));
    let other = core.lent(Some("other"), 10).await.expect("it is here");
    assert_eq!((other.leases.len(), other.totals.out), (0, 40));
    let page = core.metrics();
    for line in [
        "leasehold_leases 1",
        "leasehold_lease_out_units 40",
        r#"leasehold_lease_units_total{shard="0",state="granted"} 40"#,
    ] {
        assert!(page.lines().any(|found| found == line), "{line} is not on\n{page}");
    }
    assert!(!page.contains(&lease.key.to_string()[..8]), "a key is on the page");
}

#[tokio::test]
async fn the_keys_asked_for_most_often_are_those_that_were_and_nameless() {
    let core = core(false);
    check_many(&core, "ann", 6_000).await;
    check_many(&core, "bob", 1_000).await;
    let told = core.asked_most(query(false)).await.expect("hashes are told");
    let ann = leasehold_limit::rule_key(&core.rules.secret(), "d", "users", [Some(&b"ann"[..])].into_iter());
    let first = told.keys.first().expect("some were drawn");
    assert_eq!((first.key, &*first.rule, first.values.len(), first.error), (ann, "users", 0, 0));
    assert!((3_000..9_000).contains(&first.requests), "{}", first.requests);
    assert!(first.refused > 0 && first.refused < first.requests, "{}", first.refused);
    let refused = core.asked_most(query(true)).await.expect_err("values are not kept");
    assert!(refused.to_string().contains("admin.show_key_values"), "{refused}");
}

#[tokio::test]
async fn whose_keys_they_are_is_told_only_to_those_who_ask_where_it_is_kept() {
    let core = core(true);
    check_many(&core, "ann", 1_000).await;
    let values = async |show| core.asked_most(query(show)).await.expect("kept").keys[0].values.clone();
    assert_eq!(values(true).await, [("user".to_owned(), "ann".to_owned())]);
    assert_eq!(values(false).await, []);
}
