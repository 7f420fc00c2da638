//! The stream's messages there and back, ones that a later version sends, and ones that nobody should.

use leasehold_lease::{EdgeId, LeaseId, Leased, MilliRate, Usage};
use leasehold_limit::RetryAfter;
use leasehold_limit::rules::Scope;
use leasehold_model::{Nanos, NodeId, RequestId, RulesVersion, ShardId, Stamp};
use leasehold_shard::{Acquired, RefundItem, Settled};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use prost::Message as _;

use super::*;
use crate::testing::arbitrary;

fn hello() -> impl Strategy<Value = Hello> {
    (any::<u128>(), 1..9u32, "[a-z]{0,9}", "[0-9.]{0,9}").prop_map(|(edge, feature_level, name, version)| {
        Hello { edge: EdgeId(edge), feature_level, name, version }
    })
}

fn lease(limits: u32) -> impl Strategy<Value = AskedLease> {
    let usage = any::<(u64, u64, u64)>().prop_map(|(lease, spent_total, returned_total)| Usage {
        lease: LeaseId(lease),
        spent_total,
        returned_total,
    });
    (arbitrary::key(), 0..limits, any::<[u64; 4]>(), vec(usage, 0..4)).prop_map(
        |(key, limit, [need, want, rate, lifetime], usage)| AskedLease {
            key,
            limit,
            need,
            want,
            rate: MilliRate(rate),
            lifetime: Nanos(lifetime),
            usage,
        },
    )
}

fn what(limits: u32) -> impl Strategy<Value = What> {
    let demands = vec(arbitrary::demand(0..limits), 1..4);
    let items = vec((arbitrary::key(), any::<(u64, u64)>()), 1..4).prop_map(|items| {
        let item = |(key, (cost, at))| RefundItem { key, cost, charged_at: Stamp(at) };
        items.into_iter().map(item).collect()
    });
    prop_oneof![
        lease(limits).prop_map(What::Lease),
        demands.clone().prop_map(What::Acquire),
        demands.prop_map(What::Preview),
        items.prop_map(What::Refund),
        vec(arbitrary::key(), 1..4).prop_map(What::Reset),
        Just(What::Later),
    ]
}

fn asks() -> impl Strategy<Value = Asks> {
    let limit = (arbitrary::spec(), select(vec![Scope::Global, Scope::Region]))
        .prop_map(|(spec, scope)| AskedLimit { spec, scope });
    // Few sessions, so that asks share them.
    let id = (0..3u128, any::<u64>()).prop_map(|(session, seq)| RequestId { session, seq });
    let ask = (any::<u64>(), id, option::of(1..u64::MAX), what(3)).prop_map(|(tag, id, budget, what)| Ask {
        tag,
        id,
        budget: budget.map(Nanos),
        what,
    });
    let settled = option::of((0..5u128, 1..u64::MAX))
        .prop_map(|told| told.into_iter().map(|(session, below)| Settled { session, below }).collect());
    (vec(limit, 3..5), vec(ask, 0..6), settled).prop_map(|(limits, asks, settled)| Asks {
        limits,
        asks,
        settled,
    })
}

fn request() -> impl Strategy<Value = LeaseRequest> {
    prop_oneof![
        hello().prop_map(LeaseRequest::Hello),
        asks().prop_map(LeaseRequest::Asks),
        Just(LeaseRequest::Bye),
        Just(LeaseRequest::Later),
    ]
}

