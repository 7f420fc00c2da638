//! What an operator is told, and each way to refuse rules.

use tonic::Code;

use super::*;
use crate::testing::{Fake, mistake};
use v1::admin_server::Admin as _;

fn service(put: Result<RulesVersion, AdminError>) -> AdminService<Fake> {
    AdminService { admin: Arc::new(Fake { put, ..Fake::allowing() }) }
}

async fn put(given: Result<RulesVersion, AdminError>, text: &str) -> Result<u64, Status> {
    let request = v1::PutRulesRequest { text: text.into(), expected_version: Some(7) };
    service(given).put_rules(tonic::Request::new(request)).await.map(|response| response.get_ref().version)
}

async fn check_put_refused(given: AdminError, expected: Code) {
    assert_eq!(put(Err(given), "rules").await.expect_err("it should be refused").code(), expected);
}

#[tokio::test]
async fn each_way_to_refuse_rules_has_its_status() {
    assert_eq!(put(Ok(RulesVersion(8)), "rules").await.unwrap(), 8);
    check_put_refused(AdminError::ReadOnly("files".into()), Code::FailedPrecondition).await;
    check_put_refused(AdminError::Failed("disk".into()), Code::Internal).await;
    let (expected, current) = (RulesVersion(7), RulesVersion(9));
    check_put_refused(AdminError::Conflict { expected, current }, Code::Aborted).await;
}

#[tokio::test]
async fn wrong_rules_are_refused_with_every_mistake() {
    let status = put(Err(AdminError::Invalid(vec![mistake(), mistake()])), "rules").await.unwrap_err();
    assert_eq!((status.code(), status::rule_errors(&status).len()), (Code::InvalidArgument, 2));
}

#[tokio::test]
async fn rules_past_their_bound_are_refused() {
    let text = " ".repeat(bounds::RULES_BYTES_MAX + 1);
    assert_eq!(put(Ok(RulesVersion(8)), &text).await.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn mistakes_are_the_answer_of_a_validation() {
    for (text, domain, errors) in [("", "", 1), ("domain: api", "api", 0)] {
        let request = tonic::Request::new(v1::ValidateRulesRequest { text: text.into() });
        let response = service(Ok(RulesVersion(8))).validate_rules(request).await.unwrap().into_inner();
        assert_eq!((response.domain.as_str(), response.errors.len()), (domain, errors));
    }
}

#[tokio::test]
async fn rules_of_an_unknown_domain_are_not_found() {
    for (domain, expected) in
        [("api", Ok(7)), ("other", Err(Code::NotFound)), ("", Err(Code::InvalidArgument))]
    {
        let request = tonic::Request::new(v1::GetRulesRequest { domain: domain.into() });
        let got = service(Ok(RulesVersion(8))).get_rules(request).await;
        assert_eq!(got.map(|response| response.get_ref().version).map_err(|status| status.code()), expected);
    }
}

#[tokio::test]
async fn status_tells_readiness_and_the_state_hash() {
    let service = service(Ok(RulesVersion(8)));
    *service.admin.readiness.lock() = Readiness::NotReady("starting".into());
    let status = service.status(tonic::Request::new(v1::StatusRequest {})).await.unwrap().into_inner();
    assert_eq!((status.ready, status.not_ready_reason.as_str()), (false, "starting"));
    assert_eq!(status.state_hash, "000000000000000000000000000000ff");
    let rules =
        service.rules_status(tonic::Request::new(v1::RulesStatusRequest {})).await.unwrap().into_inner();
    assert_eq!((rules.errors.len(), rules.reloads_accepted, rules.reloads_refused), (1, 1, 2));
}

#[tokio::test]
async fn a_node_that_runs_alone_has_no_cluster_to_operate() {
    let service = service(Ok(RulesVersion(8)));
    let told = service.cluster(tonic::Request::new(v1::ClusterRequest { hashes: false })).await;
    assert_eq!(told.expect_err("alone").code(), Code::FailedPrecondition);
    let moved = v1::MoveLeaderRequest { shard: 3, to: "b".into() };
    let moved = service.move_leader(tonic::Request::new(moved)).await;
    assert_eq!(moved.expect_err("alone").code(), Code::FailedPrecondition);
    assert_eq!(*service.admin.told.lock(), ["shard 3 to b"]);
}

#[tokio::test]
async fn a_standing_is_named_and_the_caller_known_by_where_it_calls_from() {
    let service = service(Ok(RulesVersion(8)));
    let set = |standing: v1::Standing| {
        let message = v1::SetStandingRequest { member: "b".into(), standing: standing.into() };
        let mut request = tonic::Request::new(message);
        request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 9))));
        request
    };
    let unnamed = service.set_standing(set(v1::Standing::Unspecified)).await;
    assert_eq!(unnamed.expect_err("no standing").code(), Code::InvalidArgument);
    drop(service.set_standing(set(v1::Standing::Draining)).await);
    assert_eq!(*service.admin.told.lock(), ["b draining by operator at 127.0.0.1"]);
}

#[tokio::test]
async fn rules_are_removed_by_domain_and_version_and_each_refusal_has_its_status() {
    let remove = |domain: &str| {
        let request = v1::RemoveRulesRequest { domain: domain.to_owned(), expected_version: Some(7) };
        tonic::Request::new(request)
    };
    let removing = service(Ok(RulesVersion(8)));
    assert_eq!(removing.remove_rules(remove("api")).await.unwrap().get_ref().version, 8);
    assert_eq!(*removing.admin.told.lock(), ["api removed by operator"]);
    assert_eq!(removing.remove_rules(remove("")).await.unwrap_err().code(), Code::InvalidArgument);
    for (error, code) in [
        (AdminError::NotFound("no such domain".into()), Code::NotFound),
        (AdminError::ReadOnly("files".into()), Code::FailedPrecondition),
        (AdminError::Conflict { expected: RulesVersion(7), current: RulesVersion(9) }, Code::Aborted),
    ] {
        assert_eq!(service(Err(error)).remove_rules(remove("api")).await.unwrap_err().code(), code);
    }
}

#[tokio::test]
async fn what_is_used_is_asked_for_within_bounds_and_values_only_where_they_are_kept() {
    let service = service(Ok(RulesVersion(8)));
    let leases =
        |domain: &str, limit| tonic::Request::new(v1::LeasesRequest { domain: domain.to_owned(), limit });
    assert_eq!(service.leases(leases("", 0)).await.unwrap().get_ref().shards_unanswered, 2);
    drop(service.leases(leases("api", 7)).await.unwrap());
    assert_eq!(*service.admin.told.lock(), ["50 leases of None", r#"7 leases of Some("api")"#]);
    let beyond = service.leases(leases("", 1_001)).await;
    assert_eq!(beyond.expect_err("too many").code(), Code::InvalidArgument);
    let top = |show_values| {
        let (domain, limit) = (String::new(), 0);
        tonic::Request::new(v1::TopKeysRequest { domain, limit, show_values, this_node: false })
    };
    assert_eq!(service.top_keys(top(false)).await.unwrap().get_ref().sampled_one_in, 64);
    assert_eq!(service.top_keys(top(true)).await.unwrap_err().code(), Code::FailedPrecondition);
}
