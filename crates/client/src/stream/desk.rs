//! The asks that have no answer yet, and which of them to send next. No connection, no clock: time is an argument.
//!
//! Invariant: an ask is open from when it is put until it is answered or its deadline passes. An open ask that was under way
//! on a connection that is gone is sent again, as it was, under its id; one that isn't open is not sent again. An ask for
//! tokens is open once, however often it is put.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold_model::{Nanos, RequestId};
use leasehold_shard::Settled;
use leasehold_wire::lease::{ASKS_MAX, Answer, Asks, Outcome};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::pack::{Packer, Question};
use crate::{Answers, Grant, NoGrant, UpstreamAnswer};

/// Open asks. Beyond, further ones are refused as overload: a node answers some ten thousand a second, and who waits for
/// longer than a few of them has no use for the answer.
const OPEN_MAX: usize = 64 << 10;
/// Sessions that there is something to tell of; of further ones nothing is told until the next message, and what is
/// remembered of them is forgotten later.
const SESSIONS_UNTOLD_MAX: usize = 512;

/// See the module.
#[derive(Debug)]
pub(super) struct Desk {
    next_tag: u64,
    /// Of the asks that came without an id.
    session: u128,
    next_seq: u64,
    /// By tag, which is their order.
    open: BTreeMap<u64, Open>,
    /// Open asks for tokens.
    leases: BTreeMap<RequestId, u64>,
    /// Open asks that came without an id, by their sequence.
    own: BTreeMap<u64, u64>,
    deadlines: BTreeSet<(Instant, u64)>,
    unsent: BTreeSet<u64>,
    /// Sent over the present connection and not answered, open or not, with when.
    under_way: BTreeMap<u64, Instant>,
    /// What of its session is settled, as far as the node wasn't told.
    untold: BTreeMap<u128, u64>,
    /// The same of this desk's own session, as it was told last.
    told: u64,
}

#[derive(Debug)]
struct Open {
    id: RequestId,
    question: Question,
    deadline: Instant,
    asker: Asker,
}

/// Who gets the answer.
#[derive(Debug)]
pub(super) enum Asker {
    /// Whoever pools the answers of many.
    Pool { id: RequestId, answers: Answers },
    /// Whoever waits for just this one.
    Caller(oneshot::Sender<Outcome>),
}

impl Asker {
    /// Who asked may be gone.
    pub(super) fn tell(self, outcome: Outcome) {
        match self {
            Self::Pool { id, answers } => {
                let _ = answers.send(UpstreamAnswer { id, outcome: grant(outcome) });
            }
            Self::Caller(caller) => {
                let _ = caller.send(outcome);
            }
        }
    }
}

fn grant(outcome: Outcome) -> Result<Grant, NoGrant> {
    use leasehold_wire::lease::Unanswered::{Overloaded, Unreachable};
    match outcome {
        Outcome::Leased { leased, slot_parts } => Ok(Grant { leased, slot_parts }),
        Outcome::Refused(refusal) => Err(NoGrant::Refused(refusal)),
        Outcome::Unanswered(Overloaded) => Err(NoGrant::Overloaded),
        // The answer to another question is none.
        Outcome::Unanswered(Unreachable)
        | Outcome::Acquired(_)
        | Outcome::Refunded(_)
        | Outcome::Reset(_) => Err(NoGrant::Unreachable),
    }
}

/// An answer that somebody waits for.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) asker: Asker,
    pub(super) outcome: Outcome,
}

impl Desk {
    /// An empty desk. `session` is drawn at random: asks without an id get one of it.
    pub(super) fn new(session: u128) -> Self {
        Self {
            next_tag: 1,
            session,
            // From 1, so that nothing is settled before the first is.
            next_seq: 1,
            open: BTreeMap::new(),
            leases: BTreeMap::new(),
            own: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            unsent: BTreeSet::new(),
            under_way: BTreeMap::new(),
            untold: BTreeMap::new(),
            told: 0,
        }
    }

    /// Takes an ask for tokens, or hands its asker back when there are too many. One that is open already is only waited
    /// for longer.
    pub(super) fn put_lease(
        &mut self,
        id: RequestId,
        question: Question,
        deadline: Instant,
        asker: Asker,
    ) -> Result<(), Asker> {
        if let Some(&tag) = self.leases.get(&id) {
            let open = self.open.get_mut(&tag).expect("what is listed is open");
            self.deadlines.remove(&(open.deadline, tag));
            open.deadline = open.deadline.max(deadline);
            self.deadlines.insert((open.deadline, tag));
            return Ok(());
        }
        let tag = self.put(id, question, deadline, asker)?;
        self.leases.insert(id, tag);
        Ok(())
    }

    /// Takes an ask for owners, or hands its asker back when there are too many. Without an id it gets one.
    pub(super) fn put_exact(
        &mut self,
        id: Option<RequestId>,
        question: Question,
        deadline: Instant,
        asker: Asker,
    ) -> Result<(), Asker> {
        if let Some(id) = id {
            return self.put(id, question, deadline, asker).map(|_| ());
        }
        let seq = self.next_seq;
        let tag = self.put(RequestId { session: self.session, seq }, question, deadline, asker)?;
        self.next_seq += 1;
        self.own.insert(seq, tag);
        Ok(())
    }