fn leased() -> impl Strategy<Value = Leased> {
    let retry = prop_oneof![
        Just(None),
        Just(Some(RetryAfter::Never)),
        any::<u64>().prop_map(|wait| Some(RetryAfter::In(Nanos(wait)))),
    ];
    let lease = option::of(any::<(u64, u64)>());
    (lease, any::<[u64; 5]>(), option::of(any::<u64>()), retry, option::of(any::<u16>())).prop_map(
        |(lease, [sync, lifetime, remaining, reset_after, at], gate, retry_after, slot)| Leased {
            lease: lease.map(|(lease, _)| LeaseId(lease)),
            granted: lease.map_or(0, |(_, granted)| granted),
            sync,
            lifetime: Nanos(lifetime),
            gate: gate.map(Nanos),
            retry_after,
            remaining,
            reset_after: Nanos(reset_after),
            slot,
            at: Stamp(at),
        },
    )
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let acquired = (any::<(bool, u64)>(), vec(arbitrary::decision(), 0..4))
        .prop_map(|((admitted, at), decisions)| Acquired { admitted, at: Stamp(at), decisions });
    prop_oneof![
        (leased(), 1..9u32).prop_map(|(leased, slot_parts)| Outcome::Leased { leased, slot_parts }),
        acquired.prop_map(Outcome::Acquired),
        vec(any::<u64>(), 0..4).prop_map(Outcome::Refunded),
        any::<u32>().prop_map(Outcome::Reset),
        arbitrary::refusal().prop_map(Outcome::Refused),
        select(vec![Unanswered::Unreachable, Unanswered::Overloaded]).prop_map(Outcome::Unanswered),
    ]
}

fn rules() -> impl Strategy<Value = RuleSet> {
    (any::<(u64, u64, [u8; 16], bool, u32)>(), vec("[a-z: ]{0,20}", 0..3), vec(any::<u32>(), 0..4)).prop_map(
        |((version, since, secret, more, shards), domains, home)| RuleSet {
            version: RulesVersion(version),
            since: Stamp(since),
            secret,
            domains,
            more,
            shards,
            home_shards: home.into_iter().map(ShardId).collect(),
        },
    )
}

fn response() -> impl Strategy<Value = LeaseResponse> {
    let welcome = (1..9u32, any::<u64>(), "[a-z]{0,9}", "[a-z]{0,9}", 1..u32::MAX).prop_map(
        |(feature_level, node, node_name, region, asks_max)| Welcome {
            feature_level,
            node: NodeId(node),
            node_name,
            region,
            asks_max,
        },
    );
    let answer = (any::<u64>(), outcome()).prop_map(|(tag, outcome)| Answer { tag, outcome });
    prop_oneof![
        welcome.prop_map(LeaseResponse::Welcome),
        rules().prop_map(LeaseResponse::Rules),
        vec(answer, 0..6).prop_map(LeaseResponse::Answers),
        Just(LeaseResponse::GoAway),
        Just(LeaseResponse::Later),
    ]
}

/// A request as the other side reads it from bytes.
fn read_request(bytes: &[u8]) -> Result<LeaseRequest, LeaseProtoError> {
    proto::LeaseRequest::decode(bytes).unwrap().try_into()
}

fn read_response(bytes: &[u8]) -> Result<LeaseResponse, LeaseProtoError> {
    proto::LeaseResponse::decode(bytes).unwrap().try_into()
}

proptest! {
    #[test]
    fn a_request_comes_back_as_it_was(request in request()) {
        let bytes = proto::LeaseRequest::from(request.clone()).encode_to_vec();
        prop_assert_eq!(read_request(&bytes), Ok(request));
    }

    #[test]
    fn a_response_comes_back_as_it_was(response in response()) {
        let bytes = proto::LeaseResponse::from(response.clone()).encode_to_vec();
        prop_assert_eq!(read_response(&bytes), Ok(response));
    }

    #[test]
    fn bytes_of_any_kind_never_panic(bytes in vec(any::<u8>(), 0..300)) {
        if let Ok(proto) = proto::LeaseRequest::decode(&*bytes) {
            let _ = LeaseRequest::try_from(proto);
        }
        if let Ok(proto) = proto::LeaseResponse::decode(&*bytes) {
            let _ = LeaseResponse::try_from(proto);
        }
    }

    #[test]
    fn a_damaged_message_never_panics(
        request in request(), response in response(), at in any::<prop::sample::Index>(), with in any::<u8>(),
    ) {
        let mut bytes = proto::LeaseRequest::from(request).encode_to_vec();
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = with;
        }
        if let Ok(proto) = proto::LeaseRequest::decode(&*bytes) {
            let _ = LeaseRequest::try_from(proto);
        }
        let mut bytes = proto::LeaseResponse::from(response).encode_to_vec();
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = with;
        }
        if let Ok(proto) = proto::LeaseResponse::decode(&*bytes) {
            let _ = LeaseResponse::try_from(proto);
        }
    }
}

