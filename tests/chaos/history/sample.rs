//! Histories made by hand, for the tests of whoever reads them.

use super::*;

/// A second, in ns.
pub(crate) const SECOND: u64 = 1_000_000_000;

/// A millisecond, in ns.
pub(crate) const MS: u64 = 1_000_000;

/// A run under one rule, `shop/a`: 10 a second. More is added with [`History::add`].
pub(crate) fn history() -> History {
    with_limits(vec![limit("a", 10)])
}

/// A run under these rules.
pub(crate) fn with_limits(limits: Vec<Limit>) -> History {
    let run = Run {
        scenario: "by-hand".to_owned(),
        clock_ppm: 0,
        lease_ns: 5 * SECOND,
        leader_lease_ns: 2 * SECOND,
        regrant_ns: 2 * SECOND,
        ..Run::default()
    };
    let rules = Rules { version: 1, in_force: Some(0), limits, ..Rules::default() };
    History::default().with(Event::Run(run)).with(Event::Rules(rules))
}

/// A bucket of `amount` a second in the domain `shop`.
pub(crate) fn limit(name: &str, amount: u64) -> Limit {
    Limit {
        domain: "shop".to_owned(),
        name: name.to_owned(),
        amount,
        period_ns: SECOND,
        burst: amount,
        leased: true,
        ..Limit::default()
    }
}

/// An admitted check of `shop/a=x` at one moment, by its owner at `node-1`. Change what matters.
pub(crate) fn allowed(at: u64, cost: u64) -> Check {
    Check {
        invoked: at,
        returned: Some(at),
        client: "c".to_owned(),
        door: "node-1".to_owned(),
        keys: vec!["shop/a=x".to_owned()],
        cost,
        outcome: Outcome::Allowed,
        source: Some(Source::Owner),
        tries: 1,
        ..Check::default()
    }
}

/// A refused one.
pub(crate) fn over_limit(at: u64, cost: u64) -> Check {
    Check { outcome: Outcome::OverLimit, ..allowed(at, cost) }
}

/// One that nobody answered.
pub(crate) fn unknown(at: u64, cost: u64, id: &str) -> Check {
    Check {
        outcome: Outcome::Unknown,
        returned: None,
        source: None,
        id: Some(id.to_owned()),
        ..allowed(at, cost)
    }
}

/// A fault's beginning or end.
pub(crate) fn fault(at: u64, name: &str, target: &str, phase: FaultPhase) -> Event {
    Event::Fault(Fault { at, name: name.to_owned(), target: target.to_owned(), phase, ..Fault::default() })
}

/// A phase's beginning.
pub(crate) fn phase(at: u64, name: PhaseName) -> Event {
    Event::Phase(Phase { at, name })
}

impl History {
    /// Takes an event in that must fit.
    #[track_caller]
    pub(crate) fn with(mut self, event: Event) -> Self {
        self.add(event).unwrap_or_else(|(field, problem)| panic!("{field}: {problem}"));
        self
    }

    /// Takes checks in.
    #[track_caller]
    pub(crate) fn with_checks(self, checks: impl IntoIterator<Item = Check>) -> Self {
        checks.into_iter().fold(self, |history, check| history.with(Event::Check(check)))
    }
}
