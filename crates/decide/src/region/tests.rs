//! Which counters are a region's, and where they lie.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

const SHARDS: u32 = 16;

fn region(name: &str, homes: &[u32]) -> Region {
    Region::new(&KeySecret::new([3; 16]), name, SHARDS, homes.iter().copied().map(ShardId)).unwrap()
}

/// Keys as a rule makes them.
fn keys() -> impl Iterator<Item = Key> {
    let secret = KeySecret::new([3; 16]);
    (0..4_000_u32).map(move |user| {
        let value = user.to_le_bytes();
        leasehold_limit::rule_key(&secret, "d", "r", [Some(&value[..])].into_iter())
    })
}

fn shard(key: Key) -> u32 {
    Shards::new(SHARDS).unwrap().of(key).0
}

#[test]
fn a_regions_counters_lie_on_its_home_shards_evenly() {
    let homes = [1, 4, 7, 10, 13];
    let eu = region("eu", &homes);
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    for key in keys() {
        *counts.entry(shard(eu.key(key))).or_default() += 1;
    }
    assert_eq!(counts.keys().copied().collect::<Vec<_>>(), homes);
    assert!(counts.values().all(|count| (640..960).contains(count)), "{counts:?}");
}

#[test]
fn no_two_values_or_regions_share_a_counter() {
    let regions = [region("eu", &[0]), region("us", &[0]), region("ap", &[])];
    let mut seen: BTreeSet<Key> = keys().collect();
    for key in keys() {
        for region in &regions {
            assert!(seen.insert(region.key(key)), "{region:?} {key}");
        }
    }
}

#[test]
fn a_region_without_home_shards_has_its_counters_anywhere() {
    let far = region("far", &[]);
    let shards: BTreeSet<u32> = keys().map(|key| shard(far.key(key))).collect();
    assert_eq!(shards.len(), 16);
}

#[test]
fn the_order_in_which_homes_are_named_changes_nothing() {
    assert_eq!(region("eu", &[3, 1, 3, 2, 99]), region("eu", &[1, 2, 3]));
}

#[test]
fn without_a_name_there_is_no_region() {
    assert_eq!(Region::new(&KeySecret::new([3; 16]), "", SHARDS, [ShardId(0)]), None);
}

#[test]
fn what_an_edge_is_not_told_of_shards_leaves_its_counters_anywhere() {
    let told = Region::new(&KeySecret::new([3; 16]), "eu", 0, [ShardId(0)]).unwrap();
    assert_eq!(told, region("eu", &[]));
}

#[test]
fn debug_tells_nothing_that_follows_from_the_secret() {
    assert_eq!(format!("{:?}", region("eu", &[])), "Region { salt: Salt(..), homes: None }");
}