fn a_limit() -> proto::AskedLimit {
    let limit = Limit::new(leasehold_limit::Algorithm::TokenBucket { burst: 5 }, 5, Nanos::from_secs(1));
    proto::AskedLimit { limit: Some((&limit.unwrap()).into()), ..proto::AskedLimit::default() }
}

fn asking(ask: proto::ask::Ask) -> proto::Asks {
    let asks = vec![proto::Ask { ask: Some(ask), ..proto::Ask::default() }];
    proto::Asks { limits: vec![a_limit()], sessions: vec![proto::Session::default()], asks }
}

fn check_refused(asks: proto::Asks, expected: &str) {
    let message = Some(proto::lease_request::Message::Asks(asks));
    let refused = LeaseRequest::try_from(proto::LeaseRequest { message }).unwrap_err();
    assert_eq!(refused.to_string(), expected);
    let (field, problem) = refused.parts();
    assert!(expected.starts_with(&field) && expected.ends_with(&problem), "{field}, {problem}");
}

#[test]
fn an_ask_under_a_limit_that_isnt_there_is_refused() {
    let lease = proto::LeaseAsk { limit: 1, ..proto::LeaseAsk::default() };
    check_refused(
        asking(proto::ask::Ask::Lease(lease)),
        "asks.asks[0].lease.limit: 1 is no position in a list of 1",
    );
    let demands = vec![proto::ExactDemand { limit: 7, ..proto::ExactDemand::default() }];
    let acquire = proto::ExactDemands { demands };
    check_refused(
        asking(proto::ask::Ask::Acquire(acquire)),
        "asks.asks[0].acquire.demands[0].limit: 7 is no position in a list of 1",
    );
}

#[test]
fn an_ask_of_a_session_that_isnt_there_is_refused() {
    let asks = vec![proto::Ask { session: 2, ..proto::Ask::default() }];
    let asks = proto::Asks { sessions: vec![proto::Session::default()], asks, ..proto::Asks::default() };
    check_refused(asks, "asks.asks[0].session: 2 is no position in a list of 1");
}

#[test]
fn more_than_the_bounds_is_refused() {
    let many = proto::Asks { asks: vec![proto::Ask::default(); ASKS_MAX + 1], ..proto::Asks::default() };
    check_refused(many, "asks.asks: 1025 are too many, 1024 are the most");
    let many =
        proto::Asks { sessions: vec![proto::Session::default(); ASKS_MAX + 1], ..proto::Asks::default() };
    check_refused(many, "asks.sessions: 1025 are too many, 1024 are the most");
    let many = proto::Asks { limits: vec![a_limit(); ASKS_MAX + 1], ..proto::Asks::default() };
    check_refused(many, "asks.limits: 1025 are too many, 1024 are the most");
    let usage = vec![proto::LeaseUsage::default(); USAGE_MAX + 1];
    let lease = proto::LeaseAsk { usage, ..proto::LeaseAsk::default() };
    check_refused(
        asking(proto::ask::Ask::Lease(lease)),
        "asks.asks[0].lease.usage: 257 are too many, 256 are the most",
    );
    let items = vec![proto::RefundedCharge::default(); ITEMS_MAX + 1];
    check_refused(
        asking(proto::ask::Ask::Refund(proto::RefundedCharges { items })),
        "asks.asks[0].refund.items: 257 are too many, 256 are the most",
    );
}

#[test]
fn what_names_nothing_is_refused() {
    let preview = proto::ExactDemands::default();
    check_refused(asking(proto::ask::Ask::Preview(preview)), "asks.asks[0].preview.demands: it is empty");
    let reset = proto::CounterKeys { key_high: vec![1, 2], key_low: vec![1] };
    check_refused(
        asking(proto::ask::Ask::Reset(reset)),
        "asks.asks[0].reset.key_low: it has 1 elements, the column beside it has 2",
    );
    let limits = vec![proto::AskedLimit::default()];
    check_refused(
        proto::Asks { limits, ..proto::Asks::default() },
        "asks.limits[0].limit: it is absent, or of a kind that a later version added",
    );
}

fn check_hello(hello: proto::Hello, expected: &str) {
    assert_eq!(Hello::try_from(hello).unwrap_err().to_string(), expected);
}

