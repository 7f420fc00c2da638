//! Messages between nodes as bytes, there and back, and bytes that are none.

use std::fmt::Debug;

use bytes::Bytes;
use leasehold_control::NodeRecord;
use leasehold_lease::EdgeId;
use leasehold_model::{Nanos, ShardId, TenantId};
use leasehold_shard::{LeaseNumbers, LentLease, Reply};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::proto::leasehold::storage::v1 as storage;
use crate::testing::{arbitrary, arbitrary_control};

fn text() -> impl Strategy<Value = String> {
    arbitrary_control::text().prop_map(|text| text.to_string())
}

fn node() -> impl Strategy<Value = NodeId> {
    arbitrary_control::node()
}

fn cluster_id() -> impl Strategy<Value = ClusterId> {
    any::<u128>().prop_map(ClusterId)
}

fn form_request() -> impl Strategy<Value = FormRequest> {
    (text(), btree_set(text(), 0..4), any::<(u32, u32, u128)>(), arbitrary_control::record()).prop_map(
        |(cluster, seeds, (shards, replicas, nonce), record)| FormRequest {
            cluster,
            seeds,
            shards,
            replicas,
            record,
            nonce,
        },
    )
}

fn founding() -> impl Strategy<Value = Founding> {
    (arbitrary_control::cluster(), text(), vec(arbitrary_control::record(), 0..4))
        .prop_map(|(cluster, name, founders)| Founding { cluster, name, founders })
}

fn answered<T: Clone + Debug>(reply: impl Strategy<Value = T>) -> impl Strategy<Value = Answered<T>> {
    prop_oneof![
        reply.prop_map(Answered::Reply),
        option::of(node()).prop_map(|hint| Answered::NotLeader { hint }),
        Just(Answered::Overloaded),
        option::of(node()).prop_map(|hint| Answered::Unknown { hint }),
    ]
}

fn replica() -> impl Strategy<Value = ReplicaStatus> {
    let role = select(vec![Role::Learner, Role::Follower, Role::Candidate, Role::Leader]);
    let hash = any::<(Option<u64>, u64)>().prop_map(|(applied, hash)| StateHash { applied, hash });
    (
        (any::<(u32, u64, bool)>(), role, option::of(node()), any::<[Option<u64>; 6]>()),
        vec(btree_set(node(), 0..4), 0..3),
        btree_set(node(), 0..4),
        btree_map(node(), any::<Option<u64>>(), 0..4),
        option::of(hash),
    )
        .prop_map(|(((group, term, serving), role, leader, places), voters, learners, matched, hash)| {
            let [last_log, committed, applied, snapshot, purged, keys] = places;
            ReplicaStatus {
                group,
                role,
                term,
                leader,
                serving,
                last_log,
                committed,
                applied,
                snapshot,
                purged,
                voters,
                learners,
                matched,
                hash,
                keys,
            }
        })
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        node().prop_map(Change::AddLearner),
        node().prop_map(Change::RemoveLearner),
        btree_set(node(), 0..5).prop_map(Change::Voters),
        node().prop_map(Change::Transfer),
    ]
}

/// A value goes through its bytes and comes back.
macro_rules! survives {
    ($($name:ident: $type:ty = $strategy:expr;)*) => {
        proptest! {
            $(#[test]
            fn $name(value in $strategy) {
                let bytes: Bytes = value.clone().encode();
                prop_assert_eq!(<$type>::decode(bytes), Ok(value));
            })*

            #[test]
            fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..200)) {
                $(let _ = <$type>::decode(&*bytes);)*
            }

            /// Nearly right bytes get further than arbitrary ones.
            #[test]
            fn damaged_messages_never_panic(
                whole in prop_oneof![$($strategy.prop_map(<$type>::encode).boxed()),*],
                at in any::<usize>(),
                byte in any::<u8>(),
            ) {
                let mut bytes = whole.to_vec();
                if let Some(at) = at.checked_rem(bytes.len()) {
                    bytes[at] = byte;
                }
                $(let _ = <$type>::decode(&*bytes);)*
            }
        }
    };
}

