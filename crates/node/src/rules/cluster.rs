//! Rules that the cluster keeps: every node follows the control group's, whole versions in their order.
//!
//! Invariant: what this node can't read leaves the set before it in force, and is an error in the log: the text was
//! validated by the node that proposed it, so that builds must differ.

use std::sync::Arc;

use leasehold_control::{Control, RulesChange};
use leasehold_decide::Region;
use leasehold_limit::KeySecret;
use leasehold_limit::rules::RuleBook;
use leasehold_model::{RulesVersion, ShardId};
use tokio::sync::watch;

use super::source::Source;
use super::{LoadError, RulesInForce, domains};
use crate::metrics::Metrics;

/// The rules of a node in a cluster.
#[derive(Debug)]
pub(crate) struct ClusterRules {
    in_force: Arc<RulesInForce>,
    /// The region of this node; may be empty.
    region: String,
    /// The last version that was looked at, in force or refused. `None`: the control group's are not known yet.
    followed: watch::Sender<Option<RulesVersion>>,
}

/// Rules that a cluster is created with, by the leader of its control group: domains and their texts, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FirstRules(Vec<(Arc<str>, Arc<str>)>);

impl ClusterRules {
    /// Nothing is known yet.
    pub(crate) fn new(
        cluster: &str,
        secret: KeySecret,
        metrics: Arc<Metrics>,
        fallback_domain: Option<String>,
        region: String,
    ) -> Self {
        let source = format!("cluster {cluster}");
        let in_force = RulesInForce::unknown(source, secret, metrics, fallback_domain);
        Self { in_force: Arc::new(in_force), region, followed: watch::Sender::new(None) }
    }

    /// The rules in force.
    pub(crate) fn in_force(&self) -> &Arc<RulesInForce> {
        &self.in_force
    }

    /// Tells the version that was followed last.
    pub(crate) fn followed(&self) -> watch::Receiver<Option<RulesVersion>> {
        self.followed.subscribe()
    }

    /// Whether a version, or a later one, was looked at.
    pub(crate) fn has_followed(&self, version: RulesVersion) -> bool {
        self.followed.borrow().is_some_and(|followed| followed >= version)
    }

    /// Puts the control group's rules in force if they are newer. Takes as long as reading all of them.
    pub(crate) fn follow(&self, control: &Control) {
        let version = control.rules_version();
        let Some(cluster) = control.cluster() else { return };
        if self.has_followed(version) {
            return;
        }
        let secret = KeySecret::new(cluster.secret);
        let region = Region::new(&secret, &self.region, cluster.shards, at_home(control, &self.region));
        let texts = control.rules().iter().map(|(domain, rules)| (domain.to_string(), &*rules.text));
        match self.in_force.build(version, control.rules_since(), &secret, region, texts) {
            Ok((first, _)) if self.in_force.active().is_none() => {
                self.in_force.begin(first);
                tracing::info!(%version, "the cluster's rules are in force");
            }
            Ok((next, _)) => drop(self.in_force.accept(next)),
            Err(mistakes) => {
                self.in_force.refuse(mistakes);
                tracing::error!(
                    %version,
                    "the cluster's rules are not understood here: run the same version of the program on all nodes"
                );
            }
        }
        self.followed.send_replace(Some(version));
    }
}

/// The shards at home in a region. Homes never change, so that counters keep their places from one rule set to the next.
fn at_home<'c>(control: &'c Control, region: &'c str) -> impl Iterator<Item = ShardId> + 'c {
    let shards = (0..).map(ShardId).zip(&control.map().shards);
    let here = shards.filter(move |(_, placement)| placement.home.as_deref() == Some(region));
    here.map(|(shard, _)| shard)
}

impl FirstRules {
    /// Reads and checks them. Blocks on the disk.
    ///
    /// # Errors
    /// They can't be read or are wrong: a node doesn't start with such.
    pub(crate) fn read(source: &Source, secret: &KeySecret) -> Result<Self, LoadError> {
        let files = source.read().map_err(LoadError::Read)?;
        let texts = files.iter().map(|file| (file.path.display().to_string(), &*file.text));
        let book = domains(texts, secret).and_then(|domains| RuleBook::new(RulesVersion(0), domains));
        let domains = book.map_err(LoadError::Mistakes)?.domains;
        Ok(Self(domains.into_values().map(|domain| (domain.name, domain.source)).collect()))
    }

    /// Domains and their texts.
    pub(crate) fn texts(&self) -> &[(Arc<str>, Arc<str>)] {
        &self.0
    }

    /// Whether the cluster is still about to have them: it has none or some of them, and nothing else was ever changed.
    pub(crate) fn are_awaited(&self, control: &Control) -> bool {
        let known = control.rules();
        let changes = usize::try_from(control.rules_version().0).unwrap_or(usize::MAX);
        changes == known.len() && known.len() < self.0.len() && self.hold_all_of(control)
    }

    /// The changes that the cluster still lacks of these, one after the other. Each counts only if nobody else changed
    /// rules before it.
    pub(crate) fn missing(&self, control: &Control) -> Vec<RulesChange> {
        let missing = self.0.iter().filter(|(domain, _)| !control.rules().contains_key(domain));
        let change = |(expected, (domain, text)): (u64, &(Arc<str>, Arc<str>))| RulesChange {
            domain: Arc::clone(domain),
            text: Some(Arc::clone(text)),
            expected: Some(RulesVersion(expected)),
            by: "the configuration".into(),
        };
        (control.rules_version().0..).zip(missing).map(change).collect()
    }

    fn hold_all_of(&self, control: &Control) -> bool {
        let held = |domain: &Arc<str>| self.0.iter().find(|(name, _)| name == domain).map(|(_, text)| text);
        control.rules().iter().all(|(domain, rules)| held(domain) == Some(&rules.text))
    }

    /// Whether the cluster has exactly these.
    pub(crate) fn are_those_of(&self, control: &Control) -> bool {
        control.rules().len() == self.0.len() && self.hold_all_of(control)
    }
}

#[cfg(test)]
mod tests;