#[test]
fn a_greeting_names_a_level_and_no_long_names() {
    check_hello(proto::Hello::default(), "hello.feature_level: it is 0, or absent");
    let name = "x".repeat(NAME_BYTES_MAX + 1);
    check_hello(
        proto::Hello { feature_level: 1, name, ..proto::Hello::default() },
        "hello.name: it has 129 bytes, 128 are the most",
    );
}

#[test]
fn tokens_without_a_lease_are_refused() {
    let granted = proto::Granted { granted: 1, ..proto::Granted::default() };
    let answer = proto::LeaseAnswer { tag: 1, answer: Some(proto::lease_answer::Answer::Granted(granted)) };
    let message = Some(proto::lease_response::Message::Answers(proto::Answers { answers: vec![answer] }));
    let refused = LeaseResponse::try_from(proto::LeaseResponse { message }).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "answers[0].granted.lease: it is absent, or of a kind that a later version added"
    );
}

#[test]
fn a_secret_has_its_length_and_is_never_shown() {
    let rules = proto::RuleSet { secret: vec![1; 15].into(), ..proto::RuleSet::default() };
    let refused = RuleSet::try_from(rules).unwrap_err();
    assert_eq!(refused.to_string(), "rules.secret: it has 15 bytes, not 16");
    let rules = proto::RuleSet { secret: vec![0xab; 16].into(), ..proto::RuleSet::default() };
    let shown = format!("{:?}", RuleSet::try_from(rules).unwrap());
    assert!(!shown.contains("171") && !shown.contains("secret"), "{shown}");
}

