//! Rules: which requests a limit applies to and by what they are told apart.
//!
//! A domain's rules are one YAML file, validated as a whole; a book holds all domains and is swapped as a whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_model::{Key, RulesVersion, TenantId};

use crate::check::Attribute;
use crate::{KeySecret, Limit};

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
    /// Other numbers for particular values, in the order of `per`.
    pub overrides: BTreeMap<Vec<Box<[u8]>>, Arc<Limit>>,
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

/// What a value must look like.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// These bytes.
    Exact(Box<[u8]>),
    /// Anything that starts so.
    Prefix(Box<[u8]>),
    /// Any of these patterns.
    OneOf(Vec<Pattern>),
    /// An address in any of these networks.
    Cidr(Vec<ipnet::IpNet>),
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

/// All rules in force: every domain, one version.
#[derive(Clone, Debug, Default)]
pub struct RuleBook {
    /// Counted up by one at each change.
    pub version: RulesVersion,
    /// By name.
    pub domains: BTreeMap<Arc<str>, Domain>,
}

/// A mistake in a rule file, where it is, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// The file, as the caller named it.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// From 1.
    pub column: usize,
    /// Path of the field, such as `limits[2].burst`; empty for the file as a whole.
    pub field: String,
    /// What is wrong.
    pub message: String,
    /// What to write instead; empty when the message says it.
    pub fix: String,
}

/// A rule that applies to a descriptor, with the counter it is charged to.
#[derive(Clone, Debug)]
pub struct Matched {
    /// The rule.
    pub rule: Arc<Rule>,
    /// Its numbers for these values.
    pub limit: Arc<Limit>,
    /// The counter; `None` when an attribute is absent and the rule says to refuse such requests.
    pub key: Option<Key>,
}

/// Reads and validates one domain's rule file.
///
/// # Errors
/// Every mistake found, in the order of the file; nothing of a bad file is used.
pub fn parse(_file: &str, _text: &str, _secret: &KeySecret) -> Result<Domain, Vec<RuleError>> {
    todo!()
}

impl RuleBook {
    /// A book of these domains.
    ///
    /// # Errors
    /// A domain that two files define.
    pub fn new(_version: RulesVersion, _domains: Vec<(String, Domain)>) -> Result<Self, Vec<RuleError>> {
        todo!()
    }

    /// Every rule of `domain` that applies to these attributes, in rule order. `None`: no such domain.
    #[must_use]
    pub fn matching(
        &self,
        _domain: &str,
        _attributes: &[Attribute<'_>],
        _secret: &KeySecret,
    ) -> Option<Vec<Matched>> {
        todo!()
    }
}
