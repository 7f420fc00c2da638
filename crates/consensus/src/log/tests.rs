//! What the log promises of appends, votes, purges and openings.

use super::*;
use crate::disk::sim::SimDisk;

const GROUP: GroupId = GroupId(3);

fn config() -> LogConfig {
    LogConfig { segment_bytes: 8192, reserve_bytes: 512, tail_bytes_max: 1000 }
}

fn open(disk: &SimDisk) -> Log {
    Log::open_on(Arc::new(disk.clone()), config(), Arc::new(|error| panic!("fatal: {error}"))).unwrap()
}

fn id(index: u64) -> EntryId {
    EntryId { term: 1, node: 1, index }
}

fn entries(indexes: std::ops::Range<u64>) -> Change {
    Change::Append(indexes.map(|index| Entry { id: id(index), data: vec![1; 60].into() }).collect())
}

async fn check(changes: Vec<Change>, expected: Result<GroupState, WriteError>) {
    let disk = SimDisk::new();
    let log = open(&disk);
    let mut last = Ok(());
    for change in changes {
        last = log.write(GROUP, change).await;
    }
    assert_eq!(last.map(|()| log.state(GROUP)), expected);
    log.close();
    disk.crash(1);
    if let Ok(state) = expected {
        assert_eq!(open(&disk).state(GROUP), state, "after a restart");
    }
}

const fn state(purged: Option<EntryId>, last: Option<EntryId>) -> GroupState {
    GroupState { vote: None, purged, last }
}

#[tokio::test]
async fn entries_follow_each_other() {
    check(vec![entries(0..3), entries(3..5)], Ok(state(None, Some(id(4))))).await;
}

#[tokio::test]
async fn a_gap_is_refused() {
    let refused = WriteError::Gap { group: GROUP, index: 4, last: Some(id(2)) };
    check(vec![entries(0..3), entries(4..5)], Err(refused)).await;
}

#[tokio::test]
async fn a_first_entry_that_is_not_0_is_refused() {
    check(vec![entries(1..3)], Err(WriteError::Gap { group: GROUP, index: 1, last: None })).await;
}

#[tokio::test]
async fn a_gap_inside_an_append_is_refused() {
    let (Change::Append(mut some), Change::Append(more)) = (entries(0..2), entries(3..4)) else {
        unreachable!()
    };
    some.extend(more);
    check(vec![Change::Append(some)], Err(WriteError::Gap { group: GROUP, index: 3, last: None })).await;
}

#[tokio::test]
async fn an_append_above_the_bound_is_refused() {
    let data = Bytes::from(vec![0; 1 << 20]);
    let many = (0..65).map(|index| Entry { id: id(index), data: data.clone() }).collect();
    let refused = WriteError::TooLarge { bytes: 65 * ((1 << 20) + 56) };
    check(vec![Change::Append(many)], Err(refused)).await;
}

#[tokio::test]
async fn an_append_longer_than_a_segment_gets_a_longer_one() {
    check(vec![entries(0..400)], Ok(state(None, Some(id(399))))).await;
}

#[tokio::test]
async fn a_truncated_place_is_taken_again() {
    let changes = vec![entries(0..9), Change::Truncate(4), entries(4..6)];
    check(changes, Ok(state(None, Some(id(5))))).await;
}

#[tokio::test]
async fn a_log_that_is_purged_whole_knows_its_last_entry() {
    check(vec![entries(0..9), Change::Purge(id(8))], Ok(state(Some(id(8)), Some(id(8))))).await;
}

#[tokio::test]
async fn a_purge_past_the_end_moves_the_end() {
    let changes = vec![entries(0..9), Change::Purge(id(20)), entries(21..23)];
    check(changes, Ok(state(Some(id(20)), Some(id(22))))).await;
}

#[tokio::test]
async fn an_older_purge_changes_nothing() {
    let changes = vec![entries(0..9), Change::Purge(id(5)), Change::Purge(id(3))];
    check(changes, Ok(state(Some(id(5)), Some(id(8))))).await;
}

#[tokio::test]
async fn a_cleared_group_keeps_its_vote() {
    let vote = Vote { term: 4, node: 2, committed: true };
    let changes = vec![entries(0..9), Change::Vote(vote), Change::Clear];
    check(changes, Ok(GroupState { vote: Some(vote), purged: None, last: None })).await;
}

#[tokio::test]
async fn reads_stop_at_their_bound_but_return_one_entry() {
    let disk = SimDisk::new();
    let log = open(&disk);
    log.write(GROUP, entries(0..2)).await.unwrap();
    log.write(GROUP, entries(2..50)).await.unwrap();
    for (range, bytes_max, expected) in
        [(0..50, 1, 2), (45..50, 1, 1), (45..50, 130, 3), (49..90, 1, 1), (50..90, 9, 0)]
    {
        let found = log.read(GROUP, range.clone(), bytes_max).unwrap();
        assert_eq!(found.len(), expected, "{range:?} within {bytes_max} bytes");
        assert!(found.iter().zip(range).all(|(found, index)| found.id.index == index));
    }
}

#[tokio::test]
async fn the_newest_entries_are_read_without_the_disk() {
    let log = open(&SimDisk::new());
    log.write(GROUP, entries(0..50)).await.unwrap();
    assert!(log.read_cached(GROUP, 48..50, u64::MAX).is_some());
    assert!(log.read_cached(GROUP, 0..50, u64::MAX).is_none());
}

#[tokio::test]
async fn damage_found_while_reading_is_an_error() {
    let disk = SimDisk::new();
    let log = open(&disk);
    log.write(GROUP, entries(0..50)).await.unwrap();
    assert!(disk.flip_bit("0000000000000001.seg", 1000, 3));
    let error = log.read(GROUP, 0..50, u64::MAX).unwrap_err();
    assert!(matches!(error, ReadError::Damaged { segment: 1, low: 0, high: 49, .. }), "{error}");
}

#[tokio::test]
async fn a_lost_segment_is_noticed() {
    let disk = SimDisk::new();
    let log = open(&disk);
    for index in 0..300 {
        log.write(GROUP, entries(index..index + 1)).await.unwrap();
    }
    log.close();
    crate::disk::Disk::remove(&disk, "0000000000000001.seg").unwrap();
    let error = Log::open_on(Arc::new(disk), config(), Arc::new(|_| {})).unwrap_err().to_string();
    assert!(error.contains("entries 0 to") && error.contains("must not vote"), "{error}");
}

#[tokio::test]
async fn waiting_changes_share_a_sync() {
    let disk = SimDisk::new();
    let log = open(&disk);
    let before = disk.syncs();
    let writes = (0..200).map(|group| {
        let log = log.clone();
        tokio::spawn(async move { log.write(GroupId(group), entries(0..1)).await })
    });
    for write in writes.collect::<Vec<_>>() {
        write.await.unwrap().unwrap();
    }
    assert!(disk.syncs() - before < 100, "{} syncs", disk.syncs() - before);
}

#[tokio::test]
async fn a_closed_log_takes_nothing_more() {
    let log = open(&SimDisk::new());
    log.write(GROUP, entries(0..1)).await.unwrap();
    log.close();
    assert_eq!(log.write(GROUP, entries(1..2)).await, Err(WriteError::Stopped));
}
