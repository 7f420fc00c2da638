//! The keys that all nodes together were asked for most often, from what each says of itself.
//!
//! Invariant: as of one node, a count is never too low, and too high by its error at most: of a key that a node doesn't list
//! it may have been asked as often as it says of the rule's unlisted keys, or as of the last one that it had room to list.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use leasehold_cluster::Told;
use leasehold_front::top_keys::{TOP_KEYS_MAX, TopKey, TopKeysStatus};
use leasehold_model::Key;
use leasehold_wire::Message as _;
use leasehold_wire::proto::leasehold::v1 as pb;

type Rule = (String, String);

/// What one node says.
struct Listed {
    keys: BTreeMap<(Rule, Key), TopKey>,
    /// Requests of each rule, and those of a key that isn't tracked at most.
    rules: BTreeMap<Rule, (u64, u64)>,
    /// Of a key that there was no room for.
    left_out_max: u64,
}

/// The `most` keys of this node's and what the others told.
pub(super) fn top_keys_of_all(here: TopKeysStatus, told: Vec<Told>, most: u32) -> TopKeysStatus {
    let (mut window, sampled_one_in) = (here.window, here.sampled_one_in);
    let mut lists = vec![Listed::of(here.keys)];
    let mut nodes_unanswered = Vec::new();
    for one in told {
        match one.answer.and_then(|answer| pb::TopKeysResponse::decode(answer).ok()) {
            Some(response) => {
                let status = TopKeysStatus::from(response);
                window = window.max(status.window);
                lists.push(Listed::of(status.keys));
            }
            None => nodes_unanswered.push(one.name.to_string()),
        }
    }
    let mut keys = together(&lists);
    keys.sort_by(|a, b| (Reverse(a.requests), &a.rule, a.key).cmp(&(Reverse(b.requests), &b.rule, b.key)));
    keys.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    let nodes = u32::try_from(lists.len()).unwrap_or(u32::MAX);
    TopKeysStatus { keys, window, sampled_one_in, nodes, nodes_unanswered }
}

impl Listed {
    fn of(keys: Vec<TopKey>) -> Self {
        let full = keys.len() >= usize::try_from(TOP_KEYS_MAX).unwrap_or(usize::MAX);
        let least = keys.iter().map(|key| key.requests).min().filter(|_| full);
        let rule = |key: &TopKey| (key.domain.clone(), key.rule.clone());
        let rules = keys.iter().map(|key| (rule(key), (key.rule_requests, key.unlisted_max))).collect();
        let keys = keys.into_iter().map(|key| ((rule(&key), key.key), key)).collect();
        Self { keys, rules, left_out_max: least.unwrap_or_default() }
    }

    /// Of a rule: requests, and those of a key that isn't listed at most.
    fn rule(&self, rule: &Rule) -> (u64, u64) {
        let (requests, unlisted) = self.rules.get(rule).copied().unwrap_or_default();
        (requests, unlisted.max(self.left_out_max))
    }
}

fn together(lists: &[Listed]) -> Vec<TopKey> {
    let mut all: BTreeMap<&(Rule, Key), TopKey> = BTreeMap::new();
    for (place, key) in lists.iter().flat_map(|list| &list.keys) {
        all.entry(place).or_insert_with(|| summed(place, key, lists));
    }
    all.into_values().collect()
}

/// One key's counts at all nodes.
fn summed(place: &(Rule, Key), first: &TopKey, lists: &[Listed]) -> TopKey {
    let mut sum = TopKey {
        requests: 0,
        error: 0,
        refused: 0,
        rule_requests: 0,
        unlisted_max: 0,
        values: Vec::new(),
        ..first.clone()
    };
    for list in lists {
        let (rule_requests, unlisted) = list.rule(&place.0);
        sum.rule_requests = sum.rule_requests.saturating_add(rule_requests);
        sum.unlisted_max = sum.unlisted_max.saturating_add(unlisted);
        let (requests, error) = match list.keys.get(place) {
            Some(key) => {
                sum.refused = sum.refused.saturating_add(key.refused);
                if sum.values.is_empty() {
                    sum.values.clone_from(&key.values);
                }
                (key.requests, key.error)
            }
            None => (unlisted, unlisted),
        };
        sum.requests = sum.requests.saturating_add(requests);
        sum.error = sum.error.saturating_add(error);
    }
    sum
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use leasehold_model::{Nanos, NodeId};

    use super::*;

    fn key(low: u64, requests: u64, unlisted_max: u64) -> TopKey {
        TopKey {
            domain: "d".to_owned(),
            rule: "r".to_owned(),
            key: Key { high: 0, low },
            values: vec![("user".to_owned(), format!("u{low}"))],
            requests,
            error: 1,
            refused: 2,
            rule_requests: 1_000,
            unlisted_max,
        }
    }

    fn status(keys: Vec<TopKey>) -> TopKeysStatus {
        let window = Nanos::from_secs(60);
        TopKeysStatus { keys, window, sampled_one_in: 64, nodes: 1, nodes_unanswered: Vec::new() }
    }

    fn told(name: &str, keys: Option<Vec<TopKey>>) -> Told {
        let answer = keys.map(|keys| pb::TopKeysResponse::from(status(keys)).encode_to_vec().into());
        Told { node: NodeId(1), name: Arc::from(name), answer }
    }

    #[test]
    fn counts_are_summed_and_a_key_that_a_node_does_not_list_may_have_what_it_lists_not() {
        let here = status(vec![key(1, 100, 7), key(2, 50, 7)]);
        let all = top_keys_of_all(here, vec![told("b", Some(vec![key(1, 30, 3), key(3, 200, 3)]))], 10);
        let counts: Vec<_> =
            all.keys.iter().map(|key| (key.key.low, key.requests, key.error, key.refused)).collect();
        assert_eq!(counts, [(3, 207, 8, 2), (1, 130, 2, 4), (2, 53, 4, 2)]);
        let first = &all.keys[0];
        assert_eq!((first.rule_requests, first.unlisted_max, all.nodes), (2_000, 10, 2));
        assert_eq!(first.values, [("user".to_owned(), "u3".to_owned())]);
    }

    #[test]
    fn who_did_not_answer_is_named_and_no_more_are_listed_than_wanted() {
        let here = status(vec![key(1, 100, 0), key(2, 50, 0)]);
        let silent = vec![told("b", None), told("c", Some(vec![]))];
        let all = top_keys_of_all(here, silent, 1);
        assert_eq!((all.keys.len(), all.nodes, all.nodes_unanswered), (1, 2, vec!["b".to_owned()]));
    }
}
