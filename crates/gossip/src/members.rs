//! The table of members: who was heard of, what they said, since when they are live or dead.
//!
//! Invariant: one entry a node id, of its latest boot; at most [`MEMBERS_MAX`]. A node that died stays until it is
//! forgotten or makes room. Time is an argument.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use leasehold_model::NodeId;

use crate::seal::Boot;
use crate::state::{LeaderHint, Profile};

/// Members that are kept. Beyond it the one dead for longest makes room; if all are live the newcomer is left out and
/// counted.
pub const MEMBERS_MAX: usize = 256;

/// How long a member that is no longer reported keeps its standing. Covers a restart of the gossip task, after which
/// everybody has to be heard of again.
const UNREPORTED_MAX: Duration = Duration::from_secs(3);

/// One node, as last heard of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its id.
    pub id: NodeId,
    /// Which of its starts.
    pub boot: Boot,
    /// Where gossip reaches it.
    pub gossip_address: SocketAddr,
    /// What it said of itself.
    pub profile: Profile,
    /// Whether it is heard.
    pub liveness: Liveness,
}

/// Whether a node is heard, and since when that is so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// Heard lately.
    Live {
        /// Since when.
        since: Instant,
    },
    /// Silent for too long, or it said that it was leaving.
    Dead {
        /// Since when it was taken for dead: a second or two after it fell silent.
        since: Instant,
    },
}

/// Everybody heard of, this node included. A hint, never an authority.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    by_id: BTreeMap<NodeId, Member>,
}

/// How one reading of the members differs from an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Not known before.
    Joined(NodeId),
    /// Live before, dead now.
    Died(NodeId),
    /// Dead before, live now; or it has restarted meanwhile.
    Returned(NodeId),
    /// Says something else of itself.
    Changed(NodeId),
    /// No longer in the table.
    Gone(NodeId),
}

impl Member {
    /// Whether it is live.
    #[must_use]
    pub const fn is_live(&self) -> bool {
        matches!(self.liveness, Liveness::Live { .. })
    }
}

impl Members {
    /// All of them, by id.
    pub fn iter(&self) -> impl Iterator<Item = &Member> {
        self.by_id.values()
    }

    /// Those that are live, by id.
    pub fn live(&self) -> impl Iterator<Item = &Member> {
        self.iter().filter(|member| member.is_live())
    }

    /// One of them.
    #[must_use]
    pub fn get(&self, id: NodeId) -> Option<&Member> {
        self.by_id.get(&id)
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether nobody, not even this node, has been heard of yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// The latest hint that a live node gives on who leads `group`.
    #[must_use]
    pub fn leader_hint(&self, group: u32) -> Option<LeaderHint> {
        self.live()
            .filter_map(|member| member.profile.hints.get(&group).copied())
            .max_by_key(|hint| hint.term)
    }

    /// What has changed since `earlier`, by id.
    #[must_use]
    pub fn changes_since(&self, earlier: &Self) -> Vec<Change> {
        let gone = earlier.by_id.keys().filter(|id| !self.by_id.contains_key(id)).map(|id| Change::Gone(*id));
        self.iter().filter_map(|now| change(earlier.get(now.id), now)).chain(gone).collect()
    }
}

fn change(before: Option<&Member>, now: &Member) -> Option<Change> {
    let Some(before) = before else { return Some(Change::Joined(now.id)) };
    match (before.is_live(), now.is_live()) {
        (true, false) => Some(Change::Died(now.id)),
        (false, true) => Some(Change::Returned(now.id)),
        (true, true) if before.boot != now.boot => Some(Change::Returned(now.id)),
        _ => (before.profile != now.profile || before.gossip_address != now.gossip_address)
            .then_some(Change::Changed(now.id)),
    }
}

/// What is reported of one node.
#[derive(Clone, Debug)]
pub(crate) struct Sighting {
    pub(crate) id: NodeId,
    pub(crate) boot: Boot,
    pub(crate) gossip_address: SocketAddr,
    pub(crate) profile: Profile,
    pub(crate) live: bool,
}

/// Follows the reports.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    members: Members,
    reported_at: BTreeMap<NodeId, Instant>,
    /// Forgotten while dead, with the boot that is not to come back. Cleared when no longer reported.
    forgotten: BTreeMap<NodeId, Boot>,
}

impl Roster {
    pub(crate) const fn members(&self) -> &Members {
        &self.members
    }

    /// Takes in everything that is reported at `now`; how many nodes were left out for want of room.
    pub(crate) fn report(&mut self, now: Instant, sightings: Vec<Sighting>) -> u64 {
        let mut left_out = 0;
        self.forgotten.retain(|id, _| sightings.iter().any(|sighting| sighting.id == *id));
        for sighting in sightings {
            if self.is_forgotten(&sighting) {
                continue;
            }
            if !self.make_room(sighting.id) {
                left_out += 1;
                continue;
            }
            self.reported_at.insert(sighting.id, now);
            self.forgotten.remove(&sighting.id);
            self.take_in(now, sighting);
        }
        self.bury_unreported(now);
        left_out
    }

    /// Drops a member that is dead. It comes back when it is heard again.
    pub(crate) fn forget(&mut self, id: NodeId) -> bool {
        let Some(member) = self.members.by_id.get(&id).filter(|member| !member.is_live()) else {
            return false;
        };
        self.forgotten.insert(id, member.boot);
        self.remove(id);
        true
    }

    fn is_forgotten(&self, sighting: &Sighting) -> bool {
        !sighting.live && self.forgotten.get(&sighting.id).is_some_and(|boot| sighting.boot <= *boot)
    }

    fn take_in(&mut self, now: Instant, sighting: Sighting) {
        let before = self.members.by_id.get(&sighting.id).map(|member| (member.boot, member.liveness));
        let liveness = match (before, sighting.live) {
            (Some((_, dead @ Liveness::Dead { .. })), false) => dead,
            (Some((boot, live @ Liveness::Live { .. })), true) if boot == sighting.boot => live,
            (_, true) => Liveness::Live { since: now },
            (_, false) => Liveness::Dead { since: now },
        };
        let Sighting { id, boot, gossip_address, profile, .. } = sighting;
        self.members.by_id.insert(id, Member { id, boot, gossip_address, profile, liveness });
    }

    fn make_room(&mut self, id: NodeId) -> bool {
        if self.members.len() < MEMBERS_MAX || self.members.by_id.contains_key(&id) {
            return true;
        }
        let dead = self.members.iter().filter_map(|member| match member.liveness {
            Liveness::Dead { since } => Some((since, member.id)),
            Liveness::Live { .. } => None,
        });
        let longest = dead.min().map(|(_, id)| id);
        longest.map(|longest| self.remove(longest)).is_some()
    }

    fn remove(&mut self, id: NodeId) {
        self.members.by_id.remove(&id);
        self.reported_at.remove(&id);
    }

    fn bury_unreported(&mut self, now: Instant) {
        for member in self.members.by_id.values_mut().filter(|member| member.is_live()) {
            let reported_at = self.reported_at.get(&member.id).copied();
            if reported_at.is_none_or(|at| now.saturating_duration_since(at) > UNREPORTED_MAX) {
                member.liveness = Liveness::Dead { since: now };
            }
        }
    }
}
