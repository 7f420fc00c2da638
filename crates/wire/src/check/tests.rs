//! Checks and answers of `leasehold.v1`, both ways.

use proptest::prelude::*;
use prost::Message;

use super::*;
use crate::testing::{answer, passed, refused, rule, said};

#[test]
fn an_absent_cost_is_one_and_zero_is_a_peek() {
    for (sent, expected) in [(None, 1), (Some(0), 0), (Some(u64::MAX), u64::MAX)] {
        let request = v1::CheckRequest { cost: sent, ..v1::CheckRequest::default() };
        assert_eq!(descriptor(&request).cost, expected);
    }
    assert_eq!(peek_descriptor(&v1::PeekRequest::default()).cost, 0);
}

#[test]
fn attributes_keep_their_order_and_their_bytes() {
    let sent = [("b", &b"\xff\0"[..]), ("a", b""), ("b", b"2")];
    let message = sent.map(|(name, value)| v1::Attribute { name: name.into(), value: value.into() });
    let got: Vec<_> = attributes(&message).iter().map(|one| (one.name, one.value)).collect();
    assert_eq!(got, sent);
}

#[test]
fn an_answer_names_every_rule_with_its_numbers() {
    let answer = answer(vec![vec![
        said(rule("first"), passed(0)),
        said(rule("second"), refused(RetryAfter::In(Nanos::from_millis(1_500)))),
        said(rule("third"), refused(RetryAfter::Never)),
        said(rule("fourth"), Outcome::Unavailable),
        said(rule("fifth"), Outcome::Unidentified),
    ]]);
    let response = v1::CheckResponse::from(&answer);
    assert_eq!(response.verdict(), v1::Verdict::OverLimit);
    assert!(response.degraded);
    assert_eq!(response.rules_version, 7);
    let names: Vec<_> = response.matched.iter().map(|matched| matched.rule.as_str()).collect();
    assert_eq!(names, ["first", "second", "third", "fourth", "fifth"]);
    let allowed: Vec<_> = response.matched.iter().map(|matched| matched.allowed).collect();
    assert_eq!(allowed, [true, false, false, true, false]);
    let wait = prost_types::Duration { seconds: 1, nanos: 500_000_000 };
    assert_eq!(response.matched[1].retry, Some(v1::matched_rule::Retry::RetryAfter(wait)));
    assert_eq!(response.matched[2].retry, Some(v1::matched_rule::Retry::Never(true)));
    assert_eq!(response.matched[3].reset_after, None);
    assert_eq!(response.matched[4].outcome(), v1::Outcome::Unidentified);
    let sources: Vec<_> = response.matched.iter().map(v1::MatchedRule::source).collect();
    let (owner, nobody) = (v1::Source::Owner, v1::Source::Unspecified);
    assert_eq!(sources, [owner, owner, owner, nobody, nobody]);
    assert_eq!(response.matched[0].limit.as_ref().map(|limit| limit.n), Some(10));
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(request) = v1::CheckRequest::decode(bytes.as_slice()) {
            let _ = descriptor(&request);
        }
    }
}
