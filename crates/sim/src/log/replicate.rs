//! Entries from a leader to its followers, and what that makes of them: on a majority's disks they are committed.

use std::rc::Rc;

use leasehold_model::{BootTime, Stamp};

use super::replica::{Out, Replica, Role};
use super::{BEAT, Body, Entry, Snap, Speech};
use crate::chance::Chance;
use crate::clocks::Time;
use crate::disk::Write;

/// Entries of one message; what is beyond goes with the next.
const ENTRIES_MAX: usize = 64;

impl Replica {
    /// Proposes an entry; its index, if this replica leads and its disk has room.
    pub(crate) fn propose(
        &mut self,
        body: Body,
        stamp: Stamp,
        proposed: (Time, usize, u64),
        now: BootTime,
        out: &mut Out,
    ) -> Option<u64> {
        if !self.is_leader() || self.full {
            return None;
        }
        let (index, term) = (self.log.last().0 + 1, self.log.term);
        let entry = Rc::new(Entry { index, term, stamp, body, proposed });
        self.log.append(std::slice::from_ref(&entry));
        let synced = Speech::Synced { index, term };
        Self::write(Write::Append(vec![entry]), vec![(self.me, synced)], out);
        self.tell_all(now, out);
        Some(index)
    }

    pub(super) fn begin_term(&mut self, now: BootTime, out: &mut Out) {
        // Moves no time: who stamps it knows no line yet.
        let full = std::mem::take(&mut self.full);
        self.propose(Body::Begin, Stamp::ZERO, (0, self.me, 0), now, out);
        self.full = full;
    }

    pub(super) fn tell_all(&mut self, now: BootTime, out: &mut Out) {
        for peer in self.others() {
            self.tell(peer, now, out);
        }
    }

    fn tell(&mut self, peer: usize, now: BootTime, out: &mut Out) {
        let (term, commit) = (self.log.term, self.commit);
        let Role::Leader(leading) = &mut self.role else { return };
        let next = leading.next.get(&peer).copied().unwrap_or(1);
        let before = next - 1;
        let Some(before_term) = self.log.term_at(before) else {
            let due = leading.installing.get(&peer).is_none_or(|sent| now.since(*sent).0 >= 3 * BEAT.0);
            if let Some(snap) = self.log.snap.clone().filter(|_| due) {
                leading.installing.insert(peer, now);
                out.said.push((peer, Speech::Install { term, snap, sent: now }));
            }
            return;
        };
        let entries: Vec<Rc<Entry>> =
            (next..).map_while(|index| self.log.at(index).cloned()).take(ENTRIES_MAX).collect();
        if let Some(last) = entries.last() {
            leading.next.insert(peer, last.index + 1);
        }
        let before = (before, before_term);
        out.said.push((peer, Speech::Append { term, before, entries, commit, sent: now }));
    }

    /// Whether `from` leads this replica now.
    pub(super) fn follow(
        &mut self,
        from: usize,
        term: u64,
        now: BootTime,
        chance: &mut Chance,
        out: &mut Out,
    ) -> bool {
        if term < self.log.term {
            return false;
        }
        if term > self.log.term {
            self.step_down(term, out);
        }
        self.role = Role::Follower { leader: Some(from) };
        self.heard = Some(now);
        self.put_off(now, chance);
        true
    }

    pub(super) fn append(
        &mut self,
        from: usize,
        before: (u64, u64),
        mut entries: Vec<Rc<Entry>>,
        commit: u64,
        sent: BootTime,
        out: &mut Out,
    ) {
        let term = self.log.term;
        let (base, _) = self.log.base;
        let known = before.0 < base || self.log.term_at(before.0) == Some(before.1);
        if !known {
            let matched = self.log.last().0.min(before.0.saturating_sub(1));
            out.said.push((from, Speech::Appended { term, fits: false, matched, sent }));
            return;
        }
        let end = entries.last().map_or(before.0, |entry| entry.index);
        entries.retain(|entry| entry.index > base && self.log.term_at(entry.index) != Some(entry.term));
        if self.full && !entries.is_empty() {
            return;
        }
        if let Some(first) = entries.first() {
            self.synced = self.synced.min(first.index - 1);
            self.log.append(&entries);
            let last = (end, self.log.term_at(end).unwrap_or(term));
            let then = vec![
                (self.me, Speech::Synced { index: last.0, term: last.1 }),
                (from, Speech::Appended { term, fits: true, matched: end, sent }),
            ];
            Self::write(Write::Append(entries), then, out);
        }
        self.commit = self.commit.max(commit.min(end));
        let matched = end.min(self.synced);
        out.said.push((from, Speech::Appended { term, fits: true, matched, sent }));
    }

    pub(super) fn appended(
        &mut self,
        from: usize,
        fits: bool,
        matched: u64,
        sent: BootTime,
        now: BootTime,
        out: &mut Out,
    ) {
        let Role::Leader(leading) = &mut self.role else { return };
        let heard = leading.heard.entry(from).or_insert(sent);
        *heard = (*heard).max(sent);
        if !fits {
            leading.next.insert(from, matched + 1);
            self.tell(from, now, out);
            return;
        }
        let known = leading.matched.entry(from).or_default();
        *known = (*known).max(matched);
        let next = leading.next.entry(from).or_insert(1);
        *next = (*next).max(matched + 1);
        self.advance(out, now);
    }

    /// Counts again what is committed; tells the others at once, so that they apply soon.
    pub(super) fn advance(&mut self, out: &mut Out, now: BootTime) {
        let Role::Leader(leading) = &self.role else { return };
        let mut places: Vec<u64> = leading.matched.values().copied().chain([self.synced]).collect();
        places.sort_unstable();
        let place = places[places.len() - self.majority()];
        if place > self.commit && self.log.term_at(place) == Some(self.log.term) {
            self.commit = place;
            self.tell_all(now, out);
        }
    }

    pub(super) fn install(&mut self, from: usize, snap: Rc<Snap>, sent: BootTime, out: &mut Out) {
        let (term, matched) = (self.log.term, snap.index);
        if snap.index <= self.commit {
            let matched = matched.min(self.synced);
            out.said.push((from, Speech::Appended { term, fits: true, matched, sent }));
            return;
        }
        self.log.rest_on(&snap, snap.index);
        self.log.snap = Some(Rc::clone(&snap));
        (self.commit, self.applied) = (snap.index, snap.index);
        if self.log.entries.is_empty() {
            self.synced = 0;
        }
        let then = vec![
            (self.me, Speech::Synced { index: snap.index, term: snap.term }),
            (from, Speech::Appended { term, fits: true, matched, sent }),
        ];
        Self::write(Write::Snapshot { snap: Rc::clone(&snap), purged: matched }, then, out);
        out.restored = Some(snap);
    }
}