/// A later version's request: a kind of message and fields that this one doesn't know.
#[derive(Clone, PartialEq, prost::Message)]
struct LaterRequest {
    #[prost(message, optional, tag = "1")]
    hello: Option<LaterHello>,
    #[prost(message, optional, tag = "2")]
    asks: Option<LaterAsks>,
    #[prost(message, optional, tag = "9")]
    telemetry: Option<LaterHello>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LaterHello {
    #[prost(fixed64, tag = "2")]
    edge_low: u64,
    #[prost(uint32, tag = "3")]
    feature_level: u32,
    #[prost(string, tag = "90")]
    colour: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LaterAsks {
    /// Empty messages are sessions of number 0.
    #[prost(message, repeated, tag = "2")]
    sessions: Vec<LaterHello>,
    #[prost(message, repeated, tag = "3")]
    asks: Vec<LaterAsk>,
    #[prost(uint64, repeated, tag = "70")]
    priorities: Vec<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LaterAsk {
    #[prost(uint64, tag = "1")]
    tag: u64,
    /// In place of the kinds of asks of this version.
    #[prost(message, optional, tag = "55")]
    forecast: Option<LaterHello>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LaterResponse {
    #[prost(message, optional, tag = "3")]
    answers: Option<LaterAnswers>,
    #[prost(string, optional, tag = "44")]
    advice: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LaterAnswers {
    #[prost(message, repeated, tag = "1")]
    answers: Vec<LaterAnswer>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LaterAnswer {
    #[prost(uint64, tag = "1")]
    tag: u64,
    #[prost(uint32, optional, tag = "5")]
    reset: Option<u32>,
    #[prost(string, optional, tag = "33")]
    verdict: Option<String>,
}

#[test]
fn fields_of_a_later_version_are_skipped() {
    let hello = LaterHello { edge_low: 7, feature_level: 3, colour: "red".into() };
    let request = LaterRequest { hello: Some(hello), ..LaterRequest::default() };
    let (name, version) = (String::new(), String::new());
    let read = Hello { edge: EdgeId(7), feature_level: 3, name, version };
    assert_eq!(read_request(&request.encode_to_vec()), Ok(LeaseRequest::Hello(read)));

    let answer = LaterAnswer { tag: 4, reset: Some(2), verdict: Some("fine".into()) };
    let answers = Some(LaterAnswers { answers: vec![answer] });
    let response = LaterResponse { answers, advice: None };
    let read = Answer { tag: 4, outcome: Outcome::Reset(2) };
    assert_eq!(read_response(&response.encode_to_vec()), Ok(LeaseResponse::Answers(vec![read])));
}

#[test]
fn messages_of_a_later_version_are_skipped() {
    let request = LaterRequest { telemetry: Some(LaterHello::default()), ..LaterRequest::default() };
    assert_eq!(read_request(&request.encode_to_vec()), Ok(LeaseRequest::Later));
    let response = LaterResponse { answers: None, advice: Some("slow down".into()) };
    assert_eq!(read_response(&response.encode_to_vec()), Ok(LeaseResponse::Later));
}

#[test]
fn asks_and_answers_of_a_later_version_leave_the_others_alone() {
    let later = LaterAsk { tag: 8, forecast: Some(LaterHello::default()) };
    let asks = LaterAsks {
        sessions: vec![LaterHello::default()],
        asks: vec![later, LaterAsk { tag: 9, forecast: None }],
        priorities: vec![1, 2],
    };
    let request = LaterRequest { asks: Some(asks), ..LaterRequest::default() };
    let id = RequestId { session: 0, seq: 0 };
    let ask = |tag| Ask { tag, id, budget: None, what: What::Later };
    let read = Asks { asks: vec![ask(8), ask(9)], ..Asks::default() };
    assert_eq!(read_request(&request.encode_to_vec()), Ok(LeaseRequest::Asks(read)));

    let later = LaterAnswer { tag: 5, reset: None, verdict: Some("perhaps".into()) };
    let known = LaterAnswer { tag: 6, reset: Some(1), verdict: None };
    let response =
        LaterResponse { answers: Some(LaterAnswers { answers: vec![later, known] }), advice: None };
    let read = vec![
        Answer { tag: 5, outcome: Outcome::Unanswered(Unanswered::Unreachable) },
        Answer { tag: 6, outcome: Outcome::Reset(1) },
    ];
    assert_eq!(read_response(&response.encode_to_vec()), Ok(LeaseResponse::Answers(read)));
}

#[test]
fn reasons_of_a_later_version_are_no_answer() {
    for answer in [
        proto::lease_answer::Answer::Unanswered(17),
        proto::lease_answer::Answer::Refused(proto::AskRefused { refusal: 23, tenant: 1 }),
    ] {
        let read = Answer::try_from(proto::LeaseAnswer { tag: 1, answer: Some(answer) }).unwrap();
        assert_eq!(read.outcome, Outcome::Unanswered(Unanswered::Unreachable));
    }
}

#[test]
fn a_message_of_a_thousand_usual_asks_has_a_tenth_of_the_bytes_it_may() {
    let key = leasehold_model::Key::from_u128(u128::MAX);
    let usage = |lease| Usage { lease: LeaseId(lease), spent_total: 1_000, returned_total: 0 };
    let lease = AskedLease {
        key,
        limit: 0,
        need: 1,
        want: 500,
        rate: MilliRate(1_000_000),
        lifetime: Nanos::from_secs(5),
        usage: vec![usage(1 << 40), usage(1 << 41)],
    };
    let ask = |seq| Ask {
        tag: seq,
        id: RequestId { session: u128::MAX, seq },
        budget: Some(Nanos::from_secs(1)),
        what: What::Lease(lease.clone()),
    };
    let asks = (0..1 << 10).map(ask);
    let limit = Limit::try_from(a_limit().limit.as_ref().unwrap()).unwrap();
    let spec = leasehold_shard::LimitSpec {
        tenant: leasehold_model::TenantId(1),
        version: RulesVersion(1),
        since: Stamp::ZERO,
        limit,
    };
    let limits = vec![AskedLimit { spec, scope: Scope::Global }];
    let asks = Asks { limits, asks: asks.collect(), settled: Vec::new() };
    let bytes = proto::LeaseRequest::from(LeaseRequest::Asks(asks)).encoded_len();
    assert!(bytes < REQUEST_BYTES_MAX / 10, "{bytes}");
}

#[test]
fn an_ask_of_its_edge_is_the_ask_it_was() {
    let ask = AskedLease {
        key: leasehold_model::Key::MIN,
        limit: 3,
        need: 1,
        want: 2,
        rate: MilliRate(4),
        lifetime: Nanos(5),
        usage: Vec::new(),
    };
    assert_eq!(AskedLease::new(&ask.clone().by(EdgeId(9)), 3), ask);
    assert_eq!(ask.by(EdgeId(9)).edge, EdgeId(9));
}
