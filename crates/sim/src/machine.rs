//! What a replica applies entries to, and the time line that a leader stamps them by.
//!
//! Invariant: as in the product, a leader's line goes on from the last applied entry, moved on by this node's boot clock since
//! it received that entry, and leans toward wall time slowly; only a shard that holds nothing begins at wall time.

use std::collections::BTreeMap;

use leasehold_control::Control;
use leasehold_model::{BootTime, Stamp};
use leasehold_shard::{Bounds, Shard, SteeredClock};

use crate::clocks::{Clocks, Time};
use crate::log::{Body, Content, Entry, Snap};

/// The replicated machine of one group.
#[derive(Debug)]
pub(crate) enum State {
    /// A shard's.
    Shard(Box<Shard>),
    /// The control group's.
    Control(Box<Control>),
}

/// What an entry was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Replies {
    /// Nothing was asked.
    None,
    /// One a command.
    Shard(Vec<leasehold_shard::Reply>),
    /// To the command.
    Control(leasehold_control::Reply),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Machine {
    /// The machine itself.
    pub(crate) state: State,
    bounds: Bounds,
    anchor: Option<(BootTime, Stamp)>,
    receipts: BTreeMap<u64, (u64, BootTime)>,
    line: Option<(u64, SteeredClock)>,
    /// The entry that a snapshot it started from was taken after; 0: none.
    pub(crate) restored_at: u64,
}

impl Machine {
    /// An empty one.
    #[must_use]
    pub(crate) fn new(group: usize, bounds: Bounds) -> Self {
        let state = match group {
            0 => State::Control(Box::new(Control::new())),
            _ => State::Shard(Box::new(Shard::new(bounds))),
        };
        Self { state, bounds, anchor: None, receipts: BTreeMap::new(), line: None, restored_at: 0 }
    }

    /// An entry came at `boot`.
    pub(crate) fn received(&mut self, entry: &Entry, boot: BootTime) {
        let known = self.receipts.get(&entry.index).is_some_and(|(term, _)| *term == entry.term);
        if !known {
            self.receipts.insert(entry.index, (entry.term, boot));
        }
    }

    /// Applies one.
    pub(crate) fn apply(&mut self, entry: &Entry, boot: BootTime) -> Replies {
        let receipt = self.receipts.remove(&entry.index).filter(|(term, _)| *term == entry.term);
        let replies = match (&mut self.state, &entry.body) {
            (State::Shard(shard), Body::Shard(batch)) => Replies::Shard(shard.apply(batch, entry.stamp)),
            (State::Control(control), Body::Control(command)) => {
                Replies::Control(control.apply(command.clone(), entry.stamp))
            }
            (State::Shard(_), Body::Begin | Body::Control(_))
            | (State::Control(_), Body::Begin | Body::Shard(_)) => Replies::None,
        };
        self.note(receipt.map_or(boot, |(_, boot)| boot));
        replies
    }

    fn note(&mut self, boot: BootTime) {
        let last = self.last();
        if last > self.anchor.map_or(Stamp::ZERO, |(_, stamp)| stamp) {
            self.anchor = Some((boot, last));
        }
    }

    /// The latest stamp applied.
    #[must_use]
    pub(crate) fn last(&self) -> Stamp {
        match &self.state {
            State::Shard(shard) => shard.last(),
            State::Control(control) => control.last(),
        }
    }

    /// The stamp of what is proposed or read now, by a leader in `term`.
    pub(crate) fn stamp(&mut self, term: u64, clocks: &Clocks, now: Time) -> Stamp {
        let boot = clocks.boot(now);
        let line = match &mut self.line {
            Some((of, line)) if *of == term => line,
            _ => {
                let begun = self.begin(clocks, now);
                &mut self.line.insert((term, begun)).1
            }
        };
        if line.wants_steering(boot) {
            line.steer(boot, clocks.wall(now));
        }
        line.read(boot)
    }

    fn begin(&self, clocks: &Clocks, now: Time) -> SteeredClock {
        let (boot, wall) = (clocks.boot(now), clocks.wall(now));
        let Some((seen, stamp)) = self.anchor else { return SteeredClock::new(boot, wall) };
        let line = SteeredClock::continued(seen, stamp);
        let empty = match &self.state {
            State::Shard(shard) => shard.keys() == 0 && shard.replies() == 0,
            State::Control(_) => false,
        };
        if empty && wall.0 > line.read(boot).0 { SteeredClock::new(boot, wall) } else { line }
    }

    /// Its state, to start from.
    #[must_use]
    pub(crate) fn snapshot(&self, index: u64, term: u64) -> Snap {
        let content = match &self.state {
            State::Shard(shard) => Content::Shard(shard.snapshot()),
            State::Control(control) => Content::Control(control.snapshot()),
        };
        Snap { index, term, content }
    }

    /// Starts from a state. A state that no machine can have made is a finding, so the world ends on it.
    ///
    /// # Panics
    /// If the snapshot contradicts itself.
    pub(crate) fn restore(&mut self, snap: &Snap, boot: BootTime) {
        self.state = match snap.content.clone() {
            Content::Shard(values) => {
                let shard = Shard::restore(values, self.bounds);
                State::Shard(Box::new(shard.expect("a shard starts from what a shard wrote")))
            }
            Content::Control(values) => {
                let control = Control::restore(values);
                State::Control(Box::new(control.expect("the control state starts from what it wrote")))
            }
        };
        self.receipts.retain(|index, _| *index > snap.index);
        (self.anchor, self.line, self.restored_at) = (None, None, snap.index);
        self.note(boot);
    }

    /// The shard, if it is one.
    #[must_use]
    pub(crate) fn shard(&self) -> Option<&Shard> {
        match &self.state {
            State::Shard(shard) => Some(shard),
            State::Control(_) => None,
        }
    }

    /// The control state, if it is that.
    #[must_use]
    pub(crate) fn control(&self) -> Option<&Control> {
        match &self.state {
            State::Control(control) => Some(control),
            State::Shard(_) => None,
        }
    }

    /// A hash of everything that can influence an answer.
    #[must_use]
    pub(crate) fn state_hash(&self) -> u128 {
        match &self.state {
            State::Shard(shard) => shard.state_hash(),
            State::Control(control) => {
                use std::hash::{DefaultHasher, Hash as _, Hasher as _};
                let mut hasher = DefaultHasher::new();
                format!("{:?}", control.snapshot()).hash(&mut hasher);
                u128::from(hasher.finish())
            }
        }
    }
}
