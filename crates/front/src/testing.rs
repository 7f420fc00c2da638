//! A process behind the doors, made by hand: it answers what a test tells it and keeps what it was asked.

use std::sync::Arc;
use std::time::Duration;

use leasehold_limit::check::{Answer, DescriptorAnswer, Outcome, Request, RuleAnswer, Source, Verdict};
use leasehold_limit::rules::{self, RuleError};
use leasehold_limit::{Decision, KeySecret, RetryAfter};
use leasehold_model::{Nanos, RequestId, RulesVersion, ShardId};
use parking_lot::Mutex;

use crate::cluster::{AuditEntry, ClusterStatus, Standing};
use crate::leases::LeasesStatus;
use crate::top_keys::{TopKeysQuery, TopKeysStatus};
use crate::{Admin, AdminError, CheckError, Decider, Readiness, ResetTarget, RulesStatus, Status};

/// Answers every check alike, after a while if told so.
pub(crate) struct Fake {
    pub(crate) answer: Result<Answer, CheckError>,
    pub(crate) takes: Duration,
    pub(crate) readiness: Mutex<Readiness>,
    pub(crate) put: Result<RulesVersion, AdminError>,
    pub(crate) asked: Mutex<Vec<Asked>>,
    pub(crate) cluster: Result<ClusterStatus, AdminError>,
    /// What an operator told it.
    pub(crate) told: Mutex<Vec<String>>,
}

/// What a check asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) domain: String,
    pub(crate) costs: Vec<u64>,
    pub(crate) request_id: Option<RequestId>,
    pub(crate) budget: Option<Duration>,
}

impl Fake {
    pub(crate) fn answering(answer: Result<Answer, CheckError>) -> Self {
        Self {
            answer,
            takes: Duration::ZERO,
            readiness: Mutex::new(Readiness::Ready),
            put: Ok(RulesVersion(8)),
            asked: Mutex::default(),
            cluster: Err(AdminError::Alone),
            told: Mutex::default(),
        }
    }

    pub(crate) fn allowing() -> Self {
        Self::answering(Ok(answer(Verdict::Allowed, passed())))
    }
}

impl Decider for Fake {
    async fn check<'a>(
        &'a self,
        request: &'a Request<'a>,
        budget: Option<Duration>,
    ) -> Result<Answer, CheckError> {
        self.asked.lock().push(Asked {
            domain: request.domain.to_owned(),
            costs: request.descriptors.iter().map(|descriptor| descriptor.cost).collect(),
            request_id: request.request_id,
            budget,
        });
        if self.takes > Duration::ZERO {
            tokio::time::sleep(self.takes).await;
        }
        self.answer.clone()
    }

    async fn reset<'a>(&'a self, target: ResetTarget<'a>) -> Result<u32, CheckError> {
        Ok(if target.rule.is_some() { 1 } else { 2 })
    }

    fn request_id(&self, domain: &str, text: &str) -> RequestId {
        let length = |text: &str| u64::try_from(text.len()).unwrap();
        RequestId { session: u128::from(length(domain)), seq: length(text) }
    }

    fn readiness(&self) -> Readiness {
        self.readiness.lock().clone()
    }
}

impl Admin for Fake {
    fn rules_get(&self, domain: &str) -> Option<(String, RulesVersion)> {
        (domain == "api").then(|| ("domain: api".to_owned(), RulesVersion(7)))
    }

