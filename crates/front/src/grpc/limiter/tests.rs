//! Each row of the table in `grpc`, and what reaches the process behind the service.

use leasehold_limit::check::{Outcome, RETRY_UNDECIDED};
use leasehold_model::Nanos;
use tonic::metadata::MetadataValue;

use super::*;
use crate::testing::{Fake, answer, passed, refused};

fn service(fake: Fake) -> LimiterService<Fake> {
    LimiterService { decider: Arc::new(fake), reset: true }
}

fn message() -> v1::CheckRequest {
    let attributes = vec![v1::Attribute { name: "ip".into(), value: "10.0.0.1".into() }];
    v1::CheckRequest { domain: "api".into(), attributes, ..v1::CheckRequest::default() }
}

/// A check against a process that answers so: code of the status, or the verdict.
async fn check(
    given: Result<Answer, CheckError>,
    status_errors: &'static str,
) -> Result<v1::Verdict, (Code, Option<Nanos>)> {
    let mut request = tonic::Request::new(message());
    request.metadata_mut().insert("leasehold-status-errors", MetadataValue::from_static(status_errors));
    let got = service(Fake::answering(given)).check(request).await;
    got.map(|response| response.get_ref().verdict())
        .map_err(|status| (status.code(), status::retry_after(&status)))
}

/// A message that is refused before it reaches the process.
async fn check_invalid(message: v1::CheckRequest, expected: &str) {
    let service = service(Fake::allowing());
    let status = service.check(tonic::Request::new(message)).await.expect_err("it should be refused");
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains(expected), "{:?} lacks {expected:?}", status.message());
    assert!(service.decider.asked.lock().is_empty());
}

#[tokio::test]
async fn over_the_limit_is_a_response_unless_asked_otherwise() {
    let over = |retry| Ok(answer(Verdict::OverLimit, refused(retry)));
    let soon = RetryAfter::In(Nanos(5));
    assert_eq!(check(over(soon), "false").await, Ok(v1::Verdict::OverLimit));
    assert_eq!(check(over(soon), "true").await, Err((Code::ResourceExhausted, Some(Nanos(5)))));
    assert_eq!(check(over(RetryAfter::Never), "true").await, Err((Code::ResourceExhausted, None)));
    assert_eq!(check(Ok(answer(Verdict::Allowed, passed())), "true").await, Ok(v1::Verdict::Allowed));
}

#[tokio::test]
async fn a_limit_that_could_not_be_asked_is_a_response_unless_asked_otherwise() {
    let away = || Ok(answer(Verdict::Unavailable, Outcome::Unavailable));
    assert_eq!(check(away(), "").await, Ok(v1::Verdict::Unavailable));
    assert_eq!(check(away(), "true").await, Err((Code::Unavailable, Some(RETRY_UNDECIDED))));
}

#[tokio::test]
async fn what_was_not_decided_is_a_status() {
    assert_eq!(check(Err(bounds::invalid("cost", "")), "").await, Err((Code::InvalidArgument, None)));
    assert_eq!(check(Err(CheckError::RequestIdReused), "").await, Err((Code::AlreadyExists, None)));
    let overloaded = CheckError::Overloaded { reason: "keys".into(), retry_after: Nanos(9) };
    assert_eq!(check(Err(overloaded), "").await, Err((Code::Unavailable, Some(Nanos(9)))));
}

#[tokio::test]
async fn a_message_past_a_bound_is_refused_by_its_field() {
    check_invalid(v1::CheckRequest { domain: String::new(), ..message() }, "domain: it is empty").await;
    check_invalid(v1::CheckRequest { request_id: "i".repeat(129), ..message() }, "request_id: at most 128")
        .await;
    let value = vec![0; bounds::ATTRIBUTE_VALUE_BYTES_MAX + 1].into();
    let attributes = vec![v1::Attribute { name: "key".into(), value }];
    check_invalid(v1::CheckRequest { attributes, ..message() }, "attributes[0] (\"key\"): at most 4096")
        .await;
}

