//! Whose time is told, and when none is.

use bytes::Bytes;

use super::*;

fn id(term: u64, index: u64) -> EntryId {
    EntryId { term, node: term, index }
}

fn note(receipts: &Receipts, term: u64, indexes: std::ops::RangeInclusive<u64>, now: u64) {
    let entries: Vec<Entry> =
        indexes.map(|index| Entry { id: id(term, index), data: Bytes::new() }).collect();
    receipts.note(&entries, Stamp(now));
}

/// How old the entry is said to be at 100.
fn check(receipts: &Receipts, term: u64, index: u64, expected: Option<u64>) {
    assert_eq!(receipts.take(id(term, index), Stamp(100)), expected.map(Nanos), "{index} of term {term}");
}

#[test]
fn an_entry_is_as_old_as_its_receipt_however_late_it_is_applied() {
    let receipts = Receipts::default();
    note(&receipts, 1, 5..=6, 30);
    note(&receipts, 1, 7..=7, 40);
    check(&receipts, 1, 5, Some(70));
    check(&receipts, 1, 7, Some(60));
}

#[test]
fn the_receipt_of_an_entry_that_was_cut_off_counts_for_none() {
    let receipts = Receipts::default();
    note(&receipts, 1, 5..=9, 30);
    note(&receipts, 2, 6..=6, 40);
    check(&receipts, 1, 5, Some(70));
    check(&receipts, 2, 6, Some(60));
    check(&receipts, 1, 7, None);
    note(&receipts, 2, 7..=7, 50);
    check(&receipts, 3, 7, None);
}

#[test]
fn an_entry_from_before_a_restart_or_in_a_snapshot_has_no_receipt() {
    let receipts = Receipts::default();
    check(&receipts, 1, 5, None);
    note(&receipts, 1, 8..=9, 30);
    check(&receipts, 1, 7, None);
    check(&receipts, 1, 20, None);
    check(&receipts, 1, 9, None);
}

#[test]
fn of_too_many_receipts_the_oldest_are_forgotten() {
    let receipts = Receipts::default();
    let last = u64::try_from(RECEIPTS_MAX).unwrap() + 1;
    note(&receipts, 1, 1..=last, 30);
    check(&receipts, 1, 1, None);
    check(&receipts, 1, 2, Some(70));
    check(&receipts, 1, last, Some(70));
}
