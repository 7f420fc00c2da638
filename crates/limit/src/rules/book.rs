//! All rules in force, and which of them apply to a request.
//!
//! Invariant: what applies depends on the domain, the rules and the attributes that rules name, on nothing else; and a
//! request that asks for the same counter finds the same key, whichever way it came.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_model::{Key, RulesVersion, Stamp};

use super::file::domain_place;
use super::{Absent, Domain, Escrow, Rule, RuleError};
use crate::Limit;
use crate::check::Attribute;

/// All rules in force: every domain, one version.
#[derive(Clone, Debug, Default)]
pub struct RuleBook {
    /// Counted up by one at each change.
    pub version: RulesVersion,
    /// When they came into force, on the counters' time line; [`Stamp::ZERO`]: they always were.
    pub since: Stamp,
    /// By name.
    pub domains: BTreeMap<Arc<str>, Domain>,
}

/// A rule that applies to a descriptor, with the counter it is charged to.
#[derive(Clone, Debug)]
pub struct Matched {
    /// The rule.
    pub rule: Arc<Rule>,
    /// Its numbers for these values, as declared.
    pub limit: Arc<Limit>,
    /// What is set aside of them. `None`: nothing.
    pub escrow: Option<Escrow>,
    /// The counter; `None` when an attribute is absent and the rule says to refuse such requests.
    pub key: Option<Key>,
}

impl RuleBook {
    /// A book of these domains, each with the name of its file.
    ///
    /// # Errors
    /// A domain that two files define.
    pub fn new(version: RulesVersion, domains: Vec<(String, Domain)>) -> Result<Self, Vec<RuleError>> {
        let mut files: BTreeMap<Arc<str>, String> = BTreeMap::new();
        let mut book = Self { version, since: Stamp::ZERO, domains: BTreeMap::new() };
        let mut errors = Vec::new();
        for (file, domain) in domains {
            if let Some(first) = files.get(&domain.name) {
                let place = domain_place(&domain.source);
                errors.push(RuleError {
                    file,
                    line: place.line,
                    column: place.column,
                    field: "domain".into(),
                    message: format!("the domain {} is defined by {first} already", domain.name),
                    fix: "put all rules of a domain into one file, or name this one differently".into(),
                });
                continue;
            }
            files.insert(domain.name.clone(), file);
            book.domains.insert(domain.name.clone(), domain);
        }
        if errors.is_empty() { Ok(book) } else { Err(errors) }
    }

    /// Every rule of `domain` that applies to these attributes, in rule order. `None`: no such domain.
    #[must_use]
    pub fn matching(&self, domain: &str, attributes: &[Attribute<'_>]) -> Option<Vec<Matched>> {
        let domain = self.domains.get(domain)?;
        Some(domain.rules.iter().filter_map(|rule| Rule::matched(rule, attributes)).collect())
    }
}

impl Matched {
    /// What the counter's owner decides by: the declared numbers, less what is set aside of them.
    #[must_use]
    pub fn owner(&self) -> &Arc<Limit> {
        self.escrow.as_ref().map_or(&self.limit, |escrow| &escrow.owner)
    }
}

impl Rule {
    /// This rule with its counter for these attributes. `None`: it doesn't apply.
    ///
    /// An absent attribute that says `skip` beats one that says `deny`: what doesn't apply can't refuse.
    #[must_use]
    pub fn matched(rule: &Arc<Self>, attributes: &[Attribute<'_>]) -> Option<Matched> {
        if !rule.applies(attributes) {
            return None;
        }
        let key = rule.key(attributes)?;
        let special = match key {
            Some(key) if !rule.overrides.is_empty() => rule.overrides.get(&key),
            Some(_) | None => None,
        };
        let (limit, escrow) =
            special.map_or((&rule.limit, &rule.escrow), |special| (&special.limit, &special.escrow));
        Some(Matched { rule: rule.clone(), limit: limit.clone(), escrow: escrow.clone(), key })
    }

    fn applies(&self, attributes: &[Attribute<'_>]) -> bool {
        self.when.iter().all(|condition| {
            value(attributes, &condition.attribute).is_some_and(|value| condition.pattern.matches(value))
        })
    }

    /// `None`: an absent attribute makes it not apply. `Some(None)`: one makes it refuse.
    fn key(&self, attributes: &[Attribute<'_>]) -> Option<Option<Key>> {
        let mut key = self.keys.start();
        let mut refused = false;
        for dimension in &self.per {
            let value = value(attributes, &dimension.attribute);
            match (value, dimension.absent) {
                (None, Absent::Skip) => return None,
                (None, Absent::Deny) => refused = true,
                (None, Absent::Share) | (Some(_), _) => key.push(value),
            }
        }
        Some((!refused).then(|| key.finish()))
    }
}

/// The value of an attribute; of two with one name the first counts.
#[inline]
fn value<'a>(attributes: &[Attribute<'a>], name: &str) -> Option<&'a [u8]> {
    attributes.iter().find(|attribute| attribute.name == name).map(|attribute| attribute.value)
}
