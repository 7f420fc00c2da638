//! The limits of a scenario, as a rule file for nodes and as histories describe them.

use std::fmt::Write as _;

use serde::Deserialize;

use crate::history::{Algorithm, Limit, OnUnavailable};

/// All limits of scenarios are in this domain.
pub(crate) const DOMAIN: &str = "shop";

/// One limit. It counts by the attribute that has its name.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LimitSpec {
    pub(crate) name: String,
    pub(crate) amount: u64,
    pub(crate) period_s: u64,
    /// Absent: the amount.
    pub(crate) burst: Option<u64>,
    #[serde(default)]
    pub(crate) algorithm: Algorithm,
    #[serde(default = "deny")]
    pub(crate) on_unavailable: OnUnavailable,
    #[serde(default)]
    pub(crate) max_overshoot: f64,
    pub(crate) local_share: Option<f64>,
    pub(crate) edges: Option<u64>,
    /// False: `lease: never`.
    #[serde(default = "yes")]
    pub(crate) leased: bool,
    /// What `push-rules` makes of the amount. Absent: it stays.
    pub(crate) other_amount: Option<u64>,
}

const fn deny() -> OnUnavailable {
    OnUnavailable::Deny
}

const fn yes() -> bool {
    true
}

impl LimitSpec {
    /// Whether it is a bucket, which has a burst.
    pub(crate) const fn has_burst(&self) -> bool {
        matches!(self.algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket)
    }

    /// With the numbers that `push-rules` gives it.
    pub(crate) fn pushed(&self) -> Self {
        Self { amount: self.other_amount.unwrap_or(self.amount), ..self.clone() }
    }

    /// As histories have it.
    pub(crate) fn describe(&self) -> Limit {
        Limit {
            domain: DOMAIN.to_owned(),
            name: self.name.clone(),
            algorithm: self.algorithm,
            amount: self.amount,
            period_ns: self.period_s.saturating_mul(1_000_000_000),
            burst: self.burst.unwrap_or(self.amount),
            max_overshoot: self.max_overshoot,
            on_unavailable: self.on_unavailable,
            local_share: self.local_share.unwrap_or(0.0),
            edges: self.edges,
            leased: self.leased,
        }
    }

    /// The key of one of its counters, as histories have it.
    pub(crate) fn key(&self, value: &str) -> String {
        format!("{DOMAIN}/{}={value}", self.name)
    }
}

/// The rule file of these limits.
pub(crate) fn yaml(limits: &[LimitSpec]) -> String {
    let mut text = format!("domain: {DOMAIN}\nlimits:\n");
    for limit in limits {
        let LimitSpec { name, amount, period_s, algorithm, on_unavailable, .. } = limit;
        let (algorithm, on_unavailable) = (word(algorithm), word(on_unavailable));
        let mut more = String::new();
        let mut say = |field: &str, value: Option<String>| {
            if let Some(value) = value {
                more.push_str(&format!(", {field}: {value}"));
            }
        };
        say("burst", limit.burst.filter(|_| limit.has_burst()).map(|burst| burst.to_string()));
        say("max_overshoot", (limit.max_overshoot > 0.0).then(|| limit.max_overshoot.to_string()));
        say("local_share", limit.local_share.map(|share| share.to_string()));
        say("edges", limit.edges.map(|edges| edges.to_string()));
        say("lease", (!limit.leased).then(|| "never".to_owned()));
        let _ = writeln!(
            text,
            "  - {{ name: {name}, per: [{name}], limit: {amount}/{period_s}s, algorithm: {algorithm}, \
             on_unavailable: {on_unavailable}{more} }}"
        );
    }
    text
}

/// As rule files spell it.
fn word(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).expect("an enum of words is JSON");
    value.as_str().expect("it is a word").to_owned()
}
