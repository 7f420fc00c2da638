//! The metadata that survives, and the identity that is never exchanged.

use super::*;

const NODE_1: Identity = Identity { cluster: 0xfeed, node: 1 };

#[test]
fn what_was_written_is_there_at_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let meta = Meta::open(&dir.path().join("meta")).unwrap();
    meta.set_identity(NODE_1).unwrap();
    meta.set_snapshot_index(GroupId(3), Some(77)).unwrap();
    meta.set_snapshot_index(GroupId(4), Some(5)).unwrap();
    meta.set_snapshot_index(GroupId(4), None).unwrap();
    meta.set_rules_version(9).unwrap();
    meta.put("restart", b"note").unwrap();
    meta.put("gone", b"1").unwrap();
    meta.remove("gone").unwrap();
    drop(meta);

    let meta = Meta::open(&dir.path().join("meta")).unwrap();
    assert_eq!(meta.identity().unwrap(), Some(NODE_1));
    assert_eq!(meta.snapshot_index(GroupId(3)).unwrap(), Some(77));
    assert_eq!(meta.snapshot_index(GroupId(4)).unwrap(), None);
    assert_eq!(meta.rules_version().unwrap(), Some(9));
    assert_eq!(meta.get("restart").unwrap().as_deref(), Some(b"note".as_slice()));
    assert_eq!(meta.get("gone").unwrap(), None);
}

#[test]
fn a_copy_taken_while_the_process_runs_has_what_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let (here, copy) = (dir.path().join("meta"), dir.path().join("copy"));
    let meta = Meta::open(&here).unwrap();
    for version in 1..20 {
        meta.set_rules_version(version).unwrap();
        let _ = fs::remove_dir_all(&copy);
        copy_tree(&here, &copy);
        assert_eq!(Meta::open(&copy).unwrap().rules_version().unwrap(), Some(version));
    }
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn a_new_directory_is_nobodys() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(Meta::open(dir.path()).unwrap().identity().unwrap(), None);
}

#[test]
fn a_directory_keeps_its_first_identity() {
    let dir = tempfile::tempdir().unwrap();
    let meta = Meta::open(dir.path()).unwrap();
    meta.set_identity(NODE_1).unwrap();
    meta.set_identity(NODE_1).unwrap();
    let refused = meta.set_identity(Identity { cluster: 0xbeef, node: 1 }).unwrap_err().to_string();
    assert!(refused.starts_with("this data directory belongs to node 1 of cluster feed"), "{refused}");
    assert_eq!(meta.identity().unwrap(), Some(NODE_1));
}

#[test]
fn a_long_value_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let refused = Meta::open(dir.path()).unwrap().put("big", &vec![0; VALUE_BYTES_MAX + 1]);
    assert!(matches!(refused, Err(MetaError::TooLong { .. })));
}
