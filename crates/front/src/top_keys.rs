//! The keys that a process was asked for most often, as operators see them. Plain values.

use leasehold_model::{Key, Nanos};

/// Keys shown when nobody says how many.
pub const TOP_KEYS_DEFAULT: u32 = 20;
/// Keys of one answer. More can't be asked for.
pub const TOP_KEYS_MAX: u32 = 1_000;

/// What is wanted of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopKeysQuery<'a> {
    /// Only keys of this domain.
    pub domain: Option<&'a str>,
    /// At most so many.
    pub most: u32,
    /// With the values that the keys are of.
    pub show_values: bool,
    /// Only what this node was asked.
    pub this_node: bool,
}

/// The keys asked for most often of late.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopKeysStatus {
    /// Those asked for most often first.
    pub keys: Vec<TopKey>,
    /// What was looked at: the time up to now.
    pub window: Nanos,
    /// One of so many requests was looked at.
    pub sampled_one_in: u32,
    /// How many nodes this is of.
    pub nodes: u32,
    /// Names of those that didn't answer.
    pub nodes_unanswered: Vec<String>,
}

/// A key of a rule. Counts are of requests in the window, estimated from the sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopKey {
    /// The rule's domain.
    pub domain: String,
    /// The rule.
    pub rule: String,
    /// The counter.
    pub key: Key,
    /// What it is the hash of: names and values. Empty unless it was asked for.
    pub values: Vec<(String, String)>,
    /// Requests.
    pub requests: u64,
    /// Of those, as many as this may be another key's.
    pub error: u64,
    /// Of the requests, those that the rule refused.
    pub refused: u64,
    /// Requests that the rule applied to, all keys together.
    pub rule_requests: u64,
    /// What a key of the rule may have at most that isn't tracked.
    pub unlisted_max: u64,
}
