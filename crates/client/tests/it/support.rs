//! A client, its owner, and rules that a test changes.

use std::sync::Arc;

use leasehold_client::{AuthoritySettings, Client, KnownRules};
use leasehold_limit::check::{Answer, Attribute, Source, Verdict};
use leasehold_model::{Key, RulesVersion, Stamp};
use leasehold_shard::LimitSpec;
use tokio::sync::watch;

use crate::owner::{Edge, Faults, Owner};

const SECRET: [u8; 16] = [7; 16];

/// Edges before one owner, all under the same rules.
pub(crate) struct World {
    pub(crate) owner: Arc<Owner>,
    rules: watch::Sender<Option<Arc<KnownRules>>>,
}

pub(crate) type TestClient = Client<Edge>;

impl World {
    /// `limits` are the lines of a rule file below `limits:`.
    pub(crate) fn new(limits: &str, faults: Faults) -> Self {
        let owner = Owner::new(faults);
        Self { owner, rules: watch::Sender::new(Some(rules(1, limits))) }
    }

    pub(crate) fn change_rules(&self, version: u64, limits: &str) {
        self.rules.send_replace(Some(rules(version, limits)));
    }

    pub(crate) fn client(&self, edge: u128) -> TestClient {
        let clock = Arc::new(self.owner.clock);
        let rules = self.rules.subscribe();
        Client::over(Edge::new(&self.owner, edge), rules, clock, AuthoritySettings::default())
    }

    /// Units left of a rule's counter at its owner.
    pub(crate) fn left(&self, rule: &str, attributes: &[(&str, &str)]) -> u64 {
        let (key, spec) = self.counter(rule, attributes);
        self.owner.look(key, &spec).remaining
    }

    pub(crate) fn counter(&self, rule: &str, attributes: &[(&str, &str)]) -> (Key, LimitSpec) {
        let known = self.rules.borrow().clone().expect("rules are known");
        let attributes: Vec<_> =
            attributes.iter().map(|(name, value)| Attribute { name, value: value.as_bytes() }).collect();
        let matched = known.book.matching("api", &attributes).expect("the domain");
        let matched = matched.into_iter().find(|matched| &*matched.rule.name == rule).expect("the rule");
        let spec = LimitSpec {
            tenant: matched.rule.tenant,
            version: known.book.version,
            since: Stamp::ZERO,
            limit: matched.limit.as_ref().clone(),
        };
        (matched.key.expect("a counter"), spec)
    }
}

fn rules(version: u64, limits: &str) -> Arc<KnownRules> {
    let text = format!("domain: api\nlimits:\n{limits}");
    Arc::new(KnownRules::of(RulesVersion(version), SECRET, [text]).expect("valid rules"))
}

/// One check of a user's request.
pub(crate) async fn check(client: &TestClient, user: &str) -> Answer {
    client.check("api", &[("user", user)], 1).await.expect("an answer")
}

pub(crate) async fn allowed(client: &TestClient, user: &str) -> bool {
    check(client, user).await.verdict == Verdict::Allowed
}

/// Who decided each rule that applied.
pub(crate) fn sources(answer: &Answer) -> Vec<Source> {
    answer.matched().map(|matched| matched.source).collect()
}
