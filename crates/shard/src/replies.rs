//! Replies to commands that carried an id, so that a retry is charged once and answered the same.
//!
//! Invariant: a reply is remembered for the retry window of shard time and dropped sooner only when its session says that
//! it won't ask again; beyond a tenant's bound new ids are refused instead. What counts to the bound is a reply's weight,
//! so that it bounds bytes. Stamps of one shard never run backwards, so order of insertion is order of expiry.

use std::collections::BTreeMap;

use leasehold_model::{Nanos, RequestId, Stamp, TenantId};

use crate::command::DECISIONS_PER_REPLY;
use crate::{Refusal, Reply};

/// A remembered reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// The command's id.
    pub id: RequestId,
    /// When it was applied.
    pub at: Stamp,
    /// Hash of what it asked for, so that its id can't stand for something else.
    pub fingerprint: u64,
    /// Whose bound it counts to.
    pub tenant: TenantId,
    /// What was answered.
    pub reply: Reply,
}

impl Remembered {
    fn weight(&self) -> u32 {
        weight(match &self.reply {
            Reply::Acquired(acquired) => acquired.decisions.len(),
            Reply::Refunded(units) => units.len(),
            Reply::Reset(_) | Reply::Refused(_) | Reply::Leased(_) => 1,
        })
    }
}

/// As how many replies one of that many decisions counts.
pub(crate) fn weight(decisions: usize) -> u32 {
    u32::try_from(decisions.div_ceil(DECISIONS_PER_REPLY).max(1)).unwrap_or(u32::MAX)
}

/// Replies by id, oldest first. Nothing is left of one that was dropped: a replica restored from a snapshot drops the
/// next ones at the same commands.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    /// By place; places only count up.
    oldest_first: BTreeMap<u64, Remembered>,
    places: BTreeMap<RequestId, u64>,
    next: u64,
    tenants: BTreeMap<TenantId, u32>,
}

impl Replies {
    /// What the replies held on the tenant's account weigh.
    pub(crate) fn of(&self, tenant: TenantId) -> u32 {
        self.tenants.get(&tenant).copied().unwrap_or(0)
    }

    /// The reply to a command seen before, or the refusal of one that uses another's id.
    pub(crate) fn recall(&self, id: RequestId, fingerprint: u64, at: Stamp, window: Nanos) -> Option<Reply> {
        let remembered = self.get(id)?;
        if expired(remembered, at, window) {
            return None;
        }
        if remembered.fingerprint != fingerprint {
            return Some(Reply::Refused(Refusal::RequestIdReused));
        }
        Some(remembered.reply.clone())
    }

    /// Replies held, expired ones among them.
    pub(crate) fn held(&self) -> usize {
        self.places.len()
    }

    /// Whether there is a reply under the id, expired or not.
    pub(crate) fn holds(&self, id: RequestId) -> bool {
        self.places.contains_key(&id)
    }

    /// Remembers a reply, in place of an expired one under the same id.
    pub(crate) fn remember(&mut self, remembered: Remembered) {
        self.forget(remembered.id);
        self.places.insert(remembered.id, self.next);
        let held = self.tenants.entry(remembered.tenant).or_default();
        *held = held.saturating_add(remembered.weight());
        self.oldest_first.insert(self.next, remembered);
        self.next = self.next.wrapping_add(1);
    }

    /// Drops up to `most` replies whose window has passed.
    pub(crate) fn expire(&mut self, at: Stamp, window: Nanos, most: usize) {
        for _ in 0..most {
            let Some(oldest) = self.oldest_first.first_entry() else { return };
            if !expired(oldest.get(), at, window) {
                return;
            }
            let id = oldest.get().id;
            self.forget(id);
        }
    }

    /// Drops the session's replies below a sequence.
    pub(crate) fn settle(&mut self, session: u128, below: u64) {
        let ids = RequestId { session, seq: 0 }..RequestId { session, seq: below };
        while let Some(id) = self.places.range(ids.clone()).next().map(|(id, _)| *id) {
            self.forget(id);
        }
    }

    /// All replies held, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Remembered> {
        self.oldest_first.values()
    }

    fn get(&self, id: RequestId) -> Option<&Remembered> {
        self.oldest_first.get(self.places.get(&id)?)
    }

    fn forget(&mut self, id: RequestId) {
        let Some(place) = self.places.remove(&id) else { return };
        let Some(remembered) = self.oldest_first.remove(&place) else { return };
        if let Some(held) = self.tenants.get_mut(&remembered.tenant) {
            *held = held.saturating_sub(remembered.weight());
            if *held == 0 {
                self.tenants.remove(&remembered.tenant);
            }
        }
    }
}

fn expired(remembered: &Remembered, at: Stamp, window: Nanos) -> bool {
    at.since(remembered.at) >= window
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Nanos = Nanos(10);

    fn reply(seq: u64, at: u64) -> Remembered {
        Remembered {
            id: RequestId { session: 1, seq },
            at: Stamp(at),
            fingerprint: 5,
            tenant: TenantId(seq % 2),
            reply: Reply::Reset(u32::try_from(at).expect("small")),
        }
    }

    #[test]
    fn a_reply_is_remembered_for_exactly_the_window() {
        let mut replies = Replies::default();
        replies.remember(reply(1, 100));
        let id = RequestId { session: 1, seq: 1 };
        assert_eq!(replies.recall(id, 5, Stamp(109), WINDOW), Some(Reply::Reset(100)));
        assert_eq!(replies.recall(id, 6, Stamp(109), WINDOW), Some(Reply::Refused(Refusal::RequestIdReused)));
        assert_eq!(replies.recall(id, 5, Stamp(110), WINDOW), None);
        replies.expire(Stamp(109), WINDOW, 9);
        assert_eq!(replies.of(TenantId(1)), 1);
        replies.expire(Stamp(110), WINDOW, 9);
        assert_eq!((replies.of(TenantId(1)), replies.iter().count()), (0, 0));
    }

    #[test]
    fn an_id_used_anew_after_its_window_is_held_once() {
        let mut replies = Replies::default();
        replies.remember(reply(1, 100));
        replies.remember(reply(2, 101));
        replies.remember(reply(1, 110));
        assert_eq!(replies.of(TenantId(1)), 1);
        assert!(replies.iter().eq([&reply(2, 101), &reply(1, 110)]));
        replies.expire(Stamp(115), WINDOW, 9);
        assert!(replies.iter().eq([&reply(1, 110)]));
        assert_eq!(replies.recall(reply(1, 0).id, 5, Stamp(119), WINDOW), Some(Reply::Reset(110)));
    }

    #[test]
    fn settled_replies_are_dropped_and_no_others() {
        let mut replies = Replies::default();
        for seq in 1..=4 {
            replies.remember(reply(seq, 100));
        }
        let other = Remembered { id: RequestId { session: 2, seq: 1 }, ..reply(1, 100) };
        replies.remember(other.clone());
        replies.settle(1, 3);
        assert!(replies.iter().eq([&reply(3, 100), &reply(4, 100), &other]));
        assert_eq!((replies.of(TenantId(0)), replies.of(TenantId(1))), (1, 2));
        replies.expire(Stamp(110), WINDOW, 9);
        assert_eq!(replies.iter().count(), 0);
    }

    #[test]
    fn no_more_expire_at_once_than_asked() {
        let mut replies = Replies::default();
        for seq in 0..10 {
            replies.remember(reply(seq, 100));
        }
        replies.expire(Stamp(200), WINDOW, 3);
        assert_eq!(replies.iter().count(), 7);
    }
}
