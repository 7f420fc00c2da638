//! What nodes read from their disks and from each other's logs. It was checked when it was written; here it wasn't.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use leasehold_consensus::disk::Disk as _;
use leasehold_consensus::disk::sim::SimDisk;
use leasehold_consensus::log::{Change, Engine, Entry, EntryId, GroupId, LogConfig, Request, Vote};
use leasehold_control::{Command as ControlCommand, Control, RulesChange};
use leasehold_limit::{Algorithm, Ask, Limit};
use leasehold_model::{Key, Nanos, RequestId, RulesVersion, Stamp, TenantId};
use leasehold_shard::{Acquire, Batch, Bounds, Command, Demand, LimitSpec, Shard, checksum};
use leasehold_wire::Message as _;
use leasehold_wire::proto::leasehold::storage::v1::SnapshotEnvelope;
use leasehold_wire::{control, entry, snapshot};
use parking_lot::Mutex;

use super::Target;

/// A segment of the log as it lies on a disk.
pub(super) const LOG: Target = Target { name: "log-segment", run: segment, seeds: some_segments };

/// An entry of a shard's log, applied to a shard twice.
pub(super) const ENTRY: Target = Target { name: "shard-entry", run: apply, seeds: some_entries };

/// An entry of the control group's log, applied to a machine twice.
pub(super) const CONTROL: Target = Target { name: "control-command", run: command, seeds: some_commands };

/// A snapshot of a shard or of the control group in an envelope that says it is sound, restored.
pub(super) const SNAPSHOT: Target = Target { name: "snapshot", run: restore, seeds: some_snapshots };

const SEGMENT: &str = "0000000000000001.seg";

/// As small as a segment may be, so that a try is quick.
const CONFIG: LogConfig =
    LogConfig { segment_bytes: 16 << 10, reserve_bytes: 1 << 10, tail_bytes_max: 64 << 10 };

fn open(disk: &SimDisk) -> Option<Engine> {
    let on_fatal = Arc::new(|_: &io::Error| {});
    Engine::open(Arc::new(disk.clone()), CONFIG, on_fatal).ok()
}

fn segment(bytes: &[u8]) {
    let disk = SimDisk::new();
    let file = disk.create(SEGMENT).expect("this disk has room");
    file.write_at(bytes, 0).expect("this disk has room");
    if let Some(log) = open(&disk) {
        let _ = log.reader().read(GroupId(1), 0..u64::MAX, 1 << 20);
    }
}

fn some_segments() -> Vec<Vec<u8>> {
    let disk = SimDisk::new();
    let mut log = open(&disk).expect("an empty disk is a log");
    let entry = |index| {
        let id = EntryId { term: 1, node: 1, index };
        Entry { id, data: Bytes::from_static(b"\x01an entry") }
    };
    let changes = [
        Change::Vote(Vote { term: 1, node: 1, committed: true }),
        Change::Append((0..3).map(entry).collect()),
        Change::Truncate(2),
    ];
    let refused = Arc::new(Mutex::new(None));
    log.process(changes.map(|change| {
        let refused = Arc::clone(&refused);
        Request { group: GroupId(1), change, done: Box::new(move |result| *refused.lock() = result.err()) }
    }));
    assert_eq!(*refused.lock(), None, "a change of the seed was refused");
    let name = disk.list().expect("this disk can be read").into_iter().max().expect("a segment was made");
    let file = disk.open(&name).expect("it is there");
    let mut bytes = vec![0; usize::try_from(file.len().expect("it has a length").min(4 << 10)).unwrap_or(0)];
    file.read_at(&mut bytes, 0).expect("it is so long");
    vec![bytes]
}

fn apply(bytes: &[u8]) {
    let Ok((at, batch)) = entry::decode_entry(bytes) else { return };
    let mut shard = Shard::new(Bounds::default());
    shard.apply(&batch, at);
    shard.apply(&batch, Stamp(at.0.saturating_add(1)));
    let encoded = snapshot::encode_snapshot(&shard.snapshot());
    let again =
        snapshot::decode_snapshot(&encoded).map(|snapshot| Shard::restore(snapshot, Bounds::default()));
    assert!(again.is_ok_and(|restored| restored.is_ok()), "a shard's own snapshot can't be restored");
}

fn batch() -> Batch {
    let limit = |algorithm| Limit::new(algorithm, 10, Nanos::from_secs(1)).expect("a sound limit");
    let spec = |algorithm| LimitSpec {
        tenant: TenantId(1),
        version: RulesVersion(1),
        since: Stamp::ZERO,
        limit: limit(algorithm),
    };
    let demand = |limit: u32| Demand {
        key: Key::from_u128(u128::from(limit)),
        limit,
        ask: Ask::exactly(3),
        shadow: false,
    };
    let id = Some(RequestId { session: 1, seq: 2 });
    let acquire = Acquire { id, remember_denial: true, demands: (0..3).map(demand).collect() };
    Batch {
        limits: vec![
            spec(Algorithm::TokenBucket { burst: 5 }),
            spec(Algorithm::SlidingLog),
            spec(Algorithm::SlidingCounter),
        ],
        commands: vec![Command::Acquire(acquire)],
        ..Batch::default()
    }
}

fn some_entries() -> Vec<Vec<u8>> {
    let tick = entry::encode_entry(Stamp(5), &Batch::default());
    vec![tick.to_vec(), entry::encode_entry(Stamp(1_000_000_000), &batch()).to_vec()]
}

fn command(bytes: &[u8]) {
    let Ok((at, command)) = control::decode_command(bytes) else { return };
    let mut machine = Control::new();
    machine.apply(command.clone(), at);
    machine.apply(command, Stamp(at.0.saturating_add(1)));
    let encoded = control::encode_snapshot(&machine.snapshot());
    let again = control::decode_snapshot(&encoded).map(Control::restore);
    assert!(
        again.is_ok_and(|restored| restored.is_ok()),
        "the control group's own snapshot can't be restored"
    );
}

fn some_commands() -> Vec<Vec<u8>> {
    let rules = RulesChange {
        domain: "api".into(),
        text: Some("domain: api\nlimits: []\n".into()),
        expected: Some(RulesVersion(1)),
        by: "fuzz".into(),
    };
    vec![control::encode_command(Stamp(5), &ControlCommand::Rules(rules)).to_vec()]
}

fn restore(bytes: &[u8]) {
    let Some((format, body)) = bytes.split_first() else { return };
    let body = Bytes::copy_from_slice(body);
    let envelope = SnapshotEnvelope { format: u32::from(*format % 4), checksum: checksum(&body), body };
    let sealed = envelope.encode_to_vec();
    if let Ok(snapshot) = snapshot::decode_snapshot(&sealed)
        && let Ok(mut shard) = Shard::restore(snapshot, Bounds::default())
    {
        let at = shard.last();
        shard.apply(&batch(), at);
        shard.apply(&Batch::default(), Stamp(u64::MAX));
    }
    if let Ok(snapshot) = control::decode_snapshot(&sealed) {
        let _ = Control::restore(snapshot);
    }
}

fn some_snapshots() -> Vec<Vec<u8>> {
    let mut shard = Shard::new(Bounds::default());
    shard.apply(&batch(), Stamp(1_000_000_000));
    let of_shard = snapshot::encode_snapshot(&shard.snapshot());
    let of_control = control::encode_snapshot(&Control::new().snapshot());
    let body = |sealed: Vec<u8>| {
        let envelope = SnapshotEnvelope::decode(sealed.as_slice()).expect("it was just sealed");
        [&[2][..], &envelope.body].concat()
    };
    vec![body(of_shard), body(of_control)]
}