#[tokio::test]
async fn no_attributes_are_a_mistake_as_over_http() {
    check_invalid(v1::CheckRequest { attributes: vec![], ..message() }, "attributes: it is empty").await;
    let message = v1::ResetRequest { domain: "api".into(), ..v1::ResetRequest::default() };
    let refused = service(Fake::allowing()).reset(tonic::Request::new(message)).await;
    assert_eq!(refused.expect_err("it should be refused").code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_callers_deadline_is_the_budget_and_its_id_the_domains_own() {
    let service = service(Fake::allowing());
    let mut request = tonic::Request::new(v1::CheckRequest { request_id: "abc".into(), ..message() });
    request.set_timeout(Duration::from_millis(20));
    service.check(request).await.unwrap();
    service
        .peek(tonic::Request::new(v1::PeekRequest { domain: "api".into(), attributes: message().attributes }))
        .await
        .unwrap();
    let asked = service.decider.asked.lock().clone();
    assert_eq!(asked[0].budget, Some(Duration::from_millis(20)));
    assert_eq!(asked[0].request_id, Some(service.decider.request_id("api", "abc")));
    assert_eq!((asked[0].costs.as_slice(), asked[1].costs.as_slice()), (&[1][..], &[0][..]));
    assert_eq!((asked[1].budget, asked[1].request_id), (None, None));
}

#[tokio::test]
async fn one_bad_check_does_not_spoil_its_batch() {
    let service = service(Fake::allowing());
    let checks = vec![message(), v1::CheckRequest::default(), message()];
    let response = service.check_batch(tonic::Request::new(v1::CheckBatchRequest { checks })).await.unwrap();
    let codes = response.get_ref().results.iter().map(|result| match result.result.as_ref().unwrap() {
        v1::batch_result::Result::Response(_) => 0,
        v1::batch_result::Result::Error(status) => status.code,
    });
    assert_eq!(codes.collect::<Vec<_>>(), [0, 3, 0]);
}

#[tokio::test]
async fn checks_past_a_full_answer_are_refused_undecided() {
    let mut many = answer(Verdict::Allowed, passed());
    let matched = many.descriptors[0].matched[0].clone();
    many.descriptors[0].matched = vec![matched; bounds::BATCH_LIMITS_TOLD_MAX];
    let service = service(Fake::answering(Ok(many)));
    let request = tonic::Request::new(v1::CheckBatchRequest { checks: vec![message(); 2] });
    let mut results = service.check_batch(request).await.unwrap().into_inner().results;
    let Some(v1::batch_result::Result::Error(refused)) = results.remove(1).result else {
        panic!("the second is answered");
    };
    assert_eq!(refused.code, i32::from(Code::OutOfRange));
    assert_eq!(service.decider.asked.lock().len(), 1);
}

#[tokio::test]
async fn an_empty_or_overlong_batch_is_refused() {
    for count in [0, bounds::BATCH_MAX + 1] {
        let checks = vec![message(); count];
        let request = tonic::Request::new(v1::CheckBatchRequest { checks });
        let status = service(Fake::allowing()).check_batch(request).await.expect_err("it should be refused");
        assert_eq!(status.code(), Code::InvalidArgument);
    }
}

#[tokio::test]
async fn a_reset_names_one_rule_or_none() {
    for (rule, expected) in [("", 2), ("login", 1)] {
        let message =
            v1::ResetRequest { domain: "api".into(), attributes: message().attributes, rule: rule.into() };
        let response = service(Fake::allowing()).reset(tonic::Request::new(message)).await.unwrap();
        assert_eq!(response.get_ref().reset, expected);
    }
}

#[tokio::test]
async fn a_reset_that_is_switched_off_names_the_setting() {
    let service = LimiterService { reset: false, ..service(Fake::allowing()) };
    let message = v1::ResetRequest { domain: "api".into(), attributes: vec![], rule: String::new() };
    let status = service.reset(tonic::Request::new(message)).await.expect_err("it should be refused");
    assert_eq!(status.code(), Code::PermissionDenied);
    assert!(status.message().contains("http.reset"), "{:?}", status.message());
}
