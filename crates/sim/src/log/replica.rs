//! One replica of a group: what it knows, its role, and what it has applied.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use leasehold_model::BootTime;
use leasehold_model::planted::{self, Bug};

use super::{Durable, Entry, LEASE, Snap, Speech};
use crate::chance::Chance;
use crate::disk::{Then, Write};

/// What a replica wants done. The order of what is said is kept.
#[derive(Debug, Default)]
pub(crate) struct Out {
    /// To be said at once.
    pub(crate) said: Vec<(usize, Speech)>,
    /// To be written, each with what is said after it.
    pub(crate) writes: Vec<(Write, Then)>,
    /// A snapshot came: the machine starts from it.
    pub(crate) restored: Option<Rc<Snap>>,
}

#[derive(Debug)]
pub(super) enum Role {
    Follower { leader: Option<usize> },
    Candidate { pre: bool, votes: BTreeSet<usize> },
    Leader(Leading),
}

/// What a leader keeps of each follower.
#[derive(Debug)]
pub(super) struct Leading {
    /// The entry that began its term.
    pub(super) begin: u64,
    pub(super) next: BTreeMap<usize, u64>,
    pub(super) matched: BTreeMap<usize, u64>,
    /// When the last append that was answered left.
    pub(super) heard: BTreeMap<usize, BootTime>,
    pub(super) installing: BTreeMap<usize, BootTime>,
    pub(super) beat_at: BootTime,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Replica {
    pub(super) me: usize,
    pub(super) peers: Vec<usize>,
    pub(super) log: Durable,
    /// Up to where the log is on disk.
    pub(super) synced: u64,
    pub(super) commit: u64,
    pub(super) applied: u64,
    pub(super) role: Role,
    pub(super) heard: Option<BootTime>,
    pub(super) stands_at: BootTime,
    pub(super) born: BootTime,
    /// No room on disk.
    pub(crate) full: bool,
}

impl Replica {
    /// Starts from what is on disk. `peers` are all replicas, this one among them.
    #[must_use]
    pub(crate) fn new(
        me: usize,
        peers: Vec<usize>,
        log: Durable,
        now: BootTime,
        chance: &mut Chance,
    ) -> Self {
        let start = log.snap.as_ref().map_or(0, |snap| snap.index);
        let mut replica = Self {
            me,
            peers,
            synced: log.last().0,
            log,
            commit: start,
            applied: start,
            role: Role::Follower { leader: None },
            heard: None,
            stands_at: now,
            born: now,
            full: false,
        };
        replica.put_off(now, chance);
        replica
    }

    /// The term it is in.
    #[must_use]
    pub(crate) const fn term(&self) -> u64 {
        self.log.term
    }

    /// What it has applied.
    #[must_use]
    pub(crate) const fn applied(&self) -> u64 {
        self.applied
    }

    /// Entries held.
    #[must_use]
    pub(crate) fn entries(&self) -> usize {
        self.log.entries.len()
    }

    /// Whom it takes for the leader.
    #[must_use]
    pub(crate) const fn leader(&self) -> Option<usize> {
        match self.role {
            Role::Follower { leader } => leader,
            Role::Candidate { .. } => None,
            Role::Leader(_) => Some(self.me),
        }
    }

    /// Whether it takes itself for the leader.
    #[must_use]
    pub(crate) const fn is_leader(&self) -> bool {
        matches!(self.role, Role::Leader(_))
    }

    /// Whether it leads and has applied all of the terms before.
    #[must_use]
    pub(crate) fn serves(&self) -> bool {
        matches!(&self.role, Role::Leader(leading) if self.applied >= leading.begin)
    }

