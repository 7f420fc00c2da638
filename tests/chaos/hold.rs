//! What a scenario holds a run to beside the promises, read from its history.

use std::time::Duration;

use crate::history::{History, Outcome, PhaseName};

/// The longest time without a decision on a limit, of any of its counters, while the run lasted.
pub(crate) fn longest_silence(history: &History, limit: &str) -> Duration {
    let is_of =
        |name: &str| name.split_once('=').map_or(name, |(limit, _)| limit).rsplit('/').next() == Some(limit);
    let decided = |outcome| matches!(outcome, Outcome::Allowed | Outcome::OverLimit);
    let calls = history.calls.iter().filter(|call| decided(call.outcome) && !call.degraded);
    let of_limit = calls.filter(|call| history.keys(call.keys).iter().any(|key| is_of(history.text(*key))));
    let end = history.began(PhaseName::End).unwrap_or_else(|| history.end());
    let mut ends: Vec<u64> =
        of_limit.filter_map(|call| call.returned).filter(|returned| *returned <= end).collect();
    ends.sort_unstable();
    let longest = ends.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(end);
    Duration::from_nanos(longest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::sample::{SECOND, allowed, history, unknown};

    #[test]
    fn silence_is_between_two_decisions_and_what_nobody_answered_is_none() {
        let calls =
            [allowed(SECOND, 1), unknown(2 * SECOND, 1, "x"), allowed(4 * SECOND, 1), allowed(5 * SECOND, 1)];
        let history = history().with_checks(calls);
        assert_eq!(longest_silence(&history, "a"), Duration::from_secs(3));
    }
}