    async fn rules_put<'a>(
        &'a self,
        _text: &'a str,
        _expected: Option<RulesVersion>,
        _by: &'a str,
    ) -> Result<RulesVersion, AdminError> {
        self.put.clone()
    }

    async fn rules_remove<'a>(
        &'a self,
        domain: &'a str,
        _expected: Option<RulesVersion>,
        by: &'a str,
    ) -> Result<RulesVersion, AdminError> {
        self.told.lock().push(format!("{domain} removed by {by}"));
        self.put.clone()
    }

    fn rules_validate(&self, text: &str) -> Result<String, Vec<RuleError>> {
        if text.is_empty() { Err(vec![mistake()]) } else { Ok("api".to_owned()) }
    }

    fn rules_status(&self) -> RulesStatus {
        RulesStatus {
            version: RulesVersion(7),
            source: "built in".to_owned(),
            domains: Vec::new(),
            errors: vec![mistake()],
            reloads_accepted: 1,
            reloads_refused: 2,
        }
    }

    async fn status(&self) -> Status {
        Status {
            version: "1.0.0".to_owned(),
            readiness: self.readiness(),
            uptime: Nanos::from_secs(1),
            keys: 1,
            allowed: 2,
            over_limit: 3,
            unavailable: 4,
            state_hash: Some(255),
            degraded: None,
        }
    }

    async fn leases(&self, domain: Option<&str>, most: u32) -> Result<LeasesStatus, AdminError> {
        self.told.lock().push(format!("{most} leases of {domain:?}"));
        Ok(LeasesStatus { shards_unanswered: 2, ..LeasesStatus::default() })
    }

    async fn top_keys<'a>(&'a self, query: TopKeysQuery<'a>) -> Result<TopKeysStatus, AdminError> {
        self.told.lock().push(format!("{query:?}"));
        if query.show_values {
            return Err(AdminError::Refused("values are not kept".to_owned()));
        }
        Ok(TopKeysStatus { sampled_one_in: 64, ..TopKeysStatus::default() })
    }

    fn metrics(&self) -> String {
        String::new()
    }

    async fn cluster(&self, _: bool) -> Result<ClusterStatus, AdminError> {
        self.cluster.clone()
    }

    fn audit(&self) -> Result<Vec<AuditEntry>, AdminError> {
        Err(AdminError::Alone)
    }

    async fn move_leader(&self, shard: ShardId, to: &str) -> Result<(), AdminError> {
        self.told.lock().push(format!("shard {} to {to}", shard.0));
        self.cluster.clone().map(drop)
    }

    async fn set_standing(&self, member: &str, standing: Standing, by: &str) -> Result<(), AdminError> {
        self.told.lock().push(format!("{member} {} by {by}", standing.name()));
        self.cluster.clone().map(drop)
    }

    async fn forget(&self, member: &str, by: &str) -> Result<(), AdminError> {
        self.told.lock().push(format!("{member} forgotten by {by}"));
        self.cluster.clone().map(drop)
    }
}

/// A mistake in a rule file.
pub(crate) fn mistake() -> RuleError {
    let (field, message, fix) = ("domain".into(), "it is missing".into(), "name it".into());
    RuleError { file: "rules".into(), line: 1, column: 1, field, message, fix }
}

/// An answer to one descriptor that rule `login` (10 a minute) matched.
pub(crate) fn answer(verdict: Verdict, outcome: Outcome) -> Answer {
    let text = "domain: api\nlimits: [{ name: login, limit: 10/60s, algorithm: fixed_window, on_unavailable: deny }]\n";
    let mut domain = rules::parse("rules", text, &KeySecret::new([1; 16])).unwrap();
    let rule = domain.rules.remove(0);
    let limit = Arc::clone(&rule.limit);
    let matched = vec![RuleAnswer { rule, limit, outcome, source: Source::Owner }];
    let degraded = outcome == Outcome::Unavailable;
    Answer {
        verdict,
        descriptors: vec![DescriptorAnswer { matched }],
        degraded,
        rules_version: RulesVersion(7),
    }
}

/// One taken, nine left.
pub(crate) fn passed() -> Outcome {
    Outcome::Decided(Decision {
        allowed: true,
        granted: 1,
        remaining: 9,
        retry_after: None,
        reset_after: Nanos::from_secs(42),
        next_unit_after: Nanos::ZERO,
        wait: None,
    })
}

/// Refused until then.
pub(crate) fn refused(retry_after: RetryAfter) -> Outcome {
    Outcome::Decided(Decision {
        allowed: false,
        granted: 0,
        remaining: 0,
        retry_after: Some(retry_after),
        reset_after: Nanos::from_secs(42),
        next_unit_after: Nanos::from_secs(3),
        wait: None,
    })
}