survives! {
    a_form_request_survives: FormRequest = form_request();
    a_form_reply_survives: FormReply = prop_oneof![
        cluster_id().prop_map(FormReply::Formed),
        founding().prop_map(FormReply::Founding),
        form_request().prop_map(FormReply::Forming),
    ];
    a_founding_survives: Founding = founding();
    a_found_reply_survives: FoundReply = prop_oneof![
        Just(FoundReply::Stored),
        cluster_id().prop_map(FoundReply::Other),
        Just(FoundReply::NotMe),
    ];
    a_join_request_survives: JoinRequest = (text(), arbitrary_control::record())
        .prop_map(|(name, record)| JoinRequest { name, record });
    a_join_reply_survives: JoinReply = prop_oneof![
        (cluster_id(), vec((node(), text()), 0..4))
            .prop_map(|(cluster, peers)| JoinReply::Welcome { cluster, peers }),
        text().prop_map(JoinReply::Refused),
        text().prop_map(JoinReply::Later),
    ];
    a_command_request_survives: CommandRequest = arbitrary_control::command().prop_map(CommandRequest);
    an_ask_request_survives: AskRequest = arbitrary::batch().prop_map(AskRequest);
    a_preview_request_survives: PreviewRequest = (vec(arbitrary::spec(), 0..3), arbitrary::acquire())
        .prop_map(|(limits, acquire)| PreviewRequest { limits, acquire });
    an_answered_command_survives: Answered<leasehold_control::Reply> = answered(arbitrary_control::reply());
    an_answered_ask_survives: Answered<Vec<Reply>> = answered(vec(arbitrary::reply(), 0..4));
    an_answered_preview_survives: Answered<Reply> = answered(arbitrary::reply());
    a_status_request_survives: StatusRequest = any::<(Vec<u32>, bool)>()
        .prop_map(|(groups, hash)| StatusRequest { groups, hash });
    a_status_reply_survives: StatusReply = vec(replica(), 0..4)
        .prop_map(|replicas| StatusReply { replicas });
    a_leases_request_survives: LeasesRequest = any::<(u32, Option<u64>)>()
        .prop_map(|(most, tenant)| LeasesRequest { most, tenant: tenant.map(TenantId) });
    a_leases_reply_survives: LeasesReply = (vec(numbers(), 0..4), vec(lent(), 0..4), any::<bool>())
        .prop_map(|(shards, leases, more)| LeasesReply { shards, leases, more });
    an_edge_names_request_survives: EdgeNamesRequest = vec(any::<u128>().prop_map(EdgeId), 0..4)
        .prop_map(EdgeNamesRequest);
    an_edge_names_reply_survives: EdgeNamesReply = vec((any::<u128>().prop_map(EdgeId), text()), 0..4)
        .prop_map(EdgeNamesReply);
    a_change_request_survives: ChangeRequest = (any::<u32>(), change())
        .prop_map(|(group, change)| ChangeRequest { group, change });
    a_change_reply_survives: ChangeReply = prop_oneof![
        Just(ChangeReply::Done),
        option::of(node()).prop_map(|hint| ChangeReply::NotLeader { hint }),
        text().prop_map(ChangeReply::Refused),
        Just(ChangeReply::Unknown),
    ];
}

fn numbers() -> impl Strategy<Value = (ShardId, LeaseNumbers)> {
    any::<(u32, [u64; 10])>().prop_map(|(shard, numbers)| {
        let [leases, entries, out, grants, granted, spent, returned, lapsed, gates, violations] = numbers;
        let numbers = LeaseNumbers {
            leases,
            entries,
            out,
            grants,
            granted,
            spent,
            returned,
            lapsed,
            gates,
            violations,
        };
        (ShardId(shard), numbers)
    })
}

fn lent() -> impl Strategy<Value = (ShardId, LentLease)> {
    any::<(u32, u128, u64, u128, [u64; 4])>().prop_map(|(shard, key, tenant, edge, units)| {
        let [granted, spent, returned, ends] = units;
        let (key, tenant, edge) = (Key::from_u128(key), TenantId(tenant), EdgeId(edge));
        let expires_in = Nanos(ends);
        (ShardId(shard), LentLease { key, tenant, edge, granted, spent, returned, expires_in })
    })
}

#[track_caller]
fn check_refused<T: Debug>(decoded: Result<T, PeerError>, expected: &str) {
    let error = decoded.expect_err("it should be refused").to_string();
    assert!(error.contains(expected), "{error:?} lacks {expected:?}");
}

fn bytes(message: &impl prost::Message) -> Bytes {
    message.encode_to_vec().into()
}

fn record(change: impl FnOnce(&mut storage::NodeRecord)) -> Option<storage::NodeRecord> {
    let mut record = storage::NodeRecord { id: 1, standing: 1, ..storage::NodeRecord::default() };
    change(&mut record);
    Some(record)
}

