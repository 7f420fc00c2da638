//! What this node has heard of the others, and whether that is enough to be ready.
//!
//! Invariant: nothing is asked here; whoever asks notes what came of it.

use leasehold_model::{BootTime, Nanos};
use parking_lot::Mutex;

/// Without word of the control group's leader for so long, a node says that it isn't ready. Elections take under a second.
const SILENT_MAX: Nanos = Nanos::from_secs(4);
/// Gossip that is down for so long makes a line in the log.
const GOSSIP_DOWN_MAX: Nanos = Nanos::from_secs(10);

/// When this node last had word of the control group's leader.
#[derive(Debug, Default)]
pub(super) struct Vitals(Mutex<Heard>);

#[derive(Clone, Debug, Default)]
struct Heard {
    leader_at: Option<BootTime>,
    /// The leader says that this node has no part in the group.
    outside: bool,
    gossip_at: Option<BootTime>,
    gossip_told: bool,
    /// Why the data directory doesn't belong here.
    misplaced: Option<String>,
}

/// What the control group's leader said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// It leads, and this node has a part in the group.
    Inside,
    /// It leads, and this node has none.
    Outside,
    /// Nothing.
    Silence,
}

impl Vitals {
    /// # Errors
    /// Why this node isn't ready, in words.
    pub(super) fn check(&self, now: BootTime) -> Result<(), String> {
        let heard = self.0.lock().clone();
        if let Some(why) = heard.misplaced {
            return Err(why);
        }
        if heard.outside {
            return Err("the control group's leader says that this node has no part in the group".to_owned());
        }
        let silent = heard.leader_at.map_or(Nanos::MAX, |at| now.since(at));
        if silent > SILENT_MAX {
            return Err("no leader of the control group is heard: this node is cut off from most others, \
                        or most of them are down"
                .to_owned());
        }
        Ok(())
    }

    /// Why the data directory doesn't belong here, if that is so.
    pub(super) fn misplaced(&self) -> Option<String> {
        self.0.lock().misplaced.clone()
    }

    pub(super) fn set_misplaced(&self, why: Option<String>) {
        self.0.lock().misplaced = why;
    }

    pub(super) fn silent(&self, now: BootTime) -> Nanos {
        self.0.lock().leader_at.map_or(Nanos::MAX, |at| now.since(at))
    }

    pub(super) fn take(&self, word: Word, now: BootTime) {
        let mut heard = self.0.lock();
        match word {
            Word::Inside => (heard.leader_at, heard.outside) = (Some(now), false),
            Word::Outside => heard.outside = true,
            Word::Silence => {}
        }
    }

    /// Whether it is time to say that gossip is down.
    pub(super) fn gossip(&self, runs: bool, now: BootTime) -> bool {
        let mut heard = self.0.lock();
        if runs {
            (heard.gossip_at, heard.gossip_told) = (Some(now), false);
            return false;
        }
        let since = *heard.gossip_at.get_or_insert(now);
        let due = now.since(since) > GOSSIP_DOWN_MAX && !heard.gossip_told;
        heard.gossip_told |= due;
        due
    }
}
