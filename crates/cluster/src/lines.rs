//! The time lines that this node stamps entries by: one for each group that it leads, made anew for each term.
//!
//! Invariant: a line begins where the last applied entry left it, moved on by this node's own boot clock since it received
//! that entry, and leans toward wall time slowly. So a leader whose wall clock is off neither mints nor destroys tokens. Only
//! where there is nothing that time could change does a line begin at wall time.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_consensus::types::GroupId;
use leasehold_model::{BootTime, Stamp, WallTime};
use leasehold_shard::SteeredClock;
use parking_lot::Mutex;

use crate::Clock;
use crate::machine::Anchor;

/// What a line begins from: what the machine says once its replica serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ground {
    /// See [`Anchor`]; none when nothing was ever applied.
    pub(crate) anchor: Option<Anchor>,
    /// No counter and no reply is held: it may as well be later.
    pub(crate) empty: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Lines {
    clock: Arc<dyn Clock>,
    lines: Mutex<BTreeMap<GroupId, Line>>,
}

#[derive(Clone, Copy, Debug)]
struct Line {
    term: u64,
    clock: SteeredClock,
}

impl Lines {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, lines: Mutex::default() }
    }

    /// The stamp of what is proposed or read now, by a replica that serves in `term`. None when the group was led in a
    /// later term since.
    pub(crate) fn stamp(&self, group: GroupId, term: u64, ground: impl FnOnce() -> Ground) -> Option<Stamp> {
        if let Some(stamp) = self.known(group, term) {
            return stamp;
        }
        // Not under the lock: the machine may be busy, and other groups wait for no machine but their own.
        let ground = ground();
        let begun = begin(ground, self.clock.boot(), self.clock.wall());
        let mut lines = self.lines.lock();
        let line = lines.entry(group).or_insert(Line { term, clock: begun });
        if line.term < term {
            *line = Line { term, clock: begun };
        }
        (line.term == term).then(|| read(line, self.clock.as_ref()))
    }

    /// None: no line of this term is known. Within: none when there is one of a later term.
    fn known(&self, group: GroupId, term: u64) -> Option<Option<Stamp>> {
        let mut lines = self.lines.lock();
        let line = lines.get_mut(&group).filter(|line| line.term >= term)?;
        Some((line.term == term).then(|| read(line, self.clock.as_ref())))
    }
}

fn read(line: &mut Line, clock: &dyn Clock) -> Stamp {
    let boot = clock.boot();
    if line.clock.wants_steering(boot) {
        line.clock.steer(boot, clock.wall());
    }
    line.clock.read(boot)
}

fn begin(ground: Ground, boot: BootTime, wall: WallTime) -> SteeredClock {
    let Some(anchor) = ground.anchor else { return SteeredClock::new(boot, wall) };
    let line = SteeredClock::continued(anchor.boot, anchor.stamp);
    if ground.empty && wall.0 > line.read(boot).0 { SteeredClock::new(boot, wall) } else { line }
}

#[cfg(test)]
mod tests;
