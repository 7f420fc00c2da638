//! Which regions are homes, and that shards stay there.

use std::collections::BTreeSet;

use leasehold_model::NodeId;

use super::*;
use crate::{Shards, Standing};

/// Members of regions of so many nodes each, told apart by a letter.
fn members(regions: &[(&str, u64)]) -> Vec<Member> {
    let nodes = regions.iter().flat_map(|(region, nodes)| (0..*nodes).map(move |_| *region));
    let member = |(id, region): (u64, &str)| Member {
        id: NodeId(id),
        weight: 100,
        zone: "".into(),
        region: region.into(),
        standing: Standing::Active,
    };
    (1..).zip(nodes).map(member).collect()
}

fn layout() -> Layout {
    Layout { shards: Shards::new(8).unwrap(), replicas: 3 }
}

fn first(members: &[Member]) -> ShardMap {
    first_map(&layout(), members).unwrap()
}

fn check(regions: &[(&str, u64)], expected: &[Option<&str>]) {
    let map = first(&members(regions));
    let homes: Vec<_> = map.shards.iter().map(|placement| placement.home.as_deref()).collect();
    let expected: Vec<_> = expected.iter().copied().cycle().take(8).collect();
    assert_eq!(homes, expected, "{regions:?}");
}

/// All replicas of a shard with a home are there, and so is who leads it.
fn check_at_home(map: &ShardMap, members: &[Member]) {
    for placement in &map.shards {
        let near = |id: &NodeId| {
            let member = members.iter().find(|member| member.id == *id).unwrap();
            placement.home.as_ref().is_none_or(|home| *home == member.region)
        };
        assert_eq!(placement.replicas.len(), 3, "{placement:?}");
        assert!(placement.replicas.iter().all(near), "{placement:?}");
        assert!(placement.leader.is_some_and(|leader| placement.replicas.contains(&leader)), "{placement:?}");
    }
}

#[test]
fn regions_take_turns() {
    check(&[("us", 3), ("ap", 4), ("eu", 3)], &[Some("ap"), Some("eu"), Some("us")]);
}

#[test]
fn a_region_too_small_for_a_shard_is_no_home() {
    check(&[("eu", 3), ("us", 2), ("ap", 3)], &[Some("ap"), Some("eu")]);
    check(&[("eu", 1), ("us", 1), ("ap", 1)], &[None]);
}

#[test]
fn a_single_region_is_no_home_and_neither_is_one_without_a_name() {
    check(&[("eu", 5)], &[None]);
    check(&[("", 5)], &[None]);
    check(&[("eu", 3), ("", 3)], &[None]);
}

#[test]
fn replicas_and_leaders_are_at_home() {
    let members = members(&[("eu", 3), ("us", 4), ("ap", 5)]);
    let map = first(&members);
    check_at_home(&map, &members);
    let used: BTreeSet<_> = map.loads().into_keys().collect();
    assert_eq!(used.len(), members.len(), "some node holds nothing: {map:?}");
}

#[test]
fn shards_stay_at_home_when_members_come_and_go() {
    let mut members = members(&[("eu", 4), ("us", 3)]);
    let before = first(&members);
    members[0].standing = Standing::Dead;
    let map = assign(&layout(), &members, &before).unwrap();
    check_at_home(&map, &members);
    // A region that comes later is nobody's home.
    let late = (101..=103).map(|id| Member { id: NodeId(id), region: "ap".into(), ..members[1].clone() });
    members.extend(late.collect::<Vec<_>>());
    let after = assign(&layout(), &members, &map).unwrap();
    assert_eq!(after, map);
}
