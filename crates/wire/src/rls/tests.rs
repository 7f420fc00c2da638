//! The mapping between Envoy's messages and ours, a line a case.

use std::sync::Arc;

use leasehold_limit::RetryAfter;
use leasehold_limit::check::{Outcome, RuleAnswer};
use leasehold_limit::rules::{OnUnavailable, Rule};
use leasehold_model::Nanos;
use proptest::prelude::*;
use prost::Message;

use super::*;
use crate::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use crate::proto::envoy::service::ratelimit::v3::rate_limit_response::DescriptorStatus;
use crate::proto::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
use crate::testing::{answer, passed, refused, rule, said, window};

fn message(descriptors: Vec<RateLimitDescriptor>) -> RateLimitRequest {
    RateLimitRequest { domain: "api".into(), descriptors, hits_addend: 0 }
}

fn one() -> RateLimitDescriptor {
    let entries = vec![Entry { key: "ip".into(), value: "10.0.0.1".into() }];
    RateLimitDescriptor { entries, ..RateLimitDescriptor::default() }
}

fn overriding(requests_per_unit: u32, unit: i32, unit_multiplier: Option<u32>) -> RateLimitDescriptor {
    let limit = Some(RateLimitOverride { requests_per_unit, unit, unit_multiplier });
    RateLimitDescriptor { limit, ..one() }
}

fn check_refused(descriptor: RateLimitDescriptor, field: &str, fix: &str) {
    let message = message(vec![one(), descriptor]);
    let error = request(&message).expect_err("it should be refused");
    assert_eq!(error.field(), field);
    assert!(error.to_string().contains(fix), "{error} lacks {fix:?}");
}

fn check_cost(of_request: u32, of_descriptor: Option<u64>, expected: u64) {
    let descriptor = RateLimitDescriptor { hits_addend: of_descriptor, ..one() };
    let message = RateLimitRequest { hits_addend: of_request, ..message(vec![descriptor]) };
    assert_eq!(request(&message).unwrap().descriptors[0].cost, expected);
}

fn check_override(sent: (u32, i32, Option<u32>), expected: Limit) {
    let message = message(vec![overriding(sent.0, sent.1, sent.2)]);
    assert_eq!(request(&message).unwrap().descriptors[0].limit_override, Some(expected));
}

fn check_unit(period: Nanos, unit: Unit, count: u32) {
    assert_eq!(unit_of(period), UnitCount { unit, count }, "for {period}");
}

fn status(matched: Vec<RuleAnswer>) -> DescriptorStatus {
    RateLimitResponse::from(&answer(vec![matched])).statuses.remove(0)
}

/// Code, name of the binding rule, remaining, whole seconds until reset.
fn check_status(matched: Vec<RuleAnswer>, expected: (Code, Option<&str>, u32, Option<i64>)) {
    let status = status(matched);
    let name = status.current_limit.as_ref().map(|limit| limit.name.as_str());
    let reset = status.duration_until_reset.map(|reset| reset.seconds);
    assert_eq!((status.code(), name, status.limit_remaining, reset), expected);
}

#[test]
fn entries_are_attributes_in_order() {
    let message = message(vec![one(), one()]);
    let request = request(&message).unwrap();
    assert_eq!((request.domain, request.descriptors.len()), ("api", 2));
    assert_eq!(request.descriptors[1].attributes, [Attribute { name: "ip", value: b"10.0.0.1" }]);
    assert_eq!(request.request_id, None);
}

#[test]
fn a_descriptors_own_hits_count_even_when_zero() {
    check_cost(0, None, 1);
    check_cost(5, None, 5);
    check_cost(5, Some(0), 0);
    check_cost(5, Some(u64::MAX), u64::MAX);
}

#[test]
fn an_override_is_a_fixed_window_of_its_unit() {
    check_override((5, 2, None), window(5, Nanos::from_secs(60)));
    check_override((5, 1, Some(90)), window(5, Nanos::from_secs(90)));
    check_override((0, 6, None), window(0, Nanos::from_secs(31_536_000)));
    check_override((1, 6, Some(u32::MAX)), window(1, Nanos::MAX));
}

#[test]
fn a_field_at_fault_is_named_with_its_fix() {
    assert_eq!(request(&message(Vec::new())), Err(RlsRequestError::NoDescriptors));
    check_refused(RateLimitDescriptor::default(), "descriptors[1].entries", "at least one entry");
    for unit in [0, 7, -1, i32::MAX] {
        check_refused(overriding(5, unit, None), "descriptors[1].limit.unit", "use SECOND (1) to YEAR (6)");
    }
    check_refused(overriding(5, 1, Some(0)), "descriptors[1].limit.unit_multiplier", "at least 1");
    let negative = RateLimitDescriptor { is_negative_hits: true, ..one() };
    check_refused(negative, "descriptors[1].is_negative_hits", "not supported yet");
}

#[test]
fn a_period_is_told_in_the_largest_unit_that_divides_it() {
    check_unit(Nanos::from_secs(1), Unit::Second, 1);
    check_unit(Nanos::from_secs(90), Unit::Second, 90);
    check_unit(Nanos::from_secs(120), Unit::Minute, 2);
    check_unit(Nanos::from_secs(3_600), Unit::Hour, 1);
    check_unit(Nanos::from_secs(86_400 * 7), Unit::Week, 1);
    check_unit(Nanos::from_secs(86_400 * 30), Unit::Month, 1);
    check_unit(Nanos::from_secs(86_400 * 365), Unit::Year, 1);
    check_unit(Nanos::from_secs(86_400 * 60), Unit::Month, 2);
    check_unit(Nanos::from_secs(86_400 * 3), Unit::Day, 3);
}

