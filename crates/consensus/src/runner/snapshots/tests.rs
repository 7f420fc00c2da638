//! Snapshot files: whole or not there.

use std::collections::BTreeSet;

use openraft::{CommittedLeaderId, LogId, Membership, StoredMembership};

use super::*;

fn meta(index: u64) -> SnapshotMeta<u64, EmptyNode> {
    let log_id = LogId::new(CommittedLeaderId::new(3, 2), index);
    let membership = Membership::new(vec![BTreeSet::from([1, 2, 3])], BTreeSet::from([1, 2, 3, 4]));
    SnapshotMeta {
        last_log_id: Some(log_id),
        last_membership: StoredMembership::new(Some(log_id), membership),
        snapshot_id: format!("of {index}"),
    }
}

fn written(indexes: &[u64]) -> (tempfile::TempDir, SnapshotDir) {
    let dir = tempfile::tempdir().unwrap();
    let snapshots = SnapshotDir::new(dir.path().to_owned());
    for index in indexes {
        snapshots.write(&meta(*index), &index.to_le_bytes()).unwrap();
    }
    (dir, snapshots)
}

#[test]
fn an_empty_directory_has_no_snapshot() {
    assert!(written(&[]).1.newest().unwrap().is_none());
}

#[test]
fn the_newest_is_read_back_as_it_was_written_and_older_ones_are_gone() {
    let (dir, snapshots) = written(&[5, 12]);
    let stored = snapshots.newest().unwrap().unwrap();
    assert_eq!((stored.meta, stored.state), (meta(12), 12_u64.to_le_bytes().to_vec()));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn what_a_crash_left_unfinished_is_ignored() {
    let (dir, snapshots) = written(&[5]);
    fs::write(dir.path().join(UNFINISHED), b"half of it").unwrap();
    assert_eq!(snapshots.newest().unwrap().unwrap().meta, meta(5));
    snapshots.write(&meta(6), b"").unwrap();
    assert_eq!(snapshots.newest().unwrap().unwrap().meta, meta(6));
}

#[test]
fn any_flipped_or_missing_byte_is_damage_and_not_an_absent_snapshot() {
    let (dir, snapshots) = written(&[5]);
    let path = dir.path().join(format!("{:020}{SUFFIX}", 5));
    let good = fs::read(&path).unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        fs::write(&path, &bad).unwrap();
        assert!(snapshots.newest().is_err(), "flipped at {at}");
        fs::write(&path, &good[..at]).unwrap();
        assert!(snapshots.newest().is_err(), "cut at {at}");
    }
}
