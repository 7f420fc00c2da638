//! Numbers for edges: who holds a small one may spend a share of what owners keep back while no owner can be reached.
//!
//! Invariant: no number is an edge's while another may still act on it. An edge counts [`SLOT_LIFETIME`] from any ask that was
//! answered; the owner counts twice that from when it last wrote the edge down, and does so again before less than what
//! an edge counts is left. So most asks write nothing.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_model::Stamp;

use crate::{EdgeId, SLOT_LIFETIME, owner_lifetime};

/// Edges with a number. The next one gets none, and has no share to fall back on, until a number's time has run out.
pub const SLOTS_MAX: u16 = 1_024;

/// One edge's number, and until when it is nobody else's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRecord {
    /// Whose.
    pub edge: EdgeId,
    /// The number.
    pub slot: u16,
    /// When it may be given to another.
    pub until: Stamp,
}

/// Numbers by edge.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    edges: BTreeMap<EdgeId, (u16, Stamp)>,
}

/// What an edge has, before anything is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// It has a number, for long enough.
    Kept(u16),
    /// It has none, and none is free.
    None,
    /// It needs to be written down.
    Due,
}

impl Slots {
    /// What `edge` has at `at`.
    pub(super) fn look(&self, edge: EdgeId, at: Stamp) -> Slot {
        match self.edges.get(&edge) {
            Some(&(slot, until)) if until.since(at) >= owner_lifetime(SLOT_LIFETIME) => Slot::Kept(slot),
            Some(_) => Slot::Due,
            None if self.any_free(at) => Slot::Due,
            None => Slot::None,
        }
    }

    /// Gives `edge` a number or keeps it in its own for longer.
    pub(super) fn take(&mut self, edge: EdgeId, at: Stamp) -> Option<u16> {
        match self.look(edge, at) {
            Slot::Kept(slot) => return Some(slot),
            Slot::None => return None,
            Slot::Due => {}
        }
        let until = at.after(owner_lifetime(SLOT_LIFETIME)).after(SLOT_LIFETIME);
        if let Some((slot, held)) = self.edges.get_mut(&edge) {
            *held = until;
            return Some(*slot);
        }
        self.edges.retain(|_, (_, until)| *until > at);
        let taken: BTreeSet<u16> = self.edges.values().map(|&(slot, _)| slot).collect();
        let slot = (0..SLOTS_MAX).find(|slot| !taken.contains(slot))?;
        self.edges.insert(edge, (slot, until));
        Some(slot)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = SlotRecord> {
        self.edges.iter().map(|(&edge, &(slot, until))| SlotRecord { edge, slot, until })
    }

    /// Takes over a record; `false` when its number or its edge is there already, or out of bounds.
    pub(super) fn restore(&mut self, SlotRecord { edge, slot, until }: SlotRecord) -> bool {
        let free = slot < SLOTS_MAX && self.edges.values().all(|&(taken, _)| taken != slot);
        free && self.edges.insert(edge, (slot, until)).is_none()
    }

    fn any_free(&self, at: Stamp) -> bool {
        self.edges.len() < usize::from(SLOTS_MAX) || self.edges.values().any(|&(_, until)| until <= at)
    }
}

#[cfg(test)]
mod tests {
    use leasehold_model::Nanos;

    use super::*;

    #[test]
    fn a_number_goes_to_another_edge_only_after_the_last_that_may_act_on_it() {
        let mut slots = Slots::default();
        for edge in 0..u128::from(SLOTS_MAX) {
            assert_eq!(slots.take(EdgeId(edge), Stamp(5)), u16::try_from(edge).ok());
        }
        assert_eq!(slots.take(EdgeId(9_999), Stamp(5)), None);
        // The last moment at which edge 7 is answered without being written down again.
        let last = Stamp(5).after(SLOT_LIFETIME);
        assert_eq!(slots.look(EdgeId(7), last), Slot::Kept(7));
        assert_eq!(slots.look(EdgeId(7), last.after(Nanos(1))), Slot::Due);
        let over = last.after(owner_lifetime(SLOT_LIFETIME));
        assert_eq!(slots.take(EdgeId(9_999), over.before(Nanos(1))), None);
        assert_eq!(slots.take(EdgeId(9_999), over), Some(0));
    }

    #[test]
    fn an_edge_keeps_its_number_as_long_as_it_asks() {
        let mut slots = Slots::default();
        slots.take(EdgeId(1), Stamp(0));
        slots.take(EdgeId(2), Stamp(0));
        for hours in 1..9 {
            assert_eq!(slots.take(EdgeId(2), Stamp::ZERO.after(Nanos::from_secs(hours * 3_600))), Some(1));
        }
    }
}