#[test]
fn a_period_that_is_no_whole_number_of_units_is_unknown() {
    for period in [Nanos::ZERO, Nanos(1), Nanos::from_millis(1_500), Nanos::MAX] {
        check_unit(period, Unit::Unknown, 1);
    }
    check_unit(Nanos::from_secs(4_294_967_295), Unit::Second, u32::MAX);
    check_unit(Nanos::from_secs(4_294_967_297), Unit::Unknown, 1);
}

#[test]
fn a_descriptor_that_nothing_matches_is_ok_without_a_limit() {
    check_status(Vec::new(), (Code::Ok, None, 0, None));
}

#[test]
fn the_limit_with_the_least_left_binds() {
    let matched = vec![said(rule("a"), passed(5)), said(rule("b"), passed(2)), said(rule("c"), passed(2))];
    check_status(matched, (Code::Ok, Some("b"), 2, Some(42)));
}

#[test]
fn a_limit_with_nothing_left_resets_when_it_has_a_unit_again() {
    check_status(vec![said(rule("a"), passed(0))], (Code::Ok, Some("a"), 0, Some(6)));
}

#[test]
fn a_violated_limit_binds_and_of_several_the_slowest() {
    let secs = |secs| refused(RetryAfter::In(Nanos::from_secs(secs)));
    let matched = vec![said(rule("a"), passed(0)), said(rule("b"), secs(3)), said(rule("c"), secs(9))];
    check_status(matched, (Code::OverLimit, Some("c"), 0, Some(9)));
    let matched = vec![said(rule("a"), secs(9)), said(rule("b"), refused(RetryAfter::Never))];
    check_status(matched, (Code::OverLimit, Some("b"), 0, Some(3)));
}

#[test]
fn a_shadow_rule_is_never_shown() {
    let shadow = Rule { shadow: true, ..rule("shadow") };
    check_status(vec![said(shadow, refused(RetryAfter::Never))], (Code::Ok, None, 0, None));
}

#[test]
fn what_could_not_be_asked_follows_its_declaration() {
    let deny = Rule { on_unavailable: OnUnavailable::Deny, ..rule("deny") };
    check_status(vec![said(rule("allow"), Outcome::Unavailable)], (Code::Ok, None, 0, None));
    check_status(vec![said(deny.clone(), Outcome::Unavailable)], (Code::OverLimit, Some("deny"), 0, None));
    check_status(vec![said(rule("a"), Outcome::Unidentified)], (Code::OverLimit, Some("a"), 0, None));
    let response = RateLimitResponse::from(&answer(vec![vec![said(deny, Outcome::Unavailable)]]));
    assert_eq!(response.overall_code(), Code::OverLimit);
    assert_eq!(response.response_headers_to_add[0].key, DEGRADED_HEADER);
}

#[test]
fn a_whole_refusal_leaves_each_status_its_own_code() {
    let over = said(rule("over"), refused(RetryAfter::In(Nanos(1))));
    let response =
        RateLimitResponse::from(&answer(vec![vec![said(rule("fits"), passed(3))], vec![over], vec![]]));
    let codes: Vec<_> = response.statuses.iter().map(DescriptorStatus::code).collect();
    assert_eq!(response.overall_code(), Code::OverLimit);
    assert_eq!(codes, [Code::Ok, Code::OverLimit, Code::Ok]);
    assert!(response.response_headers_to_add.is_empty());
}

#[test]
fn numbers_past_32_bits_saturate() {
    let wide = Rule { limit: Arc::new(window(u64::MAX, Nanos::from_secs(90))), ..rule("wide") };
    let status = status(vec![said(wide, passed(u64::MAX - 1))]);
    let limit = status.current_limit.unwrap();
    assert_eq!((status.limit_remaining, limit.requests_per_unit), (u32::MAX, u32::MAX));
    assert_eq!((limit.unit(), limit.unit_multiplier), (Unit::Second, Some(90)));
}

#[test]
fn field_numbers_are_envoys() {
    // domain = 1; descriptors = 2 {entries = 1 {key = 1, value = 2}, hits_addend = 3 {value = 1}}; hits_addend = 3.
    let bytes = b"\x0a\x01d\x12\x0c\x0a\x06\x0a\x01k\x12\x01v\x1a\x02\x08\x04\x18\x05";
    let message = RateLimitRequest::decode(&bytes[..]).unwrap();
    assert_eq!((message.domain.as_str(), message.hits_addend), ("d", 5));
    assert_eq!(message.descriptors[0].hits_addend, Some(4));
    assert_eq!(message.descriptors[0].entries[0], Entry { key: "k".into(), value: "v".into() });
    assert_eq!(message.encode_to_vec(), bytes);
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(message) = RateLimitRequest::decode(bytes.as_slice()) {
            let _ = request(&message);
        }
    }

    #[test]
    fn arbitrary_numbers_never_panic(n: u32, unit: i32, small in -1..9, times: Option<u32>, hits: Option<u64>) {
        for unit in [unit, small] {
            let descriptor = RateLimitDescriptor { hits_addend: hits, ..overriding(n, unit, times) };
            let _ = request(&message(vec![descriptor]));
        }
    }
}
