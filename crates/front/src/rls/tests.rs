//! What Envoy is answered, and what is refused before anything is asked.

use leasehold_limit::RetryAfter;
use leasehold_limit::check::{Answer, Outcome, Verdict};
use leasehold_model::Nanos;
use leasehold_wire::Message;
use leasehold_wire::proto::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use leasehold_wire::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry, RateLimitOverride,
};
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

/// Any text that a protobuf string may hold: none, some, and one byte past the bound.
fn text(bytes_max: usize) -> impl Strategy<Value = String> {
    prop_oneof![6 => ".{0,9}", 1 => Just(String::new()), 1 => Just("x".repeat(bytes_max + 1))]
}

/// A number of a few that matter, or any.
fn wild(known: std::ops::Range<i32>) -> impl Strategy<Value = i32> {
    prop_oneof![3 => known, 1 => any::<i32>()]
}

fn wild_entries() -> impl Strategy<Value = Vec<Entry>> {
    let entry = (text(bounds::ATTRIBUTE_NAME_BYTES_MAX), text(bounds::ATTRIBUTE_VALUE_BYTES_MAX))
        .prop_map(|(key, value)| Entry { key, value });
    let one = Entry { key: "k".into(), value: "v".into() };
    let many = Just(vec![one; bounds::ATTRIBUTES_MAX + 1]);
    prop_oneof![8 => proptest::collection::vec(entry, 0..4), 1 => many]
}

fn wild_limit() -> impl Strategy<Value = Option<RateLimitOverride>> {
    let times = proptest::option::of(prop_oneof![0..3_u32, any::<u32>()]);
    let limit = (any::<u32>(), wild(-1..9), times);
    proptest::option::of(limit.prop_map(|(requests_per_unit, unit, unit_multiplier)| RateLimitOverride {
        requests_per_unit,
        unit,
        unit_multiplier,
    }))
}

fn wild_descriptor() -> impl Strategy<Value = RateLimitDescriptor> {
    let hits = proptest::option::of(prop_oneof![0..3_u64, any::<u64>()]);
    let flags = proptest::bool::weighted(0.1);
    (wild_entries(), wild_limit(), hits, flags).prop_map(|(entries, limit, hits_addend, is_negative_hits)| {
        RateLimitDescriptor { entries, limit, hits_addend, is_negative_hits }
    })
}

/// Messages that decode, with every field at, in and past what it may hold.
fn wild_message() -> impl Strategy<Value = RateLimitRequest> {
    let few = proptest::collection::vec(wild_descriptor(), 0..5);
    let many = wild_descriptor().prop_map(|descriptor| vec![descriptor; bounds::DESCRIPTORS_MAX + 1]);
    let descriptors = prop_oneof![9 => few, 1 => many];
    (text(bounds::DOMAIN_BYTES_MAX), descriptors, any::<u32>())
        .prop_map(|(domain, descriptors, hits_addend)| RateLimitRequest { domain, descriptors, hits_addend })
}

/// Any message is either asked about as it stands or refused by a field that it has.
fn check_any(message: &RateLimitRequest) -> Result<(), TestCaseError> {
    match checked(message) {
        Ok(request) => {
            prop_assert_eq!(request.domain, &message.domain);
            prop_assert_eq!(request.descriptors.len(), message.descriptors.len());
            for (asked, sent) in request.descriptors.iter().zip(&message.descriptors) {
                prop_assert_eq!(asked.attributes.len(), sent.entries.len());
                prop_assert_eq!(asked.limit_override.is_some(), sent.limit.is_some());
                prop_assert_eq!(asked.cost, sent.hits_addend.unwrap_or(message.hits_addend.max(1).into()));
            }
        }
        Err(CheckError::Invalid { field, message }) => {
            prop_assert!(field.starts_with("domain") || field.starts_with("descriptors"), "{}", field);
            prop_assert!(!message.is_empty());
        }
        Err(other) => prop_assert!(false, "{other}"),
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_message_is_asked_as_it_stands_or_refused_by_its_field(message in wild_message()) {
        check_any(&message)?;
    }

    #[test]
    fn any_message_broken_on_its_way_never_panics(
        message in wild_message(),
        breaks in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
        kept in any::<proptest::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let mut bytes = message.encode_to_vec();
        if !bytes.is_empty() {
            for (place, byte) in breaks {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            if cut {
                bytes.truncate(kept.index(bytes.len()));
            }
        }
        if let Ok(message) = RateLimitRequest::decode(bytes.as_slice()) {
            check_any(&message)?;
        }
    }
}
