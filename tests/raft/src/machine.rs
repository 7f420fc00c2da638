//! The real shard as the groups' machine, and the time line that a leader stamps entries by.
//!
//! Invariant: a line begins where the last applied entry left it, moved on by the clock since that entry was received, as on a
//! real node. It never runs ahead of the simulation's time.

use leasehold_consensus::machine::{Answer, Arrival, Machine, MachineError};
use leasehold_limit::Ask;
use leasehold_model::{BootTime, Key, Stamp, WallTime};
use leasehold_shard::{Acquire, Bounds, Demand, LimitSpec, Reply, Shard, SteeredClock, checksum};
use leasehold_wire::{entry, snapshot};

/// One replica of a shard.
pub struct ShardMachine {
    shard: Shard,
    /// When the newest stamp was received here, and what it was.
    anchor: Option<(BootTime, Stamp)>,
    /// Snapshots that replaced the state while the group ran.
    pub restored: u64,
}

/// The simulation's time: every machine has been on since it began.
pub fn now() -> BootTime {
    let elapsed = turmoil::sim_elapsed().unwrap_or_default();
    BootTime(u64::try_from(elapsed.as_nanos()).expect("simulations are short"))
}

impl Default for ShardMachine {
    fn default() -> Self {
        Self { shard: Shard::new(Bounds::default()), anchor: None, restored: 0 }
    }
}

impl ShardMachine {
    /// The line of a leader that begins to serve.
    pub fn line(&self) -> SteeredClock {
        match self.anchor {
            Some((boot, stamp)) => SteeredClock::continued(boot, stamp),
            None => SteeredClock::new(now(), WallTime(now().0)),
        }
    }

    /// Units that a counter has left.
    pub fn left(&self, key: Key, spec: LimitSpec) -> u64 {
        let demand = Demand { key, limit: 0, ask: Ask::PEEK, shadow: false };
        let peek = Acquire { demands: vec![demand], ..Acquire::default() };
        match self.shard.preview(&[spec], &peek, self.shard.last()) {
            Reply::Acquired(acquired) => acquired.decisions[0].remaining,
            other => panic!("a peek was answered by {other:?}"),
        }
    }

    fn note(&mut self, received: BootTime) {
        let stamp = self.shard.last();
        if self.anchor.is_none_or(|(_, known)| known < stamp) {
            self.anchor = Some((received, stamp));
        }
    }
}

impl Machine for ShardMachine {
    fn apply(&mut self, bytes: &[u8], arrival: Arrival) -> Result<Answer, MachineError> {
        let (at, batch) = entry::decode_entry(bytes).map_err(|error| MachineError(error.to_string()))?;
        let replies = self.shard.apply(&batch, at);
        self.note(BootTime(now().0.saturating_sub(arrival.age.0)));
        Ok(Box::new(replies))
    }

    fn snapshot(&self) -> Vec<u8> {
        snapshot::encode_snapshot(&self.shard.snapshot())
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), MachineError> {
        let values = snapshot::decode_snapshot(bytes).map_err(|error| MachineError(error.to_string()))?;
        self.shard =
            Shard::restore(values, Bounds::default()).map_err(|error| MachineError(error.to_string()))?;
        self.anchor = None;
        self.restored += 1;
        self.note(now());
        Ok(())
    }

    fn state_hash(&self) -> u64 {
        checksum(&self.snapshot())
    }
}
