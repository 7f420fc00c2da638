//! What a door for operators needs of the process behind it.

use std::future::Future;

use leasehold_decide::Readiness;
use leasehold_limit::rules::RuleError;
use leasehold_model::{Nanos, RulesVersion, ShardId};

use crate::cluster::{AuditEntry, ClusterStatus, Standing};
use crate::leases::LeasesStatus;
use crate::top_keys::{TopKeysQuery, TopKeysStatus};

/// What an operator can do.
pub trait Admin: Send + Sync + 'static {
    /// Source text and version of one domain's rules.
    fn rules_get(&self, domain: &str) -> Option<(String, RulesVersion)>;

    /// Validates one domain's rules and puts them in force. `expected`: only if that version is in force now; `by`: who
    /// asks, for the audit.
    fn rules_put<'a>(
        &'a self,
        text: &'a str,
        expected: Option<RulesVersion>,
        by: &'a str,
    ) -> impl Future<Output = Result<RulesVersion, AdminError>> + Send + 'a;

    /// Takes one domain's rules out of force. `expected`: only if that version is in force now; `by`: who asks, for the
    /// audit.
    fn rules_remove<'a>(
        &'a self,
        domain: &'a str,
        expected: Option<RulesVersion>,
        by: &'a str,
    ) -> impl Future<Output = Result<RulesVersion, AdminError>> + Send + 'a;

    /// Validates without putting in force; returns the domain's name.
    ///
    /// # Errors
    /// Every mistake found.
    fn rules_validate(&self, text: &str) -> Result<String, Vec<RuleError>>;

    /// What is in force and how the last reload went.
    fn rules_status(&self) -> RulesStatus;

    /// The process as a whole. It walks all counters: some 40 ms at a million.
    fn status(&self) -> impl Future<Output = Status> + Send;

    /// The `most` leases with the most units out, and all in numbers. `domain`: only leases of its counters.
    fn leases<'a>(
        &'a self,
        domain: Option<&'a str>,
        most: u32,
    ) -> impl Future<Output = Result<LeasesStatus, AdminError>> + Send + 'a;

    /// The keys that this process was asked for most often of late.
    ///
    /// # Errors
    /// Values are wanted and not kept.
    fn top_keys<'a>(
        &'a self,
        query: TopKeysQuery<'a>,
    ) -> impl Future<Output = Result<TopKeysStatus, AdminError>> + Send + 'a;

    /// The metrics page, in OpenMetrics text.
    fn metrics(&self) -> String;

    /// The cluster's members and shards. `hashes`: with a hash of each replica's state, which reads all counters.
    fn cluster(&self, hashes: bool) -> impl Future<Output = Result<ClusterStatus, AdminError>> + Send;

    /// Who changed what and when, oldest first.
    ///
    /// # Errors
    /// The node runs alone, or doesn't know its cluster yet.
    fn audit(&self) -> Result<Vec<AuditEntry>, AdminError>;

    /// Has another replica lead a shard. `to`: the name or id of its node.
    fn move_leader<'a>(
        &'a self,
        shard: ShardId,
        to: &'a str,
    ) -> impl Future<Output = Result<(), AdminError>> + Send + 'a;

    /// Drains a node, brings it back, or declares it dead. `member`: its name or id; `by`: who asks, for the audit.
    fn set_standing<'a>(
        &'a self,
        member: &'a str,
        standing: Standing,
        by: &'a str,
    ) -> impl Future<Output = Result<(), AdminError>> + Send + 'a;

    /// Forgets a node that holds nothing any more. `member`: its name or id; `by`: who asks, for the audit.
    fn forget<'a>(
        &'a self,
        member: &'a str,
        by: &'a str,
    ) -> impl Future<Output = Result<(), AdminError>> + Send + 'a;
}

/// An operator's request that was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    /// The rules are wrong; the old ones stay.
    #[error("{} mistakes in the rules", .0.len())]
    Invalid(Vec<RuleError>),
    /// Another version is in force.
    #[error("rules version {expected} was expected, {current} is in force: read them again")]
    Conflict {
        /// What the caller expected.
        expected: RulesVersion,
        /// What is in force.
        current: RulesVersion,
    },
    /// The rules come from files that this process may not write.
    #[error("{0}")]
    ReadOnly(String),
    /// Writing the rules failed; the old ones stay.
    #[error("{0}")]
    Failed(String),
    /// Only a cluster can be asked this.
    #[error("this node runs alone: it is part of no cluster")]
    Alone,
    /// There is no such node or shard.
    #[error("{0}")]
    NotFound(String),
    /// The cluster refuses, and nothing changed.
    #[error("{0}")]
    Refused(String),
    /// Nobody who could carry it out answered. Look whether it was carried out before asking again.
    #[error("{0}")]
    Unavailable(String),
}

/// What rules are in force and how the last reload went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesStatus {
    /// In force.
    pub version: RulesVersion,
    /// Where they come from: a path, or "built in".
    pub source: String,
    /// One for each domain.
    pub domains: Vec<DomainStatus>,
    /// Mistakes of the last reload; empty when it was accepted. While there are any, older rules stay in force.
    pub errors: Vec<RuleError>,
    /// Reloads accepted and refused since start.
    pub reloads_accepted: u64,
    /// See `reloads_accepted`.
    pub reloads_refused: u64,
}

/// One domain's rules, counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainStatus {
    /// Its name.
    pub name: String,
    /// How many rules.
    pub rules: usize,
    /// How many overrides.
    pub overrides: usize,
}

/// A process in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Version of the program.
    pub version: String,
    /// Whether traffic should come here.
    pub readiness: Readiness,
    /// Time since start.
    pub uptime: Nanos,
    /// Counters held.
    pub keys: u64,
    /// Requests let pass since start.
    pub allowed: u64,
    /// Requests refused since start because a limit was exceeded.
    pub over_limit: u64,
    /// Requests refused since start because a limit could not be asked and declares that to be a refusal.
    pub unavailable: u64,
    /// Hash of the state, for comparing replicas. `None` in a cluster: there each replica has its own.
    pub state_hash: Option<u128>,
    /// Why some answers are what stands in for counters, although traffic may come. `None`: none is.
    pub degraded: Option<String>,
}
