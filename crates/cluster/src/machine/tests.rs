//! Machines as the consensus crate sees them.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use leasehold_control::{Command as ControlCommand, Reply as ControlReply};
use leasehold_limit::{Algorithm, Ask, Limit};
use leasehold_model::{Key, Nanos, RequestId, RulesVersion, TenantId, WallTime};
use leasehold_shard::{Acquire, Batch, Command, Demand, LimitSpec, Reply};

use super::*;

#[derive(Debug, Default)]
struct Hands(AtomicU64);

impl Clock for Hands {
    fn boot(&self) -> BootTime {
        BootTime(self.0.load(Ordering::Relaxed))
    }

    fn wall(&self) -> WallTime {
        WallTime(0)
    }
}

fn clock(boot: u64) -> Arc<dyn Clock> {
    Arc::new(Hands(AtomicU64::new(boot)))
}

fn entry_at(at: u64) -> Bytes {
    let limit = Limit::new(Algorithm::SlidingLog, 1, Nanos::from_secs(1)).unwrap();
    let spec = LimitSpec { tenant: TenantId(1), version: RulesVersion(1), since: Stamp::ZERO, limit };
    let demand = Demand { key: Key::MIN, limit: 0, ask: Ask::exactly(1), shadow: false };
    let id = Some(RequestId { session: 1, seq: at });
    let acquire = Acquire { id, remember_denial: true, demands: vec![demand] };
    let commands = vec![Command::Acquire(acquire)];
    entry::encode_entry(Stamp(at), &Batch { limits: vec![spec], commands, ..Batch::default() })
}

/// What a machine says about an entry that it can't read.
fn check_unread<M: Machine>(mut machine: M) {
    let before = machine.state_hash();
    let MachineError(said) = machine.apply(b"\xff no entry", Arrival::default()).unwrap_err();
    assert!(said.contains("run the version that the other nodes run"), "{said}");
    assert_eq!(machine.state_hash(), before);
}

#[test]
fn an_entry_that_cannot_be_read_is_an_error_that_asks_for_another_version_and_changes_nothing() {
    check_unread(ShardMachine::new(Bounds::default(), &clock(5)));
    check_unread(ControlMachine::new(&clock(5), watch::channel(Arc::default()).0));
}

/// Where the line of a machine stands after entries of these stamps, applied when the boot clock stood at 50; each came so
/// long before.
fn check_anchor(entries: &[(u64, u64)], boot: u64, stamp: u64) {
    let mut machine = ShardMachine::new(Bounds::default(), &clock(50));
    for (at, age) in entries {
        machine.apply(&entry_at(*at), Arrival { age: Nanos(*age) }).unwrap();
    }
    assert_eq!(machine.anchor(), Some(Anchor { boot: BootTime(boot), stamp: Stamp(stamp) }));
}

#[test]
fn a_line_stands_where_its_last_stamp_was_received_not_where_that_was_applied() {
    check_anchor(&[(100, 30)], 20, 100);
    check_anchor(&[(100, 30), (110, 15)], 35, 110);
}

#[test]
fn an_entry_whose_receipt_is_unknown_counts_from_when_it_was_applied() {
    check_anchor(&[(100, 0)], 50, 100);
    check_anchor(&[(100, 30), (110, 0)], 50, 110);
}

#[test]
fn an_entry_that_is_stamped_no_later_than_the_last_leaves_the_line_where_it_is() {
    check_anchor(&[(100, 30), (90, 10)], 20, 100);
    check_anchor(&[(100, 30), (100, 0)], 20, 100);
}

#[test]
fn a_shard_answers_each_command_of_an_entry() {
    let mut machine = ShardMachine::new(Bounds::default(), &clock(5));
    let replies = machine.apply(&entry_at(100), Arrival::default()).unwrap();
    assert_eq!(replies.downcast::<Vec<Reply>>().unwrap().len(), 1);
}

#[test]
fn where_a_line_stands_is_no_state() {
    let mut machine = ShardMachine::new(Bounds::default(), &clock(5));
    machine.apply(&entry_at(100), Arrival::default()).unwrap();
    let mut restored = ShardMachine::new(Bounds::default(), &clock(77));
    restored.restore(&machine.snapshot()).unwrap();
    assert_eq!(restored.state_hash(), machine.state_hash());
    assert_eq!(restored.anchor(), Some(Anchor { boot: BootTime(77), stamp: Stamp(100) }));
    assert!(restored.holds_anything());
    assert!(restored.restore(b"no snapshot").is_err());
}

#[test]
fn a_restored_machine_that_was_never_applied_to_has_no_anchor() {
    let mut machine = ShardMachine::new(Bounds::default(), &clock(5));
    machine.restore(&ShardMachine::new(Bounds::default(), &clock(5)).snapshot()).unwrap();
    assert_eq!((machine.anchor(), machine.holds_anything()), (None, false));
}

#[test]
fn the_control_state_is_told_whenever_it_changes() {
    let (told, state) = watch::channel(Arc::default());
    let mut machine = ControlMachine::new(&clock(5), told);
    let cluster = leasehold_control::Cluster {
        id: leasehold_control::ClusterId(1),
        secret: [0; 16],
        shards: 1,
        replicas: 1,
    };
    let map = leasehold_placement::ShardMap { shards: vec![Default::default()], ..Default::default() };
    let create = ControlCommand::Create { cluster, nodes: Vec::new(), map };
    let answer = machine.apply(&control::encode_command(Stamp(9), &create), Arrival::default()).unwrap();
    assert_eq!(*answer.downcast::<ControlReply>().unwrap(), ControlReply::Done);
    assert_eq!(**state.borrow(), machine.control);
    let (told, state) = watch::channel(Arc::default());
    let mut restored = ControlMachine::new(&clock(6), told);
    restored.restore(&machine.snapshot()).unwrap();
    assert_eq!(**state.borrow(), machine.control);
    assert_eq!(restored.state_hash(), machine.state_hash());
    assert_eq!(restored.anchor(), Some(Anchor { boot: BootTime(6), stamp: Stamp(9) }));
}
