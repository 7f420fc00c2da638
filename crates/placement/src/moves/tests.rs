//! Moves carried out step by step until the maps agree.

use super::*;
use crate::{Layout, Member, Placement, Shards, Standing, assign};

fn map(replicas: &[&[u64]]) -> ShardMap {
    let shards = replicas
        .iter()
        .map(|nodes| Placement {
            replicas: nodes.iter().copied().map(NodeId).collect(),
            ..Placement::default()
        })
        .collect();
    ShardMap { shards, ..ShardMap::default() }
}

fn check(current: &[&[u64]], target: &[&[u64]], expected: &[(u32, Step)]) {
    let steps = next_steps(&map(current), &map(target), &Progress::default(), MoveBounds::default());
    assert_eq!(
        steps.into_iter().collect::<Vec<_>>(),
        expected.iter().map(|(s, step)| (ShardId(*s), *step)).collect::<Vec<_>>()
    );
}

#[test]
fn maps_that_agree_need_no_step() {
    check(&[&[1, 2, 3]], &[&[1, 2, 3]], &[]);
}

#[test]
fn a_replica_moves_by_a_learner_first() {
    check(&[&[1, 2, 3]], &[&[1, 2, 4]], &[(0, Step::AddLearner { to: NodeId(4) })]);
}

#[test]
fn a_surplus_replica_leaves_by_a_change_of_voters() {
    check(&[&[1, 2, 3, 4]], &[&[1, 2, 3]], &[(0, Step::ChangeVoters { to: None, from: Some(NodeId(4)) })]);
}

#[test]
fn a_learner_that_lags_is_waited_for() {
    let moving = Move { to: Some(NodeId(4)), from: Some(NodeId(3)), phase: Phase::Learning };
    let mut progress = Progress { under_way: [(ShardId(0), moving)].into(), ..Progress::default() };
    let (is, shall) = (map(&[&[1, 2, 3]]), map(&[&[1, 2, 4]]));
    assert!(next_steps(&is, &shall, &progress, MoveBounds::default()).is_empty());
    progress.caught_up.insert(ShardId(0));
    let step = Step::ChangeVoters { to: Some(NodeId(4)), from: Some(NodeId(3)) };
    assert_eq!(next_steps(&is, &shall, &progress, MoveBounds::default()), [(ShardId(0), step)].into());
}

/// Carries out every step at once and reports back, as an executor would.
fn carry_out(
    current: &mut ShardMap,
    progress: &mut Progress,
    target: &ShardMap,
    steps: BTreeMap<ShardId, Step>,
) {
    for (shard, step) in steps {
        let row = usize::try_from(shard.0).expect("small");
        let shall = &target.shards[row].replicas;
        let replicas = &mut current.shards[row].replicas;
        match step {
            Step::AddLearner { to } => {
                let from = replicas.iter().find(|node| !shall.contains(node)).copied();
                let from = from.filter(|_| replicas.len() >= shall.len());
                progress.under_way.insert(shard, Move { to: Some(to), from, phase: Phase::Learning });
                progress.caught_up.insert(shard);
            }
            Step::ChangeVoters { to, from } => {
                replicas.retain(|node| Some(*node) != from);
                replicas.extend(to);
                replicas.sort();
                progress.under_way.insert(shard, Move { to, from, phase: Phase::Retiring });
                if from.is_none() {
                    progress.under_way.remove(&shard);
                }
            }
            Step::Retire { .. } => {
                progress.under_way.remove(&shard);
                progress.caught_up.remove(&shard);
            }
        }
    }
}

#[test]
fn every_move_arrives_within_bounds_and_never_below_a_quorum() {
    let member = |id: u64| Member {
        id: NodeId(id),
        weight: 100,
        zone: "z".into(),
        region: "r".into(),
        standing: Standing::Active,
    };
    let layout = Layout { shards: Shards::new(32).expect("a power of two"), replicas: 3 };
    let three: Vec<Member> = (1..=3).map(member).collect();
    let five: Vec<Member> = (1..=5).map(member).collect();
    let mut current = assign(&layout, &three, &ShardMap::default()).expect("members");
    let target = assign(&layout, &five, &current).expect("members");
    let mut progress = Progress::default();
    let bounds = MoveBounds::default();
    for _ in 0..10_000 {
        let steps = next_steps(&current, &target, &progress, bounds);
        if steps.is_empty() {
            break;
        }
        carry_out(&mut current, &mut progress, &target, steps);
        assert!(progress.under_way.len() <= bounds.cluster_max);
        for node in 1..=5 {
            let into = progress.under_way.values().filter(|moving| moving.to == Some(NodeId(node))).count();
            assert!(into <= bounds.node_max);
        }
        assert!(current.shards.iter().all(|placement| placement.replicas.len() >= 3));
    }
    let replicas = |map: &ShardMap| map.shards.iter().map(|p| p.replicas.clone()).collect::<Vec<_>>();
    assert_eq!(replicas(&current), replicas(&target));
}
