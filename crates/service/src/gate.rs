//! Whether traffic should come here: said by whoever starts and stops the process.
//!
//! Invariant: a drain is the last word. What is learnt meanwhile, of the cluster or of the rules, doesn't call traffic back.

use leasehold_decide::Readiness;
use parking_lot::RwLock;

/// Whether traffic should come here.
#[derive(Debug)]
pub struct Gate(RwLock<State>);

#[derive(Debug)]
struct State {
    readiness: Readiness,
    draining: bool,
}

impl Gate {
    /// Not yet, for this reason.
    #[must_use]
    pub fn closed(reason: &str) -> Self {
        Self(RwLock::new(State { readiness: Readiness::NotReady(reason.to_owned()), draining: false }))
    }

    /// What is said now.
    pub fn get(&self) -> Readiness {
        self.0.read().readiness.clone()
    }

    /// Says so, unless the process is draining. Returns whether it is news.
    pub fn set(&self, readiness: Readiness) -> bool {
        let mut state = self.0.write();
        if state.draining || state.readiness == readiness {
            return false;
        }
        state.readiness = readiness;
        true
    }

    /// From here on no traffic should come.
    pub fn drain(&self) {
        *self.0.write() = State { readiness: Readiness::NotReady("draining".to_owned()), draining: true };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drain_is_the_last_word() {
        let gate = Gate::closed("starting");
        assert!(gate.set(Readiness::Ready));
        assert!(!gate.set(Readiness::Ready));
        gate.drain();
        assert!(!gate.set(Readiness::Ready));
        assert_eq!(gate.get(), Readiness::NotReady("draining".to_owned()));
    }
}
