//! Pieces of a snapshot, put together or refused.

use bytes::Bytes;
use leasehold_wire::raft::SnapshotMeta;

use super::*;

fn piece(id: &str, offset: u64, data: &'static [u8], whole: &[u8]) -> SnapshotChunk {
    SnapshotChunk {
        vote: None,
        meta: Some(SnapshotMeta { id: id.to_owned(), ..SnapshotMeta::default() }),
        offset,
        total: whole.len() as u64,
        checksum: crc32c::crc32c(whole),
        data: Bytes::from_static(data),
    }
}

fn check(pieces: &[SnapshotChunk], expected: Result<Option<&[u8]>, RaftMessageError>) {
    let mut slot = None;
    let mut last = Ok(None);
    for piece in pieces {
        last = Receiving::take(&mut slot, piece);
    }
    assert_eq!(last, expected.map(|whole| whole.map(<[u8]>::to_vec)));
}

#[test]
fn pieces_in_order_make_the_snapshot() {
    check(&[piece("a", 0, b"hel", b"hello"), piece("a", 3, b"lo", b"hello")], Ok(Some(b"hello")));
}

#[test]
fn an_empty_snapshot_is_whole_at_once() {
    check(&[piece("a", 0, b"", b"")], Ok(Some(b"")));
}

#[test]
fn a_piece_that_was_skipped_is_missed() {
    let missing = Err(RaftMessageError::Missing("the piece before"));
    check(&[piece("a", 0, b"he", b"hello"), piece("a", 3, b"lo", b"hello")], missing);
}

#[test]
fn a_piece_that_comes_twice_is_refused() {
    let missing = Err(RaftMessageError::Missing("the piece before"));
    check(
        &[piece("a", 0, b"h", b"hello"), piece("a", 1, b"e", b"hello"), piece("a", 1, b"e", b"hello")],
        missing,
    );
}

#[test]
fn pieces_of_two_snapshots_are_not_mixed() {
    let missing = Err(RaftMessageError::Missing("the piece before"));
    check(&[piece("a", 0, b"hel", b"hello"), piece("b", 3, b"p!", b"help!")], missing);
}

#[test]
fn a_snapshot_that_starts_anew_replaces_the_one_before() {
    check(&[piece("a", 0, b"hel", b"hello"), piece("b", 0, b"hi", b"hi")], Ok(Some(b"hi")));
}

#[test]
fn a_flipped_byte_is_noticed() {
    check(&[piece("a", 0, b"hellO", b"hello")], Err(RaftMessageError::Malformed));
}

#[test]
fn more_than_was_announced_is_refused() {
    check(&[piece("a", 0, b"hello!", b"hello")], Err(RaftMessageError::Missing("the piece before")));
}

#[test]
fn a_snapshot_that_is_too_long_is_refused_before_memory_is_taken() {
    let chunk = SnapshotChunk { total: u64::MAX, ..piece("a", 0, b"x", b"x") };
    check(&[chunk], Err(RaftMessageError::Malformed));
}
