//! Rules: which requests a limit applies to and by what they are told apart.
//!
//! A domain's rules are one YAML file, validated as a whole; a book holds all domains and is swapped as a whole.
//! Reading goes text → `yaml` (a tree with places) → `file`, `rule`, `numbers`, `pattern`, `overrides` (checked walks
//! that note every mistake) → [`Domain`] → [`RuleBook`], which finds the rules of a request.

mod book;
mod error;
mod escrow;
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
pub use self::escrow::{EDGES_DEFAULT, EDGES_MAX, Escrow, LOCAL_SHARE_PPM_DEFAULT, LOCAL_SHARE_PPM_MAX};
pub use self::fields::{ATTRIBUTE_NAME_BYTES_MAX, DOMAIN_BYTES_MAX, is_attribute_name, is_domain_name};
pub use self::file::{OVERRIDES_MAX, RULES_MAX, parse};
pub use self::pattern::Pattern;
use self::rule::PER_MAX;
pub use self::yaml::FILE_BYTES_MAX;
use crate::{Limit, RuleKeys, Share};

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
    /// Part of the limit that is set aside for edges that can't reach its owner, in parts per million. 0, unless
    /// `on_unavailable` is [`OnUnavailable::Local`].
    pub local_share_ppm: u32,
    /// Among how many edges that part, and what the limit may be exceeded by, are shared out.
    pub edges: u16,
    /// What is set aside of [`Self::limit`]. `None`: nothing.
    pub escrow: Option<Escrow>,
    /// Who counts together.
    pub scope: Scope,
    /// What happens when it can't be decided.
    pub on_unavailable: OnUnavailable,
    /// Decide and record, don't enforce.
    pub shadow: bool,
}

impl Rule {
    /// What each edge may admit on top of what the owner does. `None`: nothing.
    #[must_use]
    pub fn overshoot(&self) -> Option<Share> {
        (self.max_overshoot_ppm > 0).then(|| Share::each(self.max_overshoot_ppm, u32::from(self.edges)))
    }

    /// Whether edges may have anything of their own to spend while they can't reach an owner.
    #[must_use]
    pub fn sets_aside(&self) -> bool {
        self.local_share_ppm > 0 || self.max_overshoot_ppm > 0
    }
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
    /// What is set aside of them. `None`: nothing.
    pub escrow: Option<Escrow>,
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
