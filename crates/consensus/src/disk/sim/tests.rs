//! What the simulated disk loses, tears and keeps.

use super::*;

fn written(disk: &SimDisk) -> Arc<dyn DiskFile> {
    let file = disk.create("a").unwrap();
    file.write_at(&[1; 4 * SECTOR_BYTES], 0).unwrap();
    file
}

fn bytes(disk: &SimDisk) -> Option<Vec<u8>> {
    let file = disk.open("a").ok()?;
    let mut found = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_at(&mut found, 0).unwrap();
    Some(found)
}

#[test]
fn what_was_synced_survives_every_crash() {
    for seed in 0..100 {
        let disk = SimDisk::new();
        written(&disk).sync_data().unwrap();
        disk.sync_dir().unwrap();
        disk.crash(seed);
        assert_eq!(bytes(&disk), Some(vec![1; 4 * SECTOR_BYTES]), "seed {seed}");
    }
}

#[test]
fn an_unsynced_name_is_lost_or_kept() {
    let outcomes: BTreeSet<bool> = (0..100)
        .map(|seed| {
            let disk = SimDisk::new();
            written(&disk).sync_data().unwrap();
            disk.crash(seed);
            bytes(&disk).is_some()
        })
        .collect();
    assert_eq!(outcomes.len(), 2);
}

#[test]
fn an_unsynced_write_is_torn_at_sectors() {
    let torn = (0..100).filter(|seed| {
        let disk = SimDisk::new();
        let file = written(&disk);
        file.sync_data().unwrap();
        disk.sync_dir().unwrap();
        file.write_at(&[2; 4 * SECTOR_BYTES], 0).unwrap();
        disk.crash(*seed);
        let found = bytes(&disk).unwrap();
        assert!(found.chunks(SECTOR_BYTES).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
        found.contains(&1) && found.contains(&2)
    });
    assert!(torn.count() > 20);
}

#[test]
fn a_failed_sync_keeps_nothing_although_the_bytes_can_be_read() {
    let disk = SimDisk::new();
    let file = disk.create("a").unwrap();
    disk.sync_dir().unwrap();
    file.write_at(&[1; 8], 0).unwrap();
    disk.fail_sync_after(0);
    file.sync_data().unwrap_err();
    assert_eq!(bytes(&disk), Some(vec![1; 8]));
    for seed in 0..20 {
        disk.crash(seed);
        assert_ne!(bytes(&disk), Some(vec![1; 8]));
    }
}

#[test]
fn a_full_disk_refuses_what_does_not_fit() {
    let disk = SimDisk::new();
    disk.set_capacity(Some(1000));
    let file = disk.create("a").unwrap();
    file.preallocate(1000).unwrap();
    file.write_at(&[1; 10], 990).unwrap();
    assert_eq!(file.write_at(&[1; 10], 991).unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(file.preallocate(1001).unwrap_err().kind(), io::ErrorKind::StorageFull);
}
