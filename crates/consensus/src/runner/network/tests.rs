//! Which messages a replica is spared.

use openraft::{CommittedLeaderId, Entry, EntryPayload};

use super::*;

fn log_id(index: u64) -> LogId<u64> {
    LogId::new(CommittedLeaderId::new(3, 1), index)
}

fn request(previous: u64, entries: Vec<Entry<RaftTypes>>) -> AppendEntriesRequest<RaftTypes> {
    AppendEntriesRequest {
        vote: Vote::new_committed(3, 1),
        prev_log_id: Some(log_id(previous)),
        entries,
        leader_commit: Some(log_id(previous)),
    }
}

const SENT: Stamp = Stamp(1_000_000_000);

fn acknowledged() -> Acknowledged {
    Acknowledged { vote: Vote::new_committed(3, 1), last: log_id(7), sent: SENT }
}

#[test]
fn only_what_tells_nothing_but_what_is_committed_is_spared_and_not_for_long() {
    let soon = SENT.after(Nanos(FRESH.0 - 1));
    assert!(acknowledged().makes_needless(&request(7, Vec::new()), soon));
    assert!(acknowledged().makes_needless(&request(5, Vec::new()), soon));
    // A beat after that renews the lease.
    assert!(!acknowledged().makes_needless(&request(7, Vec::new()), SENT.after(FRESH)));
    let entry = Entry { log_id: log_id(8), payload: EntryPayload::Blank };
    assert!(!acknowledged().makes_needless(&request(7, vec![entry]), soon), "entries travel");
    assert!(!acknowledged().makes_needless(&request(8, Vec::new()), soon), "it isn't known to have that one");
    let later = AppendEntriesRequest { vote: Vote::new_committed(4, 1), ..request(7, Vec::new()) };
    assert!(!acknowledged().makes_needless(&later, soon), "another term knows nothing of this one");
}
