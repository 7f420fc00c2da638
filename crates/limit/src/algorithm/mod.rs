//! The algorithms: each a handful of pure functions over its state; this file only picks among them.

use leasehold_model::Stamp;

use crate::{Ask, Decision, Limit, State};

impl Limit {
    /// The state of a counter that nothing was ever taken from.
    #[must_use]
    pub fn fresh(&self) -> State {
        todo!()
    }

    /// The largest cost that could ever be admitted.
    #[must_use]
    pub fn cap(&self) -> u64 {
        todo!()
    }

    /// What `ask` would get at `at`; changes nothing. `state` must belong to this limit (see [`Limit::carry_over`]).
    #[must_use]
    pub fn decide(&self, _state: &State, _at: Stamp, _ask: Ask) -> Decision {
        todo!()
    }

    /// Takes `cost` units that [`Limit::decide`] said fit at `at`.
    pub fn charge(&self, _state: &mut State, _at: Stamp, _cost: u64) {
        todo!()
    }

    /// Decides and, when allowed, takes. A refusal and a peek change nothing.
    pub fn acquire(&self, state: &mut State, at: Stamp, ask: Ask) -> Decision {
        let decision = self.decide(state, at, ask);
        if decision.granted > 0 {
            self.charge(state, at, decision.granted);
        }
        decision
    }

    /// Gives back units that were charged at `charged_at` and not spent; returns how many whole units came back.
    ///
    /// Never gives back more than a history without that charge would hold now, so no interval gains anything: a window
    /// that ended credits nothing; a bucket credits what has not been refilled since; a shaper's slot stays empty.
    pub fn refund(&self, _state: &mut State, _at: Stamp, _cost: u64, _charged_at: Stamp) -> u64 {
        todo!()
    }

    /// Moves `state` from `old` numbers to these at `at`: what is used stays used, clipped to the new capacity.
    pub fn carry_over(&self, _old: &Limit, _state: &mut State, _at: Stamp) {
        todo!()
    }

    /// The first stamp from which `state` answers everything as a fresh one would: from then on it may be dropped.
    #[must_use]
    pub fn fresh_at(&self, _state: &State) -> Stamp {
        todo!()
    }
}
