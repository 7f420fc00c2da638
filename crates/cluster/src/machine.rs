//! What the groups of a node replicate: shards and the control state, as the consensus crate runs them.
//!
//! Invariant: the state is a function of the entries alone. When an entry came to this replica is noted beside it: that
//! differs from replica to replica, stands in no snapshot, and only tells a new leader where its time line continues. An
//! entry or a snapshot that can't be read ends the process: it needs a newer version.

use std::fmt;
use std::sync::Arc;

use leasehold_consensus::machine::{Answer, Arrival, Machine, MachineError};
use leasehold_consensus::runner::Machines;
use leasehold_consensus::types::GroupId;
use leasehold_control::Control;
use leasehold_model::{BootTime, Nanos, Stamp};
use leasehold_shard::{Bounds, Shard, checksum};
use leasehold_wire::{control, entry, snapshot};
use tokio::sync::watch;

use crate::Clock;

/// Where a time line stood, and when this node saw it there: when it received the applied entry with the newest stamp, which
/// may be long before it was applied. It is never earlier than when the leader took that stamp, so what is counted on from
/// there is never ahead of the leader's line. Where the receipt isn't known, after a restart or with a snapshot, it is the
/// time of applying: the line then lags, which mints nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Anchor {
    pub(crate) boot: BootTime,
    pub(crate) stamp: Stamp,
}

/// One shard's replica.
#[derive(Debug)]
pub(crate) struct ShardMachine {
    pub(crate) shard: Shard,
    bounds: Bounds,
    noted: Noted,
}

/// The control group's replica.
#[derive(Debug)]
pub(crate) struct ControlMachine {
    pub(crate) control: Control,
    told: watch::Sender<Arc<Control>>,
    noted: Noted,
}

/// Notes when the newest stamp of a machine's came here.
#[derive(Debug)]
struct Noted {
    clock: Arc<dyn Clock>,
    anchor: Option<Anchor>,
}

impl Noted {
    fn new(clock: &Arc<dyn Clock>) -> Self {
        Self { clock: Arc::clone(clock), anchor: None }
    }

    /// The line stands at `stamp` by an entry that came `age` ago. One that didn't move the line says nothing of it.
    fn note(&mut self, stamp: Stamp, age: Nanos) {
        if stamp > self.anchor.map_or(Stamp::ZERO, |anchor| anchor.stamp) {
            let boot = BootTime(self.clock.boot().0.saturating_sub(age.0));
            self.anchor = Some(Anchor { boot, stamp });
        }
    }

    /// The line stands at `stamp` by a snapshot.
    fn restore(&mut self, stamp: Stamp) {
        self.anchor = None;
        self.note(stamp, Nanos::ZERO);
    }
}

impl ShardMachine {
    pub(crate) fn new(bounds: Bounds, clock: &Arc<dyn Clock>) -> Self {
        Self { shard: Shard::new(bounds), bounds, noted: Noted::new(clock) }
    }

    /// What this node was configured with.
    pub(crate) const fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Where its line stands by what was applied here; none before the first entry.
    pub(crate) const fn anchor(&self) -> Option<Anchor> {
        self.noted.anchor
    }

    /// Whether it holds anything that the passing of time would change.
    pub(crate) fn holds_anything(&self) -> bool {
        self.shard.keys() > 0 || self.shard.replies() > 0
    }
}

/// Answers with the `Vec` of its [`Reply`](leasehold_shard::Reply)s.
impl Machine for ShardMachine {
    fn apply(&mut self, entry: &[u8], arrival: Arrival) -> Result<Answer, MachineError> {
        let (at, batch) = entry::decode_entry(entry).map_err(unread)?;
        let replies = self.shard.apply(&batch, at);
        self.noted.note(self.shard.last(), arrival.age);
        Ok(Box::new(replies))
    }

    fn snapshot(&self) -> Vec<u8> {
        snapshot::encode_snapshot(&self.shard.snapshot())
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), MachineError> {
        let values = snapshot::decode_snapshot(bytes).map_err(unrestored)?;
        self.shard = Shard::restore(values, self.bounds).map_err(unrestored)?;
        self.noted.restore(self.shard.last());
        Ok(())
    }

    fn state_hash(&self) -> u64 {
        fold(self.shard.state_hash())
    }
}

impl ControlMachine {
    pub(crate) fn new(clock: &Arc<dyn Clock>, told: watch::Sender<Arc<Control>>) -> Self {
        Self { control: Control::new(), told, noted: Noted::new(clock) }
    }

    /// See [`ShardMachine::anchor`].
    pub(crate) const fn anchor(&self) -> Option<Anchor> {
        self.noted.anchor
    }

    fn tell(&self) {
        self.told.send_replace(Arc::new(self.control.clone()));
    }
}

/// Answers with a [`Reply`](leasehold_control::Reply).
impl Machine for ControlMachine {
    fn apply(&mut self, entry: &[u8], arrival: Arrival) -> Result<Answer, MachineError> {
        let (at, command) = control::decode_command(entry).map_err(unread)?;
        let reply = self.control.apply(command, at);
        self.noted.note(self.control.last(), arrival.age);
        self.tell();
        Ok(Box::new(reply))
    }

    fn snapshot(&self) -> Vec<u8> {
        control::encode_snapshot(&self.control.snapshot())
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), MachineError> {
        let values = control::decode_snapshot(bytes).map_err(unrestored)?;
        self.control = Control::restore(values).map_err(unrestored)?;
        self.noted.restore(self.control.last());
        self.tell();
        Ok(())
    }

    fn state_hash(&self) -> u64 {
        checksum(&self.snapshot())
    }
}

/// The machines of a node's groups: shards within `bounds`, and the control state, which is told on `told` whenever it
/// changes.
#[must_use]
pub fn machines(bounds: Bounds, clock: Arc<dyn Clock>, told: watch::Sender<Arc<Control>>) -> Machines {
    Arc::new(move |group: GroupId| match group.shard() {
        Some(_) => Box::new(ShardMachine::new(bounds, &clock)),
        None => Box::new(ControlMachine::new(&clock, told.clone())),
    })
}

#[expect(clippy::cast_possible_truncation, reason = "folds 128 bits into their two halves")]
const fn fold(hash: u128) -> u64 {
    (hash >> 64) as u64 ^ hash as u64
}

/// Replicas that skip what they can't read would grant what others refuse.
fn unread(error: impl fmt::Display) -> MachineError {
    MachineError(format!(
        "its log holds an entry that this version can't read ({error}): run the version that the other nodes run"
    ))
}

fn unrestored(error: impl fmt::Display) -> MachineError {
    MachineError(format!("the snapshot can't be restored: {error}"))
}

#[cfg(test)]
mod tests;
