//! What nodes and edges send each other: frames, the messages in them, and the stream of leases.

use bytes::{Bytes, BytesMut};
use leasehold_consensus::log::codec;
use leasehold_consensus::transport;
use leasehold_model::Stamp;
use leasehold_shard::Batch;
use leasehold_wire::Message as _;
use leasehold_wire::lease::{LeaseRequest, LeaseResponse};
use leasehold_wire::peer::{
    Answered, AskRequest, ChangeReply, ChangeRequest, CommandRequest, FormReply, FormRequest, FoundReply,
    Founding, JoinReply, JoinRequest, LeasesReply, LeasesRequest, PreviewRequest, StatusReply, StatusRequest,
};
use leasehold_wire::proto::leasehold::v1;
use leasehold_wire::{control, entry, raft};

use super::Target;

/// What arrives on a connection between nodes after their hello.
pub(super) const FRAMES: Target = Target { name: "peer-frames", run: frames, seeds: some_frames };

/// What frames carry.
pub(super) const MESSAGES: Target = Target { name: "peer-messages", run: messages, seeds: some_messages };

/// The stream between an edge and a node, both ways.
pub(super) const LEASES: Target = Target { name: "lease-messages", run: leases, seeds: some_leases };

fn frames(bytes: &[u8]) {
    // As if it had come in two pieces.
    let (first, rest) = bytes.split_at(bytes.len() / 2);
    let mut arrived = BytesMut::from(first);
    if transport::skip_frames(&mut arrived).is_ok() {
        arrived.extend_from_slice(rest);
        let _ = transport::skip_frames(&mut arrived);
    }
}

fn some_frames() -> Vec<Vec<u8>> {
    let frame = |body: &[u8]| {
        let length = u32::try_from(body.len()).expect("a seed is short");
        [&length.to_le_bytes()[..], body].concat()
    };
    let call = [
        &[1_u8][..],
        &9_u64.to_le_bytes(),
        &1_u16.to_le_bytes(),
        &4_u32.to_le_bytes(),
        &50_u32.to_le_bytes(),
        b"x",
    ];
    let reply = [&[2_u8][..], &9_u64.to_le_bytes(), &[0], b"y"].concat();
    vec![frame(&call.concat()), frame(&reply), [frame(&[3]), frame(&[4])].concat()]
}

/// Whoever sends one says what it is in the frame; here any bytes may be any message.
fn messages(bytes: &[u8]) {
    let from = || Bytes::copy_from_slice(bytes);
    let _ = FormRequest::decode(from());
    let _ = FormReply::decode(from());
    let _ = Founding::decode(from());
    let _ = FoundReply::decode(from());
    let _ = JoinRequest::decode(from());
    let _ = JoinReply::decode(from());
    let _ = ChangeRequest::decode(from());
    let _ = ChangeReply::decode(from());
    let _ = StatusRequest::decode(from());
    let _ = StatusReply::decode(from());
    let _ = LeasesRequest::decode(from());
    let _ = LeasesReply::decode(from());
    let _ = CommandRequest::decode(from());
    let _ = AskRequest::decode(from());
    let _ = PreviewRequest::decode(from());
    let _ = Answered::<Vec<leasehold_shard::Reply>>::decode(from());
    let _ = Answered::<leasehold_control::Reply>::decode(from());
    let _ = entry::decode_replies(from());
    let _ = control::decode_reply(from());
    let _ = codec::decode_payload(from());
    let _ = codec::decode_membership(&mut from());
    let _ = raft::decode::<raft::AppendRequest>(from());
}

fn some_messages() -> Vec<Vec<u8>> {
    let ask = AskRequest(Batch::default()).encode();
    let vote = raft::Vote { term: 4, node: 2, committed: true };
    let id = raft::LogId { term: 4, node: 2, index: 9 };
    let entries = vec![raft::Entry { id: Some(id), payload: Bytes::from_static(&[0]) }];
    let append = raft::AppendRequest { vote: Some(vote), previous: None, entries, committed: Some(id) };
    let membership = [
        &[2_u8, 1, 0, 0, 0, 1, 0, 0, 0][..],
        &7_u64.to_le_bytes(),
        &1_u32.to_le_bytes(),
        &7_u64.to_le_bytes(),
    ];
    vec![
        ask.to_vec(),
        append.encode_to_vec(),
        membership.concat(),
        entry::encode_entry(Stamp(5), &Batch::default()).to_vec(),
    ]
}

fn leases(bytes: &[u8]) {
    if let Ok(message) = v1::LeaseRequest::decode(bytes) {
        let _ = LeaseRequest::try_from(message);
    }
    if let Ok(message) = v1::LeaseResponse::decode(bytes) {
        let _ = LeaseResponse::try_from(message);
    }
}

fn some_leases() -> Vec<Vec<u8>> {
    let said = [LeaseRequest::Bye, LeaseRequest::Later]
        .map(|request| v1::LeaseRequest::from(request).encode_to_vec());
    let answered = [LeaseResponse::GoAway, LeaseResponse::Answers(Vec::new())]
        .map(|response| v1::LeaseResponse::from(response).encode_to_vec());
    said.into_iter().chain(answered).collect()
}
