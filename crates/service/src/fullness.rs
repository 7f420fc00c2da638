//! Says which domains hold as many counters as they may: once in a while, as a flood of new counters is many requests.

use std::collections::BTreeMap;

use leasehold_model::{BootTime, Nanos};
use parking_lot::Mutex;

/// How often at most the log says so of one domain.
const LOG_PERIOD: Nanos = Nanos::from_secs(60);

/// When the log last said of which domain that it is full. Only domains with rules come here, and what was said longer
/// ago than a period is forgotten, so that it stays small.
#[derive(Debug, Default)]
pub struct Fullness(Mutex<BTreeMap<String, BootTime>>);

impl Fullness {
    /// Notes a request that found no room for a counter at `now`.
    pub fn note(&self, domain: &str, now: BootTime) {
        if self.is_due(domain, now) {
            tracing::warn!(
                domain,
                "no room for new counters: their rules' on_unavailable stands in; raise counters.keys_per_domain_max or \
                 counters.keys_max"
            );
        }
    }

    fn is_due(&self, domain: &str, now: BootTime) -> bool {
        let mut said = self.0.lock();
        if said.get(domain).is_some_and(|at| now.since(*at) < LOG_PERIOD) {
            return false;
        }
        said.retain(|_, at| now.since(*at) < LOG_PERIOD);
        said.insert(domain.to_owned(), now);
        true
    }
}

#[cfg(test)]
mod tests;
