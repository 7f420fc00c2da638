//! The keys that a process is asked for most often, for its operators.

use leasehold_decide::TopKeys;
use leasehold_decide::top_keys::{HeavyKey, SAMPLED_ONE_IN};
use leasehold_front::AdminError;
use leasehold_front::top_keys::{TopKey, TopKeysQuery, TopKeysStatus};
use leasehold_model::BootTime;

/// What there is of what an operator wants to know.
///
/// # Errors
/// Values are wanted and not kept.
pub fn top_keys(seen: &TopKeys, now: BootTime, query: TopKeysQuery<'_>) -> Result<TopKeysStatus, AdminError> {
    if query.show_values && !seen.keeps_values() {
        let why = "values are not kept here, only hashes: set admin.show_key_values: true on a node and start it again";
        return Err(AdminError::Refused(why.to_owned()));
    }
    let most = usize::try_from(query.most).unwrap_or(usize::MAX);
    let (keys, window) = seen.read(now, query.domain, most);
    let keys = keys.into_iter().map(|key| top_key(key, query.show_values)).collect();
    Ok(TopKeysStatus { keys, window, sampled_one_in: SAMPLED_ONE_IN, nodes: 1, nodes_unanswered: Vec::new() })
}

fn top_key(heavy: HeavyKey, show_values: bool) -> TopKey {
    let HeavyKey { domain, rule, key, values, requests, error, refused, rule_requests, unlisted_max } = heavy;
    let values = values.iter().filter(|_| show_values);
    TopKey {
        domain: domain.to_string(),
        rule: rule.to_string(),
        key,
        values: values.map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        requests,
        error,
        refused,
        rule_requests,
        unlisted_max,
    }
}
