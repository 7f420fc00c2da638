//! Keys that come and go: each is found as long as it is held, in a cell of its own.

use std::collections::BTreeMap;

use leasehold_model::{BootTime, Key};
use proptest::prelude::*;

use crate::cell::Cell;
use crate::cells::{Held, Slab};
use crate::{Known, Spend};

/// Few places for many keys, so that they stand in each other's way.
fn key(number: u64) -> Key {
    Key { high: number << 60, low: number % 5 }
}

fn is_taken(spend: Spend) -> bool {
    matches!(spend, Spend::Taken { .. })
}

proptest! {
    #[test]
    fn keys_are_found_as_long_as_they_are_held(steps in prop::collection::vec(0..40_u64, 1..200)) {
        let mut slab = Slab::new();
        let mut held: BTreeMap<u64, Held> = BTreeMap::new();
        for number in steps {
            match held.remove(&number) {
                Some(held) => slab.close(&held),
                None => drop(held.insert(number, slab.open(key(number)).expect("room"))),
            }
            for number in 0..40 {
                let found = slab.cells().hold(key(number));
                prop_assert_eq!(found.is_some(), held.contains_key(&number));
                prop_assert!(found.iter().all(|found| found.is_same(&held[&number])));
            }
        }
    }
}

#[test]
fn a_cell_is_one_line_of_the_cache() {
    assert_eq!((size_of::<Cell>(), align_of::<Cell>()), (64, 64));
}

#[test]
fn a_cell_left_by_a_key_says_nothing_of_it_to_the_next() {
    let mut slab = Slab::new();
    let (one, two) = (key(1), key(2));
    let now = BootTime(5);
    let held = slab.open(one).expect("room");
    held.cell().fill(3, BootTime(10), 1);
    held.cell().inform(7, BootTime(9));
    held.cell().deny(BootTime(8));
    assert!(held.cell().refuse(1, now).is_some());
    held.cell().withdraw();
    slab.close(&held);
    let next = slab.open(two).expect("room");
    assert_eq!((next.cell().refuse(1, now), next.cell().known(now)), (None, Known::default()));
    assert_eq!(next.cell().take_refused(), 0);
    assert!(!is_taken(next.cell().spend(1, now)));
}

#[test]
fn who_kept_a_cell_spends_nothing_once_it_is_anothers() {
    let mut slab = Slab::new();
    let (one, two) = (key(1), key(2));
    let now = BootTime(5);
    let kept = slab.open(one).expect("room");
    slab.close(&kept);
    slab.open(two).expect("room").cell().fill(3, BootTime(10), 0);
    assert_eq!((kept.cell().spend(1, now), kept.cell().refuse(1, now)), (Spend::Over, None));
    assert!(is_taken(slab.cells().find(two).expect("held").spend(1, now)));
}
