//! When a replica asks to lead, and what the others' answers mean. Pure: time and chance come in.
//!
//! Invariant: a replica elects only after a majority of every voter set said that they hear no leader and that its log
//! isn't behind theirs. A node that was cut off therefore comes back without disturbing anyone: nobody agrees, and
//! asking changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_model::{Nanos, Stamp};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// How long Raft waits for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// A leader shows that it lives this often.
    pub heartbeat: Nanos,
    /// A voter that heard a leader votes for nobody else for this long; a leader that heard from a majority serves this
    /// long, less a margin.
    pub lease: Nanos,
    /// A replica that hears no leader asks to lead after this at the earliest. Not below `lease`: nobody would agree.
    pub election_min: Nanos,
    /// And after this at the latest.
    pub election_max: Nanos,
}

impl Timing {
    /// For voters that are up to 400 ms from each other, there and back: a leader hears often enough to keep its lease, and
    /// nobody asks to lead because of the way alone.
    #[must_use]
    pub fn far_apart() -> Self {
        Self {
            lease: Nanos::from_millis(600),
            election_min: Nanos::from_millis(600),
            election_max: Nanos::from_millis(1_000),
            ..Self::default()
        }
    }

    /// Whether these fit together.
    ///
    /// # Errors
    /// What doesn't, and what to do.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.heartbeat.0 == 0 || self.heartbeat.0.saturating_mul(2) > self.lease.0 {
            return Err("`lease` has to last two heartbeats or more: one may be late");
        }
        if self.election_min < self.lease {
            return Err("`election_min` has to be `lease` or more: before that nobody votes");
        }
        if self.election_max.0 <= self.election_min.0.saturating_add(self.heartbeat.0) {
            return Err(
                "`election_max` has to be above `election_min` by more than a heartbeat: replicas have to differ",
            );
        }
        Ok(())
    }
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            heartbeat: Nanos::from_millis(100),
            lease: Nanos::from_millis(300),
            election_min: Nanos::from_millis(300),
            election_max: Nanos::from_millis(600),
        }
    }
}

/// Pause between a broken connection to the leader and the question to the others, for the preferred replica and at most.
/// Enough that both of two survivors have noticed when one asks.
const LOST_PAUSE: Nanos = Nanos::from_millis(5);
/// The same for the other replicas: they come behind the preferred one and behind each other.
const LOST_PAUSE_OTHERS: (Nanos, Nanos) = (Nanos::from_millis(15), Nanos::from_millis(80));

/// What one voter answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opinion {
    /// It will vote for nobody for this long.
    pub leader_for: Nanos,
    /// The asker's log is behind its own.
    pub behind: bool,
}

/// What the answers mean together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A majority would vote for the asker now.
    Elect,
    /// A majority would in so long, if it hears no leader until then.
    LeaderHeard(Nanos),
    /// Too many have longer logs: another replica has to lead.
    Behind,
    /// No majority answered.
    NoMajority,
}

/// Sums up the answers, the asker's own among them: it may have promised a leader not to vote, as the others may.
/// `voter_sets` are two during a change of members: each must agree.
#[must_use]
pub fn tally(voter_sets: &[BTreeSet<u64>], opinions: &BTreeMap<u64, Opinion>) -> Verdict {
    let mut wait = Nanos::ZERO;
    let mut verdict = Verdict::Elect;
    for voters in voter_sets {
        let answered: Vec<&Opinion> = voters.iter().filter_map(|voter| opinions.get(voter)).collect();
        let mut waits: Vec<Nanos> =
            answered.iter().filter(|opinion| !opinion.behind).map(|opinion| opinion.leader_for).collect();
        waits.sort_unstable();
        let majority = voters.len() / 2 + 1;
        match waits.get(majority - 1) {
            Some(longest) => wait = wait.max(*longest),
            None if answered.len() >= majority => verdict = Verdict::Behind,
            None => return Verdict::NoMajority,
        }
    }
    if verdict == Verdict::Elect && wait > Nanos::ZERO { Verdict::LeaderHeard(wait) } else { verdict }
}

/// When one replica of one group asks.
#[derive(Debug)]
pub struct Election {
    timing: Timing,
    rng: SmallRng,
    preferred: bool,
    heard: Stamp,
    due: Stamp,
    asking: bool,
}

impl Election {
    /// From now on; no leader has been heard yet. The preferred replica asks at once.
    #[must_use]
    pub fn new(timing: Timing, seed: u64, preferred: bool, now: Stamp) -> Self {
        let rng = SmallRng::seed_from_u64(seed);
        let mut election = Self { timing, rng, preferred, heard: Stamp::ZERO, due: now, asking: false };
        if !preferred {
            election.due = now.after(election.wait());
        }
        election
    }

    /// Whether this replica should lead rather than another: it waits less, and not at all in a group that never had a leader.
    pub fn prefer(&mut self, preferred: bool, now: Stamp) {
        self.preferred = preferred;
        if preferred && self.heard == Stamp::ZERO {
            self.due = self.due.min(now);
        }
    }

    /// The last time that a leader was heard, as far as the caller knows.
    pub fn heard(&mut self, at: Stamp) {
        if at > self.heard {
            self.heard = at;
            self.due = at.after(self.wait());
        }
    }

    /// The replica has just voted for another: that one gets the time to win.
    pub fn voted(&mut self, now: Stamp) {
        self.due = self.due.max(now.after(self.wait()));
    }

    /// The connection to the leader broke, which it does at once when its process is killed: no need to wait for silence.
    pub fn leader_lost(&mut self, now: Stamp) {
        let pause = if self.preferred {
            self.between(Nanos::ZERO, LOST_PAUSE)
        } else {
            self.between(LOST_PAUSE_OTHERS.0, LOST_PAUSE_OTHERS.1)
        };
        self.due = self.due.min(now.after(pause));
    }

    /// Whether answers are awaited.
    #[must_use]
    pub const fn is_asking(&self) -> bool {
        self.asking
    }

    /// When to ask next; none while answers are awaited.
    #[must_use]
    pub fn due(&self) -> Option<Stamp> {
        (!self.asking).then_some(self.due)
    }

    /// Starts asking if it is time.
    #[must_use]
    pub fn ask(&mut self, now: Stamp) -> bool {
        let starts = !self.asking && now >= self.due;
        self.asking |= starts;
        starts
    }

    /// The answers are in, and their verdict was acted on: says when to ask again.
    pub fn answered(&mut self, now: Stamp, verdict: Verdict) {
        self.asking = false;
        let pause = match verdict {
            Verdict::LeaderHeard(wait) => {
                let most = if self.preferred { LOST_PAUSE } else { LOST_PAUSE_OTHERS.1 };
                Nanos(wait.0.saturating_add(self.between(Nanos::from_millis(1), most).0))
            }
            Verdict::Behind => self.timing.election_max,
            Verdict::Elect | Verdict::NoMajority => self.wait(),
        };
        self.due = now.after(pause);
    }

    /// How long silence lasts before this replica asks: the preferred one comes first.
    fn wait(&mut self) -> Nanos {
        let (min, max) = (self.timing.election_min.0, self.timing.election_max.0);
        let third = max.saturating_sub(min) / 3;
        if self.preferred {
            self.between(Nanos(min), Nanos(min.saturating_add(third / 2)))
        } else {
            self.between(Nanos(min.saturating_add(third)), Nanos(max))
        }
    }

    fn between(&mut self, least: Nanos, most: Nanos) -> Nanos {
        Nanos(self.rng.random_range(least.0..=most.0.max(least.0)))
    }
}

#[cfg(test)]
mod tests;
