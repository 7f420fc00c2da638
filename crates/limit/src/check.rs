//! A request as every front door hands it over, and the answer every front door renders.

use std::cmp::Reverse;
use std::sync::Arc;

use leasehold_model::{Nanos, RequestId, RulesVersion};

use crate::rules::{OnUnavailable, Rule};
use crate::{Decision, Limit, RetryAfter};

/// One attribute of a request: a name and raw bytes, both case-sensitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// As rules spell it in `when` and `per`.
    pub name: &'a str,
    /// Never decoded, trimmed or folded.
    pub value: &'a [u8],
}

/// One thing to be counted: attributes, and what it costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor<'a> {
    /// In the caller's order. Of two with one name the first counts.
    pub attributes: Vec<Attribute<'a>>,
    /// Units; 0 peeks.
    pub cost: u64,
    /// Numbers sent along with the request (Envoy's override): they replace every rule for this descriptor.
    pub limit_override: Option<Limit>,
}

/// One request: charged to every limit that matches any of its descriptors, or to none of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The namespace of rules.
    pub domain: &'a str,
    /// At least one.
    pub descriptors: Vec<Descriptor<'a>>,
    /// Present: a retry under the same id is charged once and gets the same answer.
    pub request_id: Option<RequestId>,
}

/// What to do with a request as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Go ahead: everything was charged (or, for a peek, could be).
    Allowed,
    /// At least one enforced limit refused; nothing was charged.
    OverLimit,
    /// It could not be decided and a rule declares `on_unavailable: deny`; nothing was charged.
    Unavailable,
}

/// The answer to a [`Request`].
#[derive(Clone, Debug)]
pub struct Answer {
    /// The whole.
    pub verdict: Verdict,
    /// One for each descriptor, in request order.
    pub descriptors: Vec<DescriptorAnswer>,
    /// Some limit could not be asked and its declared failure behaviour stands in.
    pub degraded: bool,
    /// The rules that decided.
    pub rules_version: RulesVersion,
}

/// What the limits said of one descriptor.
#[derive(Clone, Debug, Default)]
pub struct DescriptorAnswer {
    /// Every rule that matched, in rule order; empty when none did.
    pub matched: Vec<RuleAnswer>,
}

/// What one limit said.
#[derive(Clone, Debug)]
pub struct RuleAnswer {
    /// The rule that matched.
    pub rule: Arc<Rule>,
    /// Its numbers for these values: the rule's own or an override's.
    pub limit: Arc<Limit>,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of asking one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The counter answered.
    Decided(Decision),
    /// It could not be asked; the rule's `on_unavailable` stands in.
    Unavailable,
    /// An attribute that tells counters apart is absent, and the rule refuses such requests.
    Unidentified,
}

impl RuleAnswer {
    /// Whether this limit refused, shadow rules included.
    #[must_use]
    pub fn refused(&self) -> bool {
        match self.outcome {
            Outcome::Decided(decision) => !decision.allowed,
            Outcome::Unavailable => self.rule.on_unavailable != OnUnavailable::Allow,
            Outcome::Unidentified => true,
        }
    }

    /// Whether this limit stands in the way: it refused and isn't a shadow rule.
    #[must_use]
    pub fn violated(&self) -> bool {
        !self.rule.shadow && self.refused()
    }

    /// What the counter answered, if it was asked.
    #[must_use]
    pub fn decision(&self) -> Option<&Decision> {
        match &self.outcome {
            Outcome::Decided(decision) => Some(decision),
            Outcome::Unavailable | Outcome::Unidentified => None,
        }
    }
}

impl DescriptorAnswer {
    /// The limit that shapes what a caller may do next: see [`Answer::binding`].
    #[must_use]
    pub fn binding(&self) -> Option<&RuleAnswer> {
        binding(self.matched.iter())
    }

    /// When this descriptor's limits would all admit: see [`Answer::retry_after`].
    #[must_use]
    pub fn retry_after(&self) -> Option<RetryAfter> {
        retry_after(self.matched.iter())
    }

    /// Whether some limit stands in the way of this descriptor.
    #[must_use]
    pub fn violated(&self) -> bool {
        self.matched.iter().any(RuleAnswer::violated)
    }
}

impl Answer {
    /// Every limit that spoke, over all descriptors.
    pub fn matched(&self) -> impl Iterator<Item = &RuleAnswer> {
        self.descriptors.iter().flat_map(|descriptor| &descriptor.matched)
    }

    /// Every limit that stands in the way.
    pub fn violated(&self) -> impl Iterator<Item = &RuleAnswer> {
        self.matched().filter(|answer| answer.violated())
    }

    /// Every shadow rule that would have stood in the way.
    pub fn shadow_denied(&self) -> impl Iterator<Item = &RuleAnswer> {
        self.matched().filter(|answer| answer.rule.shadow && answer.refused())
    }

    /// When every violated limit would admit: the longest of their waits, or never if one of them never will.
    ///
    /// `None` when none is violated, and when the only ones that are could not be asked: nobody knows then.
    #[must_use]
    pub fn retry_after(&self) -> Option<RetryAfter> {
        retry_after(self.matched())
    }

    /// The limit that shapes what a caller may do next: a violated one before others, then the one with the fewest units
    /// left, then the one that gives the next unit latest, then the first. Shadow rules and limits that could not be
    /// asked don't count.
    #[must_use]
    pub fn binding(&self) -> Option<&RuleAnswer> {
        binding(self.matched())
    }
}

fn retry_after<'a>(answers: impl Iterator<Item = &'a RuleAnswer>) -> Option<RetryAfter> {
    let waits = answers.filter(|answer| answer.violated()).filter_map(|answer| match answer.outcome {
        Outcome::Decided(decision) => decision.retry_after,
        // The same request lacks the same attribute at any time.
        Outcome::Unidentified => Some(RetryAfter::Never),
        Outcome::Unavailable => None,
    });
    waits.max_by_key(|wait| match wait {
        RetryAfter::In(wait) => (false, *wait),
        RetryAfter::Never => (true, Nanos::MAX),
    })
}

fn binding<'a>(answers: impl Iterator<Item = &'a RuleAnswer>) -> Option<&'a RuleAnswer> {
    let decided = answers.filter(|answer| !answer.rule.shadow);
    let ranked = decided.filter_map(|answer| {
        let decision = answer.decision()?;
        Some(((decision.allowed, decision.remaining, Reverse(decision.next_unit_after)), answer))
    });
    ranked.min_by_key(|(rank, _)| *rank).map(|(_, answer)| answer)
}

#[cfg(test)]
mod tests;
