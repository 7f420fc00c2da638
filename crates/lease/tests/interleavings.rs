//! A cell under every interleaving of its spenders and its wallet, with a model checker's atomics in place of the real ones.
//!
//! `cargo test -p leasehold-lease --test interleavings`. The cell's source is compiled here once more, against `sync` below.
//! Time is an argument of every call, so a spender here has the time that it read before, however long it then slept.

#[path = "../src/cell.rs"]
#[expect(dead_code, unreachable_pub, reason = "the source of another crate; not all of it is called")]
mod cell;

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
}

use leasehold_model::{BootTime, Nanos};
use loom::sync::Arc;
use loom::thread;

use cell::{Cell, Spend};

/// Ends of a first and of a second lease.
const FIRST: BootTime = BootTime(10);
const SECOND: BootTime = BootTime(20);

/// Units that one attempt got.
fn take(cell: &Cell, cost: u64, now: u64) -> u64 {
    match cell.spend(cost, BootTime(now)) {
        Spend::Taken { .. } => cost,
        Spend::Short | Spend::Over => 0,
    }
}

fn spender(cell: &Arc<Cell>, costs: &'static [u64], now: u64) -> thread::JoinHandle<u64> {
    let cell = Arc::clone(cell);
    thread::spawn(move || costs.iter().map(|&cost| take(&cell, cost, now)).sum())
}

#[test]
fn no_token_is_spent_twice() {
    loom::model(|| {
        let cell = Arc::new(Cell::new());
        cell.fill(3, FIRST, 0);
        let (one, two) = (spender(&cell, &[1, 1], 5), spender(&cell, &[2], 5));
        let spent = one.join().expect("one") + two.join().expect("two");
        assert_eq!(spent + cell.tokens(), 3);
        assert!(spent >= 2, "there was enough for either");
    });
}

#[test]
fn a_withdrawn_token_is_never_spent() {
    loom::model(|| {
        let cell = Arc::new(Cell::new());
        cell.fill(3, FIRST, 0);
        let spender = spender(&cell, &[1, 1], 5);
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
        let cell = Arc::new(Cell::new());
        cell.fill(1, SECOND, 0);
        let spender = spender(&cell, &[1, 1], 15);
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
        let cell = Arc::new(Cell::new());
        cell.fill(1, FIRST, 0);
        let spender = spender(&cell, &[1, 1], 15);
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
        let cell = Arc::new(Cell::new());
        cell.fill(2, FIRST, 0);
        let other = {
            let cell = Arc::clone(&cell);
            thread::spawn(move || match cell.spend(1, BootTime(5)) {
                Spend::Taken { generation, .. } if cell.put_back(1, generation) => 0,
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
        let cell = Arc::new(Cell::new());
        cell.fill(1, FIRST, 0);
        let reader = {
            let cell = Arc::clone(&cell);
            thread::spawn(move || cell.refuse(1, BootTime(5)).map(|denial| denial.retry_after))
        };
        cell.deny(BootTime(7));
        let seen = reader.join().expect("a reader");
        assert!(seen.is_none() || seen == Some(Nanos(2)));
        assert_eq!((cell.tokens(), cell.take_refused()), (1, u64::from(seen.is_some())));
    });
}
