//! Elections: first the question whether anybody hears a leader, then votes, each on disk before it is told.
//!
//! Invariant: a replica votes once a term, and for nobody within a lease of hearing a leader, of leading, or of its own start,
//! unless the leader itself handed over.

use std::collections::BTreeSet;

use leasehold_model::{BootTime, Nanos};

use super::replica::{Leading, Out, Replica, Role};
use super::{BEAT, LEASE, Speech};
use crate::chance::Chance;
use crate::disk::Write;

/// Who hears no leader for so long, and up to twice as long, stands.
const PATIENCE: Nanos = Nanos::from_millis(400);

impl Replica {
    /// Time passes.
    pub(crate) fn tick(&mut self, now: BootTime, chance: &mut Chance) -> Out {
        let mut out = Out::default();
        if let Role::Leader(leading) = &mut self.role {
            if leading.beat_at <= now {
                leading.beat_at = BootTime(now.0 + BEAT.0);
                self.tell_all(now, &mut out);
            }
        } else if self.stands_at <= now {
            self.stand(true, false, now, chance, &mut out);
        }
        out
    }

    /// Lets `to` lead, if it has all entries: steps down and says so.
    pub(crate) fn hand_over(&mut self, to: usize) -> Out {
        let mut out = Out::default();
        let Role::Leader(leading) = &self.role else { return out };
        if to != self.me && leading.matched.get(&to) == Some(&self.log.last().0) {
            out.said.push((to, Speech::HandOver { term: self.log.term }));
            self.role = Role::Follower { leader: None };
        }
        out
    }

    pub(super) fn put_off(&mut self, now: BootTime, chance: &mut Chance) {
        self.stands_at = BootTime(now.0 + chance.within(PATIENCE.0, 2 * PATIENCE.0));
    }

    pub(super) fn stand(
        &mut self,
        pre: bool,
        handed: bool,
        now: BootTime,
        chance: &mut Chance,
        out: &mut Out,
    ) {
        self.put_off(now, chance);
        let last = self.log.last();
        let term = self.log.term + 1;
        self.role = Role::Candidate { pre, votes: BTreeSet::from([self.me]) };
        let asks = self.others().into_iter();
        let asks: Vec<_> = asks.map(|peer| (peer, Speech::AskVote { term, last, pre, handed })).collect();
        if pre {
            out.said.extend(asks);
            return;
        }
        (self.log.term, self.log.voted) = (term, Some(self.me));
        Self::write(Write::Vote { term, voted: Some(self.me) }, asks, out);
    }

    pub(super) fn asked_for_vote(
        &mut self,
        from: usize,
        (term, pre, handed): (u64, bool, bool),
        last: (u64, u64),
        now: BootTime,
        chance: &mut Chance,
        out: &mut Out,
    ) {
        let promised = self.heard.is_some_and(|heard| now.since(heard) < LEASE)
            || now.since(self.born) < LEASE
            || self.holds_lease(now);
        let (own_index, own_term) = self.log.last();
        let is_behind = (last.1, last.0) < (own_term, own_index);
        if (promised && !handed) || term < self.log.term || (pre && term == self.log.term) {
            return;
        }
        if pre {
            if !is_behind {
                out.said.push((from, Speech::Vote { term, pre }));
            }
            return;
        }
        if term > self.log.term {
            self.step_down(term, out);
        }
        if is_behind || self.log.voted.is_some_and(|voted| voted != from) || self.is_leader() {
            return;
        }
        self.log.voted = Some(from);
        self.put_off(now, chance);
        Self::write(Write::Vote { term, voted: Some(from) }, vec![(from, Speech::Vote { term, pre })], out);
    }

    pub(super) fn got_vote(&mut self, from: usize, term: u64, pre: bool, now: BootTime, out: &mut Out) {
        let (majority, own) = (self.majority(), self.log.term);
        let Role::Candidate { pre: asking, votes } = &mut self.role else { return };
        if *asking != pre || term != own + u64::from(pre) {
            return;
        }
        votes.insert(from);
        if votes.len() < majority {
            return;
        }
        if pre {
            // Its own clock said long ago that nobody is heard.
            self.stand_for_real(now, out);
        } else {
            self.lead(now, out);
        }
    }

    fn stand_for_real(&mut self, now: BootTime, out: &mut Out) {
        let (term, last) = (self.log.term + 1, self.log.last());
        self.stands_at = BootTime(self.stands_at.0.max(now.0 + PATIENCE.0));
        self.role = Role::Candidate { pre: false, votes: BTreeSet::from([self.me]) };
        (self.log.term, self.log.voted) = (term, Some(self.me));
        let asks = self.others().into_iter();
        let asks = asks.map(|peer| (peer, Speech::AskVote { term, last, pre: false, handed: false }));
        Self::write(Write::Vote { term, voted: Some(self.me) }, asks.collect(), out);
    }

    fn lead(&mut self, now: BootTime, out: &mut Out) {
        let next = self.log.last().0 + 1;
        let others = self.others();
        self.role = Role::Leader(Leading {
            begin: next,
            next: others.iter().map(|&peer| (peer, next)).collect(),
            matched: others.iter().map(|&peer| (peer, 0)).collect(),
            heard: std::collections::BTreeMap::new(),
            installing: std::collections::BTreeMap::new(),
            beat_at: BootTime(now.0 + BEAT.0),
        });
        self.begin_term(now, out);
    }
}
