//! Cells under every interleaving of their spenders and their wallet, with a model checker's atomics in place of the real
//! ones.
//!
//! `cargo test -p leasehold-lease --test interleavings`. Their source is compiled here once more, against `sync` below. Time
//! is an argument of every call, so a spender here has the time that it read before, however long it then slept.

#[path = "../src/cell.rs"]
#[expect(dead_code, unreachable_pub, reason = "the source of another crate; not all of it is called")]
mod cell;
#[path = "../src/cells.rs"]
#[expect(dead_code, unreachable_pub, reason = "the source of another crate; not all of it is called")]
mod cells;

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
}

use std::sync::Arc;

use leasehold_model::{BootTime, Key, Nanos};
use loom::thread;

use cell::{KeyCell, Spend};
use cells::{Cells, Held, Slab};

/// Ends of a first and of a second lease.
const FIRST: BootTime = BootTime(10);
const SECOND: BootTime = BootTime(20);
/// One key, and another that is looked for at the same place.
const KEY: Key = Key { high: 0, low: 1 };
const OTHER: Key = Key { high: 0, low: 1 << 40 | 1 };

/// A key's cell, as its wallet has it.
fn opened() -> (Slab, Held) {
    let mut slab = Slab::new();
    let held = slab.open(KEY).expect("room");
    (slab, held)
}

/// Units that one attempt got.
fn take(cell: KeyCell<'_>, cost: u64, now: u64) -> u64 {
    match cell.spend(cost, BootTime(now)) {
        Spend::Taken { .. } => cost,
        Spend::Short | Spend::Over => 0,
    }
}

fn spender(held: &Held, costs: &'static [u64], now: u64) -> thread::JoinHandle<u64> {
    let held = held.clone();
    thread::spawn(move || costs.iter().map(|&cost| take(held.cell(), cost, now)).sum())
}

/// One that looks for a key each time.
fn searcher(cells: &Arc<Cells>, key: Key, tries: usize) -> thread::JoinHandle<u64> {
    let cells = Arc::clone(cells);
    thread::spawn(move || (0..tries).map(|_| cells.find(key).map_or(0, |cell| take(cell, 1, 5))).sum())
}

#[test]
fn no_token_is_spent_twice() {
    loom::model(|| {
        let (_slab, held) = opened();
        let cell = held.cell();
        cell.fill(3, FIRST, 0);
        let (one, two) = (spender(&held, &[1, 1], 5), spender(&held, &[2], 5));
        let spent = one.join().expect("one") + two.join().expect("two");
        assert_eq!(spent + cell.tokens(), 3);
        assert!(spent >= 2, "there was enough for either");
    });
}

#[test]
fn a_withdrawn_token_is_never_spent() {
    loom::model(|| {
        let (_slab, held) = opened();
        let cell = held.cell();
        cell.fill(3, FIRST, 0);
        let spender = spender(&held, &[1, 1], 5);
        let withdrawn = cell.withdraw();
        let after = cell.tokens();
        let spent = spender.join().expect("a spender");
        assert_eq!((spent + withdrawn, after), (3, 0));
    });
}

#[test]
fn no_token_of_a_lease_is_spent_by_the_deadline_of_another() {
    // The first lease, in the cell at the start, lasts longer than the one that replaces it: by the first's deadline a
    // spender at 15 is in time, by the second's it is late.
    loom::model(|| {
        let (_slab, held) = opened();
        let cell = held.cell();
        cell.fill(1, SECOND, 0);
        let spender = spender(&held, &[1, 1], 15);
        let first = 1 - cell.withdraw();
        cell.fill(2, FIRST, 0);
        let second = 2 - cell.withdraw();
        assert_eq!(second, 0, "spent after its end");
        assert_eq!(spender.join().expect("a spender"), first);
    });
}

#[test]
fn a_lease_that_was_over_is_not_revived_by_the_deadline_of_the_next() {
    // The other way round: a spender at 15 is late for what was there and in time for what comes.
    loom::model(|| {
        let (_slab, held) = opened();
        let cell = held.cell();
        cell.fill(1, FIRST, 0);
        let spender = spender(&held, &[1, 1], 15);
        let first = 1 - cell.withdraw();
        assert_eq!(first, 0, "spent after its end");
        cell.fill(1, SECOND, 0);
        let second = 1 - cell.withdraw();
        assert_eq!(spender.join().expect("a spender"), second);
    });
}

#[test]
fn units_put_back_are_there_once_or_stay_spent() {
    loom::model(|| {
        let (_slab, held) = opened();
        let cell = held.cell();
        cell.fill(2, FIRST, 0);
        let other = {
            let held = held.clone();
            thread::spawn(move || match held.cell().spend(1, BootTime(5)) {
                Spend::Taken { generation, .. } if held.cell().put_back(1, generation) => 0,
                Spend::Taken { .. } => 1,
                Spend::Short | Spend::Over => 0,
            })
        };
        // What the wallet counts as spent here it reports: it must stay so.
        let reported = 2 - cell.withdraw();
        cell.fill(2 - reported, FIRST, 0);
        let kept = other.join().expect("another");
        let rest = cell.withdraw();
        assert_eq!(reported + (2 - reported - rest), kept);
        assert!(reported <= kept, "reported as spent, then put back");
    });
}

