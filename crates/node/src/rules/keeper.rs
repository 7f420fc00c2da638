//! Who keeps the rules, and so who is asked to change them.

use std::sync::Arc;
use std::time::Duration;

use leasehold_cluster::Cluster;
use leasehold_control::{Command, Refusal, Reply, RulesChange};
use leasehold_front::AdminError;
use leasehold_limit::rules::Domain;
use leasehold_model::RulesVersion;
use tokio::time::{Instant, timeout};

use super::{ClusterRules, FileRules, RulesInForce};
use crate::operate;

/// How long the control group may take to accept rules. Beyond, the operator is told that the outcome isn't known.
const ACCEPTED_WITHIN: Duration = Duration::from_secs(5);

/// How long an operator waits for this node to follow rules that were accepted: others need about as long. Beyond, the
/// answer is given anyway, since the rules are the cluster's.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(2);

/// Who keeps the rules.
#[derive(Clone, Debug)]
pub(crate) enum Keeper {
    /// Files that this node reads and writes.
    Files(Arc<FileRules>),
    /// The cluster, whose rules this node follows.
    Cluster {
        /// As followed here.
        rules: Arc<ClusterRules>,
        /// Who is asked to change them.
        cluster: Cluster,
    },
}

impl Keeper {
    /// The rules that are kept.
    pub(crate) fn in_force(&self) -> &Arc<RulesInForce> {
        match self {
            Self::Files(files) => files.in_force(),
            Self::Cluster { rules, .. } => rules.in_force(),
        }
    }

    /// Validates one domain's rules and has them put in force. `expected`: only if that version is in force now.
    pub(crate) async fn put(
        &self,
        text: &str,
        expected: Option<RulesVersion>,
        by: &str,
    ) -> Result<RulesVersion, AdminError> {
        match self {
            Self::Files(files) => {
                let text = text.to_owned();
                change_files(Arc::clone(files), move |files| files.put(&text, expected)).await
            }
            Self::Cluster { rules, cluster } => {
                let parsed = rules.in_force().parse(text).map_err(AdminError::Invalid)?;
                let Domain { name, source, .. } = parsed;
                let change = RulesChange { domain: name, text: Some(source), expected, by: by.into() };
                change_cluster(rules, cluster, change).await
            }
        }
    }

    /// Takes one domain's rules out of force. `expected`: only if that version is in force now.
    pub(crate) async fn remove(
        &self,
        domain: &str,
        expected: Option<RulesVersion>,
        by: &str,
    ) -> Result<RulesVersion, AdminError> {
        match self {
            Self::Files(files) => {
                let domain = domain.to_owned();
                change_files(Arc::clone(files), move |files| files.remove(&domain, expected)).await
            }
            Self::Cluster { rules, cluster } => {
                rules.in_force().knows(domain)?;
                let change = RulesChange { domain: domain.into(), text: None, expected, by: by.into() };
                change_cluster(rules, cluster, change).await
            }
        }
    }
}

async fn change_files(
    files: Arc<FileRules>,
    change: impl FnOnce(&FileRules) -> Result<RulesVersion, AdminError> + Send + 'static,
) -> Result<RulesVersion, AdminError> {
    let changed = tokio::task::spawn_blocking(move || change(&files)).await;
    let interrupted = |_| Err(AdminError::Failed("the write was interrupted; read the rules".to_owned()));
    changed.unwrap_or_else(interrupted)
}

async fn change_cluster(
    rules: &ClusterRules,
    cluster: &Cluster,
    change: RulesChange,
) -> Result<RulesVersion, AdminError> {
    let expected = change.expected;
    let accepted = cluster.command(Command::Rules(change), Instant::now() + ACCEPTED_WITHIN).await;
    match accepted.map_err(operate::unanswered)? {
        Reply::Rules(version) => {
            follow(rules, version).await;
            Ok(version)
        }
        Reply::Refused(Refusal::RulesConflict(current)) => {
            Err(AdminError::Conflict { expected: expected.unwrap_or(current), current })
        }
        reply @ (Reply::Done | Reply::Map(_) | Reply::Refused(_)) => Err(operate::not_done(reply)),
    }
}

/// Waits until the rules of a version, or later ones, have been looked at here.
async fn follow(rules: &ClusterRules, version: RulesVersion) {
    let mut followed = rules.followed();
    let arrived = followed.wait_for(|followed| followed.is_some_and(|followed| followed >= version));
    if timeout(FOLLOWED_WITHIN, arrived).await.is_err() {
        tracing::warn!(%version, "this node does not follow the cluster's rules yet");
    }
}
