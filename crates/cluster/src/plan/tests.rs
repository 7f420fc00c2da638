//! What the planner promises, by clusters that it steers through losses, crashes and deaths; and each decision on its own.

mod single;
mod world;

use leasehold_placement::Standing;

use world::World;

/// Seeds of each random test.
const SEEDS: u64 = 60;

fn for_each_seed(run: impl Fn(&mut World)) {
    for seed in 0..SEEDS {
        let mut world = World::new(seed, 3, 16, 1);
        run(&mut world);
    }
}

#[test]
fn a_cluster_is_made_of_its_founders_and_holds_still() {
    for_each_seed(|world| {
        world.settle();
        let epoch = world.control.epoch();
        world.run(20);
        assert_eq!(world.control.epoch(), epoch, "seed {}: nothing had to move", world.seed);
    });
}

#[test]
fn three_become_five_become_three_and_end_balanced() {
    for_each_seed(|world| {
        world.settle();
        world.join(4);
        world.join(5);
        world.settle();
        world.drain(1);
        world.run(3);
        world.drain(2);
        world.settle();
        world.forget(1);
        world.forget(2);
        world.settle();
    });
}

#[test]
fn a_drained_node_ends_without_replicas_and_without_a_vote() {
    for_each_seed(|world| {
        world.settle();
        world.join(4);
        world.settle();
        world.drain(2);
        world.settle();
        assert!(!world.votes_anywhere(2), "seed {}", world.seed);
        assert!(world.follows(2), "seed {}: it follows the control group still", world.seed);
    });
}

#[test]
fn a_drained_node_keeps_what_nobody_else_can_take() {
    for_each_seed(|world| {
        world.settle();
        world.drain(2);
        world.run(100);
        assert!(world.votes_anywhere(2), "seed {}: three replicas need three nodes", world.seed);
        assert!(world.control.moves().is_empty(), "seed {}", world.seed);
    });
}

#[test]
fn a_dead_nodes_replicas_are_replaced_after_the_grace() {
    for_each_seed(|world| {
        world.join(4);
        world.settle();
        world.down(3);
        world.run(10);
        assert_ne!(world.standing(3), Standing::Dead, "seed {}: within the grace", world.seed);
        world.settle();
        assert_eq!(world.standing(3), Standing::Dead, "seed {}", world.seed);
        assert!(!world.votes_anywhere(3) && !world.follows(3), "seed {}", world.seed);
    });
}

#[test]
fn a_node_that_nobody_can_replace_is_waited_for() {
    for_each_seed(|world| {
        world.settle();
        world.down(3);
        world.run(200);
        assert_ne!(world.standing(3), Standing::Dead, "seed {}", world.seed);
        world.up(3);
        world.settle();
    });
}

#[test]
fn whatever_happens_to_nodes_and_planners_it_converges() {
    for seed in 0..SEEDS * 3 {
        let mut world = World::new(seed, 3 + seed % 4, 8, 1 + seed % 3);
        world.losses = 20;
        for _ in 0..300 {
            world.misfortune();
            world.run(1);
        }
        world.losses = 0;
        world.recover();
        world.settle();
    }
}