    /// Whether it may answer from its own state: a majority elects nobody else now.
    #[must_use]
    pub(crate) fn holds_lease(&self, now: BootTime) -> bool {
        let Role::Leader(leading) = &self.role else { return false };
        let mut heard: Vec<BootTime> = leading.heard.values().copied().chain([now]).collect();
        heard.sort_unstable();
        let Some(&since) = heard.iter().rev().nth(self.majority() - 1) else { return false };
        let shorter = LEASE.0 - LEASE.0 / 1_000 * 4;
        self.serves() && now.since(since).0 < shorter
    }

    /// The next entry to apply.
    pub(crate) fn next_to_apply(&mut self) -> Option<Rc<Entry>> {
        let entry = self.log.at(self.applied + 1).filter(|entry| entry.index <= self.commit)?;
        self.applied = entry.index;
        Some(Rc::clone(entry))
    }

    /// The machine's state as of what is applied was taken: it and the entries that followers may lack go on from it.
    pub(crate) fn rest_on(&mut self, snap: Rc<Snap>, kept: u64) -> Out {
        let purged = snap.index.saturating_sub(kept);
        self.log.rest_on(&snap, purged);
        self.log.snap = Some(Rc::clone(&snap));
        let mut out = Out::default();
        out.writes.push((Write::Snapshot { snap, purged }, Vec::new()));
        out
    }

    /// Term of the entry that would be applied next, for snapshots.
    #[must_use]
    pub(crate) fn applied_term(&self) -> u64 {
        self.log.term_at(self.applied).unwrap_or(0)
    }

    /// Something is said by a replica, this one too.
    pub(crate) fn handle(&mut self, from: usize, speech: Speech, now: BootTime, chance: &mut Chance) -> Out {
        let mut out = Out::default();
        match speech {
            Speech::AskVote { term, last, pre, handed } => {
                self.asked_for_vote(from, (term, pre, handed), last, now, chance, &mut out);
            }
            Speech::Vote { term, pre } => self.got_vote(from, term, pre, now, &mut out),
            Speech::Append { term, before, entries, commit, sent } => {
                if self.follow(from, term, now, chance, &mut out) {
                    self.append(from, before, entries, commit, sent, &mut out);
                } else {
                    let refusal = Speech::Appended { term: self.log.term, fits: false, matched: 0, sent };
                    out.said.push((from, refusal));
                }
            }
            Speech::Appended { term, fits, matched, sent } => {
                if term > self.log.term {
                    self.step_down(term, &mut out);
                } else if term == self.log.term {
                    self.appended(from, fits, matched, sent, now, &mut out);
                }
            }
            Speech::Install { term, snap, sent } => {
                if self.follow(from, term, now, chance, &mut out) {
                    self.install(from, snap, sent, &mut out);
                }
            }
            Speech::HandOver { term } => {
                if term == self.log.term && !self.is_leader() {
                    self.stand(false, true, now, chance, &mut out);
                }
            }
            Speech::Synced { index, term } => {
                if self.log.term_at(index) == Some(term) {
                    self.synced = self.synced.max(index);
                    self.advance(&mut out, now);
                }
            }
        }
        out
    }

    pub(super) fn majority(&self) -> usize {
        self.peers.len() / 2 + 1
    }

    pub(super) fn others(&self) -> Vec<usize> {
        self.peers.iter().copied().filter(|&peer| peer != self.me).collect()
    }

    /// Writes, and says something once that is on disk.
    pub(super) fn write(write: Write, then: Then, out: &mut Out) {
        let bug = match write {
            Write::Vote { .. } => Bug::VoteNotSynced,
            Write::Append(_) | Write::Snapshot { .. } => Bug::AckBeforeSync,
        };
        if planted::is(bug) {
            out.said.extend(then);
            out.writes.push((write, Vec::new()));
        } else {
            out.writes.push((write, then));
        }
    }

    pub(super) fn step_down(&mut self, term: u64, out: &mut Out) {
        self.role = Role::Follower { leader: None };
        if term > self.log.term {
            (self.log.term, self.log.voted) = (term, None);
            Self::write(Write::Vote { term, voted: None }, Vec::new(), out);
        }
    }
}
