//! What edges may spend by themselves while they can't reach an owner: the part of a limit that is set aside for them, and
//! among how many it is shared out.
//!
//! Invariant: what the owner decides by and the parts of all edges together never exceed the declared limit. Nothing is set
//! aside of a limit of which an edge's part would be less than a unit: the owner then decides by all of it.

use std::sync::Arc;

use super::OnUnavailable;
use super::error::Report;
use super::fields::{Fields, count};
use super::numbers::read_share;
use crate::{Limit, Share};

/// Part of a limit that is set aside under `on_unavailable: local` when its rule doesn't say, in parts per million.
pub const LOCAL_SHARE_PPM_DEFAULT: u32 = 100_000;
/// Largest such part. What is set aside isn't there for anybody while all is well, so more than half is a mistake.
pub const LOCAL_SHARE_PPM_MAX: u32 = 500_000;
/// Edges that have a part when a rule doesn't say.
pub const EDGES_DEFAULT: u16 = 32;
/// Most edges that can have one: as many as an owner gives numbers to.
pub const EDGES_MAX: u16 = 1_024;

/// A limit of which a part is set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Escrow {
    /// What the owner decides by: the rest.
    pub owner: Arc<Limit>,
    /// What each edge has to itself, as a part of the rest.
    pub each: Share,
}

/// The fields of a rule for when its owner can't be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Away {
    pub(super) local_share_ppm: u32,
    pub(super) edges: u16,
    pub(super) max_overshoot_ppm: u32,
}

impl Away {
    /// Reads `local_share`, `edges` and `max_overshoot`.
    pub(super) fn read(
        rule: &Fields<'_>,
        on_unavailable: Option<OnUnavailable>,
        report: &mut Report<'_>,
    ) -> Option<Self> {
        let max_overshoot_ppm = match rule.get("max_overshoot") {
            Some(node) => read_share(node, &rule.path("max_overshoot"), report),
            None => Some(0),
        };
        // What goes with a word that isn't understood isn't known either.
        let is_local = on_unavailable.map(|word| word == OnUnavailable::Local);
        let local_share_ppm = read_local_share(rule, is_local, report);
        let used = is_local.zip(max_overshoot_ppm).map(|(is_local, ppm)| is_local || ppm > 0);
        let edges = read_edges(rule, used, report);
        Some(Self { local_share_ppm: local_share_ppm?, edges: edges?, max_overshoot_ppm: max_overshoot_ppm? })
    }

    /// What is set aside of a limit, if anything is.
    pub(super) fn escrow(&self, limit: &Limit) -> Option<Escrow> {
        if self.local_share_ppm == 0 {
            return None;
        }
        let owner = Share::without(self.local_share_ppm).scale(limit)?;
        let each = Share::each_of_rest(self.local_share_ppm, u32::from(self.edges));
        each.scale(&owner).map(|_| Escrow { owner: Arc::new(owner), each })
    }
}

fn read_local_share(rule: &Fields<'_>, is_local: Option<bool>, report: &mut Report<'_>) -> Option<u32> {
    let Some(node) = rule.get("local_share") else {
        return is_local.map(|is_local| if is_local { LOCAL_SHARE_PPM_DEFAULT } else { 0 });
    };
    let path = rule.path("local_share");
    let ppm = read_share(node, &path, report)?;
    let (message, fix) = match (is_local, ppm) {
        (Some(false), _) => {
            ("local_share without on_unavailable: local", "leave it out, or write on_unavailable: local")
        }
        (_, 0) => ("a share of 0 leaves edges nothing", "write on_unavailable: deny instead of local"),
        (_, ppm) if ppm > LOCAL_SHARE_PPM_MAX => {
            ("more than half is set aside, which nobody can use while all is well", "write at most 0.5")
        }
        (is_local, ppm) => return is_local.map(|_| ppm),
    };
    report.add(node.at, &path, message, fix);
    None
}

fn read_edges(rule: &Fields<'_>, used: Option<bool>, report: &mut Report<'_>) -> Option<u16> {
    let Some(node) = rule.get("edges") else { return Some(EDGES_DEFAULT) };
    let path = rule.path("edges");
    let edges = count(node, &path, report)?;
    if used == Some(false) {
        let fix = "leave it out, or write on_unavailable: local or a max_overshoot";
        report.add(node.at, &path, "edges without anything to share out among them", fix);
        return None;
    }
    let fits = u16::try_from(edges).ok().filter(|edges| (1..=EDGES_MAX).contains(edges));
    if fits.is_none() {
        let message = format!("{edges} edges can't share a limit");
        report.add(node.at, &path, message, format!("write how many may, from 1 to {EDGES_MAX}"));
    }
    fits
}

#[cfg(test)]
mod tests;