fn form(change: impl FnOnce(&mut proto::FormRequest)) -> Result<FormRequest, PeerError> {
    let mut form = proto::FormRequest { record: record(|_| {}), ..proto::FormRequest::default() };
    change(&mut form);
    FormRequest::decode(bytes(&form))
}

#[test]
fn empty_messages_are_no_answers() {
    check_refused(FormReply::decode(Bytes::new()), "answer: it is absent");
    check_refused(FoundReply::decode(Bytes::new()), "answer: it is absent");
    check_refused(JoinReply::decode(Bytes::new()), "answer: it is absent");
    check_refused(ChangeReply::decode(Bytes::new()), "answer: it is absent");
    check_refused(Answered::<Reply>::decode(Bytes::new()), "answer: it is absent");
    check_refused(CommandRequest::decode(Bytes::new()), "command: it is absent");
    check_refused(ChangeRequest::decode(Bytes::new()), "change: it is absent");
    check_refused(PreviewRequest::decode(Bytes::new()), "acquire: it is absent");
    check_refused(Founding::decode(Bytes::new()), "cluster: it is absent");
    check_refused(JoinRequest::decode(Bytes::new()), "record: it is absent");
}

#[test]
fn an_answer_without_the_reply_it_promises_is_refused() {
    let answer = proto::Answer { answer: Some(proto::answer::Answer::Reply(Bytes::new())) };
    check_refused(Answered::<Reply>::decode(bytes(&answer)), "reply: it is absent");
    check_refused(Answered::<leasehold_control::Reply>::decode(bytes(&answer)), "reply: it is absent");
    assert_eq!(Answered::<Vec<Reply>>::decode(bytes(&answer)), Ok(Answered::Reply(Vec::new())));
}

#[test]
fn wrong_enums_are_refused() {
    for number in [0, 9, -1] {
        check_refused(
            form(|form| form.record = record(|record| record.standing = number)),
            &format!("record.standing: {number} is unknown"),
        );
        let replicas = vec![proto::ReplicaStatus { role: number, ..proto::ReplicaStatus::default() }];
        let status = StatusReply::decode(bytes(&proto::StatusReply { replicas }));
        check_refused(status, &format!("replicas[0].role: {number} is unknown"));
    }
}

#[test]
fn a_strangers_lists_and_texts_are_bounded() {
    let seeds = |count: usize| (0..count).map(|seed| seed.to_string()).collect::<Vec<_>>();
    assert!(form(|form| form.seeds = seeds(FORM_NODES_MAX)).is_ok());
    check_refused(
        form(|form| form.seeds = seeds(FORM_NODES_MAX + 1)),
        "seeds: 65 are too many, 64 are the most",
    );
    let long = "x".repeat(FORM_TEXT_BYTES_MAX + 1);
    assert!(form(|form| form.cluster = long[1..].to_owned()).is_ok());
    check_refused(form(|form| form.cluster.clone_from(&long)), "cluster: it has 301 bytes");
    check_refused(form(|form| form.seeds = vec![long.clone()]), "seeds[0].address: it has 301 bytes");
    check_refused(
        form(|form| form.record = record(|record| record.zone.clone_from(&long))),
        "record.zone: it has 301 bytes, 300 are the most",
    );
    let founders = vec![storage::NodeRecord::default(); FORM_NODES_MAX + 1];
    let founding = proto::Founding { founders, ..proto::Founding::default() };
    check_refused(Founding::decode(bytes(&founding)), "founders: 65 are too many");
}

#[test]
fn a_founding_is_kept_as_it_was_offered() {
    let founder = NodeRecord {
        id: NodeId(1),
        name: "n1".into(),
        peer_address: "127.0.0.1:7001".into(),
        gossip_address: "127.0.0.1:7101".into(),
        client_address: "127.0.0.1:8001".into(),
        zone: "".into(),
        region: "".into(),
        weight: 100,
        standing: leasehold_placement::Standing::Active,
    };
    let cluster = leasehold_control::Cluster { id: ClusterId(7), secret: [1; 16], shards: 64, replicas: 3 };
    let founding = Founding { cluster, name: "c".into(), founders: vec![founder] };
    let kept = founding.clone().encode();
    let offered = FormReply::decode(FormReply::Founding(founding).encode()).unwrap();
    let FormReply::Founding(offered) = offered else { panic!("{offered:?}") };
    assert_eq!(offered.encode(), kept);
}
