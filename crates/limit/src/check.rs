//! A request as every front door hands it over, and the answer every front door renders.

use std::cmp::Reverse;
use std::sync::Arc;

use leasehold_model::{Nanos, RequestId, RulesVersion};

use crate::rules::{OnUnavailable, Rule};
use crate::{Decision, Limit, RetryAfter};

/// When to come back after something that nobody could decide: about the time in which a new owner takes over.
pub const RETRY_UNDECIDED: Nanos = Nanos::from_secs(1);

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

impl Verdict {
    /// As every body, header, table and metric spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::OverLimit => "over_limit",
            Self::Unavailable => "unavailable",
        }
    }
}

/// The answer to a [`Request`].
#[derive(Clone, Debug)]
pub struct Answer {
    /// The whole.
    pub verdict: Verdict,
    /// One for each descriptor, in request order.
    pub descriptors: Vec<DescriptorAnswer>,
    /// Some limit could not be asked, and what is set aside or declared for that case stands in.
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
    /// Who decided it. Says nothing where the outcome is no decision.
    pub source: Source,
}

/// Who decided what a limit says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Source {
    /// The owner of the counter.
    #[default]
    Owner,
    /// An edge, with tokens that the owner lent it.
    Lease,
    /// An edge that remembers a denial of the owner, which still holds.
    DenyCache,
    /// An edge that could not ask, by the share that is set aside for that.
    Fallback,
}

impl Source {
    /// As every body, table, trace and metric spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Lease => "lease",
            Self::DenyCache => "deny_cache",
            Self::Fallback => "fallback",
        }
    }
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

    /// Whether something stands in for the owner, who could not be asked.
    #[must_use]
    pub fn degraded(&self) -> bool {
        match self.outcome {
            Outcome::Decided(_) => self.source == Source::Fallback,
            Outcome::Unavailable => true,
            Outcome::Unidentified => false,
        }
    }

    /// What the counter answered, if it was asked.
    #[must_use]
    pub fn decision(&self) -> Option<&Decision> {
        match &self.outcome {
            Outcome::Decided(decision) => Some(decision),
            Outcome::Unavailable | Outcome::Unidentified => None,
        }
    }

    /// When this limit would admit, if it stands in the way; `None` if it doesn't.
    #[must_use]
    pub fn retry_after(&self) -> Option<RetryAfter> {
        if !self.violated() {
            return None;
        }
        match self.outcome {
            Outcome::Decided(decision) => decision.retry_after,
            // The same request lacks the same attribute at any time.
            Outcome::Unidentified => Some(RetryAfter::Never),
            Outcome::Unavailable => Some(RetryAfter::In(RETRY_UNDECIDED)),
        }
    }

    /// Units left; 0 where no counter answered.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.decision().map_or(0, |decision| decision.remaining)
    }

    /// Sorts limits by how much they shape what a caller may do next, the one that does most first: violated ones before
    /// others and of those the one that takes longest, then the one with the fewest units left.
    #[must_use]
    pub fn rank(&self) -> impl Ord + Copy + use<> {
        (Reverse(self.retry_after()), self.remaining())
    }
}

impl DescriptorAnswer {
    /// The limit that a caller should mind: the first in [`rank`](RuleAnswer::rank), then in rule order.
    ///
    /// Shadow rules don't count, and neither do limits that could not be asked and let pass.
    #[must_use]
    pub fn binding(&self) -> Option<&RuleAnswer> {
        binding(self.matched.iter())
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

    /// When every violated limit would admit: the longest of their waits, or never if one of them never will.
    ///
    /// `None` exactly when the request is allowed.
    #[must_use]
    pub fn retry_after(&self) -> Option<RetryAfter> {
        if self.verdict == Verdict::Allowed {
            return None;
        }
        let longest = self.matched().filter_map(RuleAnswer::retry_after).max();
        // A refusal always says when to come back, even if no limit of it does.
        Some(longest.unwrap_or(RetryAfter::In(RETRY_UNDECIDED)))
    }

    /// The limit that a caller should mind, of all descriptors: see [`DescriptorAnswer::binding`].
    #[must_use]
    pub fn binding(&self) -> Option<&RuleAnswer> {
        binding(self.matched())
    }
}

fn binding<'a>(answers: impl Iterator<Item = &'a RuleAnswer>) -> Option<&'a RuleAnswer> {
    let enforced = answers.filter(|answer| !answer.rule.shadow);
    enforced
        .filter(|answer| answer.violated() || answer.decision().is_some())
        .min_by_key(|answer| answer.rank())
}

#[cfg(test)]
mod tests;
