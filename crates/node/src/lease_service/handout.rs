//! The rules in force as messages for an edge, one at a time: a node has many edges, and sets may be large.

use std::sync::Arc;

use leasehold_wire::lease::{LeaseResponse, RULES_PER_MESSAGE_BYTES_MAX, RuleSet};

use super::Home;
use crate::rules::Active;

/// What is left to be told of a rule set.
#[derive(Debug)]
pub(super) struct Handout {
    active: Arc<Active>,
    home: Home,
    /// Rule files told.
    told: usize,
    ended: bool,
}

impl Handout {
    pub(super) const fn new(active: Arc<Active>, home: Home) -> Self {
        Self { active, home, told: 0, ended: false }
    }

    /// Whether everything is told.
    pub(super) const fn is_over(&self) -> bool {
        self.ended
    }

    /// The next message: as many files as fit, one at least.
    pub(super) fn next(&mut self) -> LeaseResponse {
        let home_shards = if self.told == 0 { self.home.here.clone() } else { Vec::new() };
        let (mut domains, mut bytes) = (Vec::new(), 0);
        for domain in self.active.book.domains.values().skip(self.told) {
            bytes += domain.source.len();
            if bytes > RULES_PER_MESSAGE_BYTES_MAX && !domains.is_empty() {
                break;
            }
            domains.push(domain.source.to_string());
        }
        self.told += domains.len();
        self.ended = self.told >= self.active.book.domains.len();
        LeaseResponse::Rules(RuleSet {
            version: self.active.book.version,
            since: self.active.book.since,
            secret: self.active.secret.to_bytes(),
            domains,
            more: !self.ended,
            shards: self.home.shards,
            home_shards,
        })
    }
}

#[cfg(test)]
mod tests;
