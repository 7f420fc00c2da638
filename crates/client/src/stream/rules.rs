//! The rules that a node hands out: put together from their messages, parsed, and kept for whoever decides by them.
//!
//! Invariant: a set is put in force whole or not at all; one that isn't understood leaves the old one in force, and an older
//! one of the same cluster never replaces a newer.

use std::sync::Arc;

use leasehold_decide::Region;
use leasehold_limit::KeySecret;
use leasehold_limit::rules::{RuleBook, RuleError, SENT_TEXT, parse};
use leasehold_model::{RulesVersion, Stamp};
use leasehold_wire::lease::{DOMAINS_MAX, RuleSet};
use tokio::sync::watch;

/// Bytes of a set's rule files in all. A larger one is not taken, so that a broken node can't fill an edge's memory.
const RULES_BYTES_MAX: usize = 64 << 20;

/// Rules as a node handed them out.
#[derive(Clone, Debug)]
pub struct KnownRules {
    /// By domain.
    pub book: Arc<RuleBook>,
    /// Keys the names of their counters.
    pub secret: KeySecret,
    /// The region of the node, which an edge counts in as well.
    pub region: Option<Region>,
    /// Shards that counters are spread over; 0: there is only one.
    pub shards: u32,
    identity: [u8; 16],
}

impl KnownRules {
    /// Rules that no node handed out: the texts of rule files, for counters whose names `secret` keys.
    ///
    /// # Errors
    /// Every mistake in them.
    pub fn of(
        version: RulesVersion,
        secret: [u8; 16],
        domains: impl IntoIterator<Item = String>,
    ) -> Result<Self, Vec<RuleError>> {
        let domains = domains.into_iter().collect();
        let since = Stamp::ZERO;
        let home_shards = Vec::new();
        Self::read(&RuleSet { version, since, secret, domains, shards: 0, home_shards, more: false }, "")
    }

    /// Reads a whole set, which a node in `region` handed out.
    ///
    /// # Errors
    /// Every mistake in it: it was made for a later version, which knows more.
    pub(super) fn read(set: &RuleSet, region: &str) -> Result<Self, Vec<RuleError>> {
        let secret = KeySecret::new(set.secret);
        let mut domains = Vec::with_capacity(set.domains.len());
        let mut mistakes = Vec::new();
        for text in &set.domains {
            match parse(SENT_TEXT, text, &secret) {
                Ok(domain) => domains.push((SENT_TEXT.to_owned(), domain)),
                Err(found) => mistakes.extend(found),
            }
        }
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let book = RuleBook { since: set.since, ..RuleBook::new(set.version, domains)? };
        let region = Region::new(&secret, region, set.shards, set.home_shards.iter().copied());
        Ok(Self { book: Arc::new(book), secret, region, shards: set.shards, identity: set.secret })
    }

    /// Whether these replace those that are known.
    fn replace(&self, known: &Self) -> bool {
        self.identity != known.identity
            || self.book.version > known.book.version
            || self.book.version == known.book.version
                && (self.book.since != known.book.since
                    || self.region != known.region
                    || self.shards != known.shards)
    }
}

/// Puts rules in force unless newer ones are. Returns whether they are in force now and weren't before.
pub(super) fn publish(rules: &watch::Sender<Option<Arc<KnownRules>>>, next: KnownRules) -> bool {
    rules.send_if_modified(|known| {
        if known.as_ref().is_some_and(|known| !next.replace(known)) {
            return false;
        }
        *known = Some(Arc::new(next));
        true
    })
}

/// Puts sets together from their messages.
#[derive(Debug, Default)]
pub(super) struct Parts {
    begun: Option<RuleSet>,
}

/// A set that isn't taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PartsError {
    #[error("rules of version {began} go on as those of version {goes_on}")]
    Mixed { began: RulesVersion, goes_on: RulesVersion },
    #[error("rules of more than {DOMAINS_MAX} domains, or {RULES_BYTES_MAX} bytes")]
    TooMany,
}

impl Parts {
    /// Adds a message; returns the set that it completes.
    pub(super) fn add(&mut self, part: RuleSet) -> Result<Option<RuleSet>, PartsError> {
        let set = match self.begun.take() {
            None => part,
            Some(begun) if begun.version != part.version => {
                return Err(PartsError::Mixed { began: begun.version, goes_on: part.version });
            }
            Some(mut begun) => {
                begun.domains.extend(part.domains);
                begun.more = part.more;
                begun
            }
        };
        let bytes: usize = set.domains.iter().map(String::len).sum();
        if set.domains.len() > DOMAINS_MAX || bytes > RULES_BYTES_MAX {
            return Err(PartsError::TooMany);
        }
        if set.more {
            self.begun = Some(set);
            return Ok(None);
        }
        Ok(Some(set))
    }
}

#[cfg(test)]
mod tests;