#[test]
fn a_refusal_is_read_without_taking_anything() {
    loom::model(|| {
        let (_slab, held) = opened();
        let cell = held.cell();
        cell.fill(1, FIRST, 0);
        let reader = {
            let held = held.clone();
            thread::spawn(move || held.cell().refuse(1, BootTime(5)).map(|denial| denial.retry_after))
        };
        cell.deny(BootTime(7));
        let seen = reader.join().expect("a reader");
        assert!(seen.is_none() || seen == Some(Nanos(2)));
        assert_eq!((cell.tokens(), cell.take_refused()), (1, u64::from(seen.is_some())));
    });
}

/// Every interleaving in which no more than so many threads are interrupted: there are too many to see all.
fn with_interruptions(most: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(most);
    builder.check(model);
}

/// Gives a key's cell, of which everything is withdrawn, to another key.
fn give_to_other(slab: &mut Slab, held: &Held) -> Held {
    slab.close(held);
    slab.open(OTHER).expect("room")
}

#[test]
fn a_key_spends_nothing_of_the_key_that_gets_its_cell() {
    with_interruptions(3, || {
        let (mut slab, held) = opened();
        held.cell().fill(1, FIRST, 0);
        let spender = spender(&held, &[1], 5);
        let own = 1 - held.cell().withdraw();
        let other = give_to_other(&mut slab, &held);
        other.cell().fill(1, FIRST, 0);
        assert_eq!(other.cell().withdraw(), 1, "spent by a key that it isn't of");
        assert_eq!(spender.join().expect("a spender"), own);
    });
}

#[test]
fn a_key_spends_nothing_of_the_key_that_had_its_cell() {
    loom::model(|| {
        let (mut slab, held) = opened();
        held.cell().fill(1, FIRST, 0);
        let searcher = searcher(slab.cells(), OTHER, 2);
        assert_eq!(held.cell().withdraw(), 1, "spent by a key that it isn't of");
        let other = give_to_other(&mut slab, &held);
        other.cell().fill(1, FIRST, 0);
        let own = 1 - other.cell().withdraw();
        assert_eq!(searcher.join().expect("a searcher"), own);
    });
}

#[test]
fn a_look_at_one_key_sees_no_token_of_another() {
    loom::model(|| {
        let (mut slab, held) = opened();
        let looker = {
            let held = held.clone();
            thread::spawn(move || matches!(held.cell().spend(0, BootTime(5)), Spend::Taken { .. }))
        };
        let other = give_to_other(&mut slab, &held);
        other.cell().fill(1, FIRST, 0);
        assert!(!looker.join().expect("a looker"), "another's");
    });
}

#[test]
fn units_put_back_late_are_nobodys() {
    loom::model(|| {
        let (mut slab, held) = opened();
        held.cell().fill(1, FIRST, 0);
        let Spend::Taken { generation, .. } = held.cell().spend(1, BootTime(5)) else {
            panic!("it is there")
        };
        let putter = {
            let held = held.clone();
            thread::spawn(move || held.cell().put_back(1, generation))
        };
        let back = held.cell().withdraw();
        let other = give_to_other(&mut slab, &held);
        other.cell().fill(1, FIRST, 0);
        assert_eq!(other.cell().withdraw(), 1, "put back into another's");
        assert_eq!(u64::from(putter.join().expect("one who puts back")), back);
    });
}

/// Reads a key's refusal while its cell goes from one key, which is refused, to another that is refused as well.
fn refusal_read_meanwhile(key: Key, own: Nanos) {
    with_interruptions(2, move || {
        let (mut slab, held) = opened();
        held.cell().deny(BootTime(7));
        let cells = Arc::clone(slab.cells());
        let reader = thread::spawn(move || Some(cells.find(key)?.refuse(1, BootTime(5))?.retry_after));
        give_to_other(&mut slab, &held).cell().deny(BootTime(9));
        assert!(reader.join().expect("a reader").is_none_or(|wait| wait == own), "another's");
    });
}

#[test]
fn a_refusal_is_none_of_the_key_that_gets_the_cell() {
    refusal_read_meanwhile(KEY, Nanos(2));
}

#[test]
fn a_refusal_is_none_of_the_key_that_had_the_cell() {
    refusal_read_meanwhile(OTHER, Nanos(4));
}

#[test]
fn a_key_is_spent_from_once_while_others_come_and_cells_are_added() {
    loom::model(|| {
        let (mut slab, held) = opened();
        slab.open(Key { high: 0, low: 2 }).expect("room");
        held.cell().fill(2, FIRST, 0);
        let searcher = searcher(slab.cells(), KEY, 2);
        // The first two cells are in use: this one is of a new segment, found by a new index.
        slab.open(OTHER).expect("room");
        let left = slab.cells().find(KEY).expect("it stays").withdraw();
        assert_eq!(searcher.join().expect("a searcher"), 2 - left);
    });
}

#[test]
fn a_key_behind_another_that_goes_is_found_or_asked_for() {
    loom::model(|| {
        let (mut slab, held) = opened();
        let other = slab.open(OTHER).expect("room");
        other.cell().fill(2, FIRST, 0);
        let searcher = searcher(slab.cells(), OTHER, 2);
        slab.close(&held);
        let left = slab.cells().find(OTHER).expect("it stays").withdraw();
        assert_eq!(searcher.join().expect("a searcher"), 2 - left);
    });
}
