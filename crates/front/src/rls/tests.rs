//! What Envoy is answered, and what is refused before anything is asked.

use leasehold_limit::RetryAfter;
use leasehold_limit::check::{Answer, Outcome, Verdict};
use leasehold_model::Nanos;
use leasehold_wire::proto::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use leasehold_wire::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use leasehold_wire::proto::envoy::service::ratelimit::v3::rate_limit_response::Code;
use proptest::prelude::*;

use super::*;
use crate::testing::{Fake, answer, passed, refused};

fn descriptor(value: &str) -> RateLimitDescriptor {
    let entries = vec![Entry { key: "ip".into(), value: value.into() }];
    RateLimitDescriptor { entries, ..RateLimitDescriptor::default() }
}

fn message(descriptors: Vec<RateLimitDescriptor>) -> RateLimitRequest {
    RateLimitRequest { domain: "api".into(), descriptors, hits_addend: 0 }
}

async fn ask(
    given: Result<Answer, CheckError>,
    message: RateLimitRequest,
) -> Result<RateLimitResponse, Status> {
    let service = RlsService { decider: Arc::new(Fake::answering(given)) };
    service.should_rate_limit(tonic::Request::new(message)).await.map(Response::into_inner)
}

async fn check_code(given: Answer, expected: Code) {
    assert_eq!(ask(Ok(given), message(vec![descriptor("a")])).await.unwrap().overall_code(), expected);
}

async fn check_invalid(message: RateLimitRequest, expected: &str) {
    let status =
        ask(Ok(answer(Verdict::Allowed, passed())), message).await.expect_err("it should be refused");
    assert_eq!(status.code(), tonic::Code::InvalidArgument);
    assert!(status.message().contains(expected), "{:?} lacks {expected:?}", status.message());
}

#[tokio::test]
async fn the_verdict_is_the_overall_code() {
    check_code(answer(Verdict::Allowed, passed()), Code::Ok).await;
    check_code(answer(Verdict::OverLimit, refused(RetryAfter::In(Nanos(1)))), Code::OverLimit).await;
    check_code(answer(Verdict::Unavailable, Outcome::Unavailable), Code::OverLimit).await;
}

#[tokio::test]
async fn what_cannot_be_asked_is_refused_by_its_field() {
    let one = || vec![descriptor("a")];
    check_invalid(RateLimitRequest { domain: String::new(), ..message(one()) }, "domain: it is empty").await;
    check_invalid(message(Vec::new()), "descriptors: it is empty").await;
    check_invalid(message(vec![descriptor("a"); 33]), "descriptors: at most 32 descriptors").await;
    check_invalid(message(vec![RateLimitDescriptor::default()]), "descriptors[0].entries: it is empty").await;
    let long = "v".repeat(bounds::ATTRIBUTE_VALUE_BYTES_MAX + 1);
    check_invalid(message(vec![descriptor("a"), descriptor(&long)]), "descriptors[1].entries[0] (\"ip\")")
        .await;
}

#[tokio::test]
async fn overload_is_left_to_envoys_failure_mode() {
    let overloaded = CheckError::Overloaded { reason: "keys".into(), retry_after: Nanos(9) };
    let status = ask(Err(overloaded), message(vec![descriptor("a")])).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::Unavailable);
}

#[tokio::test]
async fn envoys_deadline_is_the_budget() {
    let service = RlsService { decider: Arc::new(Fake::allowing()) };
    let mut request = tonic::Request::new(message(vec![descriptor("a"), descriptor("b")]));
    request.set_timeout(Duration::from_millis(20));
    service.should_rate_limit(request).await.unwrap();
    let asked = service.decider.asked.lock().clone();
    assert_eq!((asked[0].budget, asked[0].costs.as_slice()), (Some(Duration::from_millis(20)), &[1, 1][..]));
}

proptest! {
    #[test]
    fn arbitrary_requests_never_panic(domain in ".{0,9}", keys in proptest::collection::vec(".{0,9}", 0..40), hits: u32) {
        let descriptors = keys.iter().map(|key| {
            let entries = vec![Entry { key: key.clone(), value: key.clone() }; key.len() % 3];
            RateLimitDescriptor { entries, ..RateLimitDescriptor::default() }
        });
        let _ = checked(&RateLimitRequest { domain, descriptors: descriptors.collect(), hits_addend: hits });
    }
}
