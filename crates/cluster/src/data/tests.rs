//! What a directory remembers, and whom it refuses.

use std::path::Path;
use std::sync::Arc;

use leasehold_consensus::log::{Change, Entry, EntryId};
use leasehold_consensus::types::GroupId;
use leasehold_control::{Cluster, ClusterId};
use leasehold_model::{NodeId, WallTime};
use leasehold_wire::peer::Founding;

use super::DataDir;
use crate::StartError;

const WALL: WallTime = WallTime(5_000_000_000);

fn open(path: &Path) -> DataDir {
    DataDir::open(path, "main", WALL).unwrap()
}

fn founding(id: u128) -> Founding {
    let cluster = Cluster { id: ClusterId(id), secret: [3; 16], shards: 4, replicas: 3 };
    Founding { cluster, name: "main".to_owned(), founders: Vec::new() }
}

#[test]
fn an_id_is_drawn_once_and_each_start_counts_up() {
    let dir = tempfile::tempdir().unwrap();
    let (node, boot) = {
        let data = open(dir.path());
        (data.node(), data.boot())
    };
    assert!(node.0 > 0 && node.0 < 1 << 48);
    assert_eq!(boot, 5_000);
    let again = open(dir.path());
    assert_eq!((again.node(), again.boot()), (node, 5_001));
    drop(again);
    let later = DataDir::open(dir.path(), "main", WallTime(9_000_000_000)).unwrap();
    assert_eq!(later.boot(), 9_000);
}

#[test]
fn two_directories_are_two_nodes() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    assert_ne!(open(one.path()).node(), open(other.path()).node());
}

#[test]
fn the_first_founding_holds_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let data = open(dir.path());
    assert_eq!(data.founding().unwrap(), None);
    assert_eq!(data.agree(founding(1)).unwrap(), founding(1));
    assert_eq!(data.agree(founding(2)).unwrap(), founding(1));
    drop(data);
    assert_eq!(open(dir.path()).founding().unwrap(), Some(founding(1)));
}

#[test]
fn a_directory_of_another_cluster_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).set_cluster(ClusterId(9), "main").unwrap();
    let refused = DataDir::open(dir.path(), "other", WALL).unwrap_err().to_string();
    let start =
        format!("cluster.name: the data directory {} belongs to the cluster \"main\"", dir.path().display());
    assert!(refused.starts_with(&start), "{refused}");
    let data = open(dir.path());
    assert_eq!(data.cluster().unwrap(), Some(ClusterId(9)));
    data.set_cluster(ClusterId(9), "main").unwrap();
    let refused = data.set_cluster(ClusterId(8), "main").unwrap_err().to_string();
    assert!(refused.contains("give the node a data directory of its own"), "{refused}");
}

#[test]
fn a_founder_that_stopped_half_way_is_of_its_cluster_too() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).agree(founding(1)).unwrap();
    assert!(DataDir::open(dir.path(), "other", WALL).is_err());
}

#[test]
fn a_directory_that_belongs_to_nobody_yet_may_be_given_another_name() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()));
    DataDir::open(dir.path(), "other", WALL).unwrap();
}

#[test]
fn peers_are_remembered_and_too_many_are_cut() {
    let dir = tempfile::tempdir().unwrap();
    let data = open(dir.path());
    assert_eq!(data.peers().unwrap(), []);
    let peers: Vec<_> = (1..=10_000).map(|id| (NodeId(id), Arc::from(format!("host-{id}:7601")))).collect();
    data.set_peers(&peers).unwrap();
    let known = data.peers().unwrap();
    assert!(known.len() > 1_000 && known.len() < 10_000);
    assert_eq!(known, peers[..known.len()]);
}

#[test]
fn a_closed_directory_is_free_and_answers_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let data = open(dir.path());
    data.close();
    let again = open(dir.path());
    assert_eq!(again.node(), data.node());
    assert!(data.founding().unwrap_err().to_string().contains("was closed"));
}

#[tokio::test]
async fn replicas_that_never_held_anything_are_taken_away() {
    let dir = tempfile::tempdir().unwrap();
    let data = open(dir.path());
    let log = data.open_log(Arc::new(|error| panic!("{error}"))).unwrap();
    let id = EntryId { term: 0, node: 0, index: 0 };
    log.write(GroupId(2), Change::Append(vec![Entry { id, data: b"x".as_slice().into() }])).await.unwrap();
    for group in ["1", "2", "3", "4.removed"] {
        std::fs::create_dir_all(data.groups().join(group)).unwrap();
    }
    std::fs::write(data.groups().join("3/unfinished"), b"x").unwrap();
    data.drop_unbegun(&log).unwrap();
    let mut left: Vec<_> =
        std::fs::read_dir(data.groups()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["2", "3", "4.removed"]);
}

/// Whether the log of a directory opens.
fn check_log(path: &Path, opens: bool) {
    match open(path).open_log(Arc::new(|error| panic!("{error}"))) {
        Ok(log) => {
            log.close();
            assert!(opens);
        }
        Err(StartError::LogGone { path: named }) => assert!(!opens && named == path),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_directory_whose_log_is_gone_is_refused_for_it_has_forgotten_its_votes() {
    let dir = tempfile::tempdir().unwrap();
    check_log(dir.path(), true);
    open(dir.path()).agree(founding(1)).unwrap();
    check_log(dir.path(), true);
    let log = dir.path().join("log");
    for segment in std::fs::read_dir(&log).unwrap() {
        std::fs::remove_file(segment.unwrap().path()).unwrap();
    }
    check_log(dir.path(), false);
    std::fs::remove_dir(&log).unwrap();
    check_log(dir.path(), false);
    check_log(dir.path(), false);
}

#[test]
fn a_first_start_that_ended_before_the_log_was_begun_is_made_up_for() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()));
    std::fs::create_dir(dir.path().join("log")).unwrap();
    open(dir.path()).agree(founding(1)).unwrap();
    check_log(dir.path(), true);
    check_log(dir.path(), true);
}
