//! Rules: which requests a limit applies to and by what they are told apart.
//!
//! A domain's rules are one YAML file, validated as a whole; a book holds all domains and is swapped as a whole.
//! Reading goes text → `yaml` (a tree with places) → `file`, `rule`, `numbers`, `pattern`, `overrides` (checked walks
//! that note every mistake) → [`Domain`] → [`RuleBook`], which finds the rules of a request.

mod book;
mod error;
mod fields;
mod file;
mod numbers;
mod overrides;
mod pattern;
pub mod rate;
mod rule;
mod yaml;

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_model::{Key, TenantId};

pub use self::book::{Matched, RuleBook};
pub use self::error::RuleError;
pub use self::fields::{ATTRIBUTE_NAME_BYTES_MAX, DOMAIN_BYTES_MAX, is_attribute_name, is_domain_name};
pub use self::file::{OVERRIDES_MAX, RULES_MAX, parse};
pub use self::pattern::Pattern;
use self::rule::PER_MAX;
pub use self::yaml::FILE_BYTES_MAX;
use crate::{Limit, RuleKeys};

/// How mistakes name a text that was sent to a server rather than read from a file.
pub const SENT_TEXT: &str = "rules";

/// One rule, checked.
#[derive(Clone, Debug)]
pub struct Rule {
    /// `[A-Za-z][A-Za-z0-9_.-]{0,63}`, unique in its domain.
    pub name: Arc<str>,
    /// The domain it belongs to.
    pub domain: Arc<str>,
    /// The domain's owner of counters.
    pub tenant: TenantId,
    /// All must hold.
    pub when: Vec<Condition>,
    /// One counter for each distinct combination of these values.
    pub per: Vec<Dimension>,
    /// The numbers.
    pub limit: Arc<Limit>,
    /// Other numbers for particular values, by the key of their counter.
    pub overrides: BTreeMap<Key, Override>,
    /// The keys of its counters.
    pub keys: RuleKeys,
    /// Whether edges may hold tokens.
    pub lease: Lease,
    /// Share by which the limit may be exceeded, in parts per million. 0 = never.
    pub max_overshoot_ppm: u32,
    /// Who counts together.
    pub scope: Scope,
    /// What happens when it can't be decided.
    pub on_unavailable: OnUnavailable,
    /// Decide and record, don't enforce.
    pub shadow: bool,
}

/// A condition on one attribute. An absent attribute fulfils none.
#[derive(Clone, Debug)]
pub struct Condition {
    /// The attribute's name.
    pub attribute: Box<str>,
    /// What its value must be.
    pub pattern: Pattern,
}

/// An attribute that tells counters apart.
#[derive(Clone, Debug)]
pub struct Dimension {
    /// The attribute's name.
    pub attribute: Box<str>,
    /// What a request without it means.
    pub absent: Absent,
}

/// What a request without the attribute means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Absent {
    /// The rule doesn't apply.
    #[default]
    Skip,
    /// All such requests share one counter (which is not that of an empty value).
    Share,
    /// The request is refused: it can't be told apart.
    Deny,
}

/// Whether edges may hold tokens of a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lease {
    /// Lease where it pays.
    #[default]
    Auto,
    /// Always ask the owner.
    Never,
}

/// Who counts together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// All regions.
    #[default]
    Global,
    /// Every region for itself.
    Region,
}

/// What happens when a limit can't be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnUnavailable {
    /// Let it pass, marked degraded.
    #[default]
    Allow,
    /// Refuse it, marked degraded.
    Deny,
    /// Spend the edge's escrowed share; where there is none, as `Deny`.
    Local,
}

/// Other numbers for particular values of a rule's attributes.
#[derive(Clone, Debug)]
pub struct Override {
    /// The values, in the order of the rule's `per`.
    pub values: Vec<Box<[u8]>>,
    /// The numbers.
    pub limit: Arc<Limit>,
}

/// One domain's rules, validated as a whole.
#[derive(Clone, Debug)]
pub struct Domain {
    /// Its name.
    pub name: Arc<str>,
    /// In file order.
    pub rules: Vec<Arc<Rule>>,
    /// The text it came from, kept so that it can be handed out and compared.
    pub source: Arc<str>,
}