    fn put(
        &mut self,
        id: RequestId,
        question: Question,
        deadline: Instant,
        asker: Asker,
    ) -> Result<u64, Asker> {
        if self.open.len() >= OPEN_MAX {
            return Err(asker);
        }
        let tag = self.next_tag;
        self.next_tag += 1;
        self.open.insert(tag, Open { id, question, deadline, asker });
        self.deadlines.insert((deadline, tag));
        self.unsent.insert(tag);
        Ok(tag)
    }

    /// A session asks none of its sequences below a number again; the node is told with the next asks.
    pub(super) fn settle(&mut self, settled: Settled) {
        if settled.below == 0 || self.untold.len() >= SESSIONS_UNTOLD_MAX {
            return;
        }
        let below = self.untold.entry(settled.session).or_default();
        *below = settled.below.max(*below);
    }

    /// The connection is gone: what is open has to be sent again.
    pub(super) fn lost(&mut self) {
        self.under_way.clear();
        self.unsent = self.open.keys().copied().collect();
    }

    /// Whether there is something to send on a connection that takes `asks_max` unanswered asks.
    pub(super) fn has_unsent(&self, asks_max: usize) -> bool {
        !self.unsent.is_empty() && self.under_way.len() < asks_max
    }

    /// The next message, oldest asks first. `None` when there is nothing to send, or no room for it.
    pub(super) fn fill(&mut self, asks_max: usize, now: Instant) -> Option<Asks> {
        let room = asks_max.saturating_sub(self.under_way.len()).min(ASKS_MAX);
        let mut packer = Packer::default();
        let mut sent = Vec::new();
        for &tag in self.unsent.iter().take(room) {
            let Open { id, question, deadline, .. } = self.open.get(&tag).expect("what is unsent is open");
            if !packer.add(tag, *id, question, left(*deadline, now)) {
                break;
            }
            sent.push(tag);
        }
        if sent.is_empty() {
            return None;
        }
        let asks = packer.finish();
        for tag in sent {
            self.unsent.remove(&tag);
            self.under_way.insert(tag, now);
        }
        Some(Asks { settled: self.news(), ..asks })
    }

    /// What the node wasn't told of yet.
    fn news(&mut self) -> Vec<Settled> {
        let below = self.own.keys().next().copied().unwrap_or(self.next_seq);
        if below > self.told.max(1) {
            self.told = below;
            self.untold.insert(self.session, below);
        }
        let news = std::mem::take(&mut self.untold).into_iter();
        news.map(|(session, below)| Settled { session, below }).collect()
    }

    /// An answer came. Returns who waits for it, and how long it took; `None` when nobody does.
    pub(super) fn answered(&mut self, answer: Answer, now: Instant) -> Option<(Due, Duration)> {
        let sent = self.under_way.remove(&answer.tag)?;
        let open = self.close(answer.tag)?;
        Some((Due { asker: open.asker, outcome: answer.outcome }, now - sent))
    }

    /// The askers whose deadline has passed. Their asks are never sent again, though they may have been carried out.
    pub(super) fn expired(&mut self, now: Instant) -> Vec<Asker> {
        let mut askers = Vec::new();
        while let Some(&(deadline, tag)) = self.deadlines.first() {
            if deadline > now {
                break;
            }
            askers.extend(self.close(tag).map(|open| open.asker));
        }
        askers
    }

    /// All askers: nothing will be sent any more.
    pub(super) fn clear(&mut self) -> Vec<Asker> {
        self.deadlines.clear();
        self.leases.clear();
        self.own.clear();
        self.unsent.clear();
        self.under_way.clear();
        std::mem::take(&mut self.open).into_values().map(|open| open.asker).collect()
    }

    /// When the next deadline passes.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Since when the oldest ask of this connection has no answer.
    pub(super) fn oldest_under_way(&self) -> Option<Instant> {
        self.under_way.values().min().copied()
    }

    /// Whether every ask of this connection has its answer.
    pub(super) fn is_quiet(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Asks without an answer.
    pub(super) fn open(&self) -> usize {
        self.open.len()
    }

    fn close(&mut self, tag: u64) -> Option<Open> {
        let open = self.open.remove(&tag)?;
        self.deadlines.remove(&(open.deadline, tag));
        self.unsent.remove(&tag);
        match open.question {
            Question::Lease { .. } => drop(self.leases.remove(&open.id)),
            Question::Exact { .. } if open.id.session == self.session => drop(self.own.remove(&open.id.seq)),
            Question::Exact { .. } => {}
        }
        Some(open)
    }
}

/// What is left until the deadline.
fn left(deadline: Instant, now: Instant) -> Nanos {
    let left = deadline.saturating_duration_since(now).as_nanos();
    Nanos(u64::try_from(left).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
