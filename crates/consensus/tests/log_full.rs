//! Full disks: entries are refused, votes and what frees space still go through, and space is noticed by itself.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

mod common;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use common::{entry, missing, no_fatal, process};
use leasehold_consensus::disk::sim::SimDisk;
use leasehold_consensus::log::openraft_store::GroupStore;
use leasehold_consensus::log::{Change, Engine, EntryId, GroupId, Log, LogConfig, Vote, WriteError};
use leasehold_consensus::types::{Proposal, RaftTypes};
use openraft::storage::{RaftLogStorage, RaftLogStorageExt};
use openraft::{CommittedLeaderId, EntryPayload, LogId};

const GROUP: GroupId = GroupId(1);

fn config() -> LogConfig {
    LogConfig { segment_bytes: 8192, reserve_bytes: 2048, tail_bytes_max: 1024 }
}

fn open(disk: &SimDisk) -> Engine {
    Engine::open(Arc::new(disk.clone()), config(), no_fatal()).unwrap()
}

fn append(engine: &mut Engine, index: u64) -> Result<(), WriteError> {
    process(engine, [(GROUP, Change::Append(vec![entry(GROUP, 1, index)]))]).remove(0)
}

/// A log that has just been refused, and the index it was refused at.
fn filled(disk: &SimDisk) -> (Engine, u64) {
    disk.set_capacity(Some(40_000));
    let mut engine = open(disk);
    let refused = (0..).find(|index| append(&mut engine, *index).is_err()).unwrap();
    assert_eq!(append(&mut engine, refused), Err(WriteError::Full));
    assert!(engine.is_full());
    (engine, refused)
}

fn check_entries(engine: &Engine, upto: u64) {
    let found = engine.reader().read(GROUP, 0..u64::MAX, u64::MAX).unwrap();
    assert_eq!(found, (0..upto).map(|index| entry(GROUP, 1, index)).collect::<Vec<_>>());
}

#[test]
fn a_full_disk_refuses_entries_and_keeps_what_it_has_readable() {
    let disk = SimDisk::new();
    let (engine, refused) = filled(&disk);
    check_entries(&engine, refused);
}

#[test]
fn votes_and_purges_go_through_on_a_full_disk() {
    let disk = SimDisk::new();
    let (mut engine, refused) = filled(&disk);
    let vote = Vote { term: 9, node: 2, committed: false };
    assert_eq!(process(&mut engine, [(GROUP, Change::Vote(vote))]), [Ok(())]);
    let upto = EntryId { term: 1, node: 2, index: refused - 1 };
    assert_eq!(process(&mut engine, [(GROUP, Change::Purge(upto))]), [Ok(())]);
    assert_eq!(append(&mut engine, refused), Ok(()), "what was purged made room");
    assert!(!engine.is_full());
    drop(engine);
    disk.crash(3);
    assert_eq!(open(&disk).reader().state(GROUP).vote, Some(vote));
}

#[test]
fn entries_are_accepted_again_when_space_returns() {
    let disk = SimDisk::new();
    let (mut engine, refused) = filled(&disk);
    disk.set_capacity(None);
    engine.probe();
    assert!(!engine.is_full());
    assert_eq!(append(&mut engine, refused), Ok(()));
    drop(engine);
    disk.crash(4);
    check_entries(&open(&disk), refused + 1);
}

#[test]
fn a_full_disk_can_be_opened_and_read() {
    let disk = SimDisk::new();
    let (engine, refused) = filled(&disk);
    drop(engine);
    let mut engine = open(&disk);
    assert!(engine.is_full());
    check_entries(&engine, refused);
    assert_eq!(append(&mut engine, refused), Err(WriteError::Full));
    disk.set_capacity(None);
    assert_eq!(append(&mut engine, refused), Ok(()));
    check_entries(&engine, refused + 1);
}

/// A file system of 8 MiB of its own, unmounted at the end.
struct Small(tempfile::TempDir);

impl Small {
    /// `None` after having said that the test is skipped.
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        let mounted = mount.args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"]).arg(dir.path()).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(dir));
        }
        missing("mount");
        None
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).output();
    }
}

fn proposal(index: u64) -> openraft::Entry<RaftTypes> {
    let log_id = LogId::new(CommittedLeaderId::new(1, 1), index);
    openraft::Entry { log_id, payload: EntryPayload::Normal(Proposal(vec![7; 10_000].into())) }
}

#[tokio::test]
async fn a_group_waits_on_a_full_file_system_and_goes_on_when_there_is_space() {
    let Some(small) = Small::mount() else { return };
    let ballast = small.path().join("ballast");
    std::fs::write(&ballast, vec![1; 4 << 20]).unwrap();
    let config = LogConfig { segment_bytes: 1 << 20, reserve_bytes: 64 << 10, tail_bytes_max: 1 << 20 };
    let log = Log::open(&small.path().join("log"), config, no_fatal()).unwrap();
    let mut full = log.full();
    let mut store = GroupStore::new(log.clone(), GROUP);

    let mut writer = store.clone();
    let writing = tokio::spawn(async move {
        for index in 0..600 {
            writer.blocking_append([proposal(index)]).await.unwrap();
        }
    });
    tokio::time::timeout(Duration::from_secs(20), full.wait_for(|full| *full)).await.unwrap().unwrap();
    assert!(!writing.is_finished());

    // Out of service, and still there: reads and votes are answered.
    let last = log.state(GROUP).last.unwrap().index;
    assert!(last > 100);
    assert_eq!(log.read(GROUP, 0..last + 1, u64::MAX).unwrap().len() as u64, last + 1);
    store.save_vote(&openraft::Vote::new(7, 2)).await.unwrap();

    std::fs::remove_file(&ballast).unwrap();
    tokio::time::timeout(Duration::from_secs(20), full.wait_for(|full| !*full)).await.unwrap().unwrap();
    // 600 entries don't fit in 8 MiB beside each other: what was applied goes.
    while !writing.is_finished() {
        let last = log.state(GROUP).last.unwrap();
        log.write(GROUP, Change::Purge(EntryId { index: last.index - 1, ..last })).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    writing.await.unwrap();
    drop((store, full));
    log.close();
}
