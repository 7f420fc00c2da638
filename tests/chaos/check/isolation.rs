//! When which process could reach no other.

use crate::history::{FaultPhase, History, Name};

/// A stretch of time in which a process could reach no other node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Isolation {
    pub(super) door: Name,
    pub(super) from: u64,
    pub(super) to: u64,
}

/// All of them, of processes that were asked.
pub(super) fn isolations(history: &History) -> Vec<Isolation> {
    let begun = history.faults.iter().filter(|fault| fault.isolates && fault.phase == FaultPhase::Begin);
    begun
        .filter_map(|fault| {
            let ends = history.faults.iter().filter(|end| {
                end.phase == FaultPhase::End
                    && end.name == fault.name
                    && end.target == fault.target
                    && end.at >= fault.at
            });
            let to = ends.map(|end| end.at).min().unwrap_or_else(|| history.end());
            Some(Isolation { door: history.name(&fault.target)?, from: fault.at, to })
        })
        .collect()
}

/// For the tests of whoever asks: the beginning or the end of a cut that leaves a process alone.
#[cfg(test)]
pub(super) fn cut(at: u64, target: &str, phase: FaultPhase) -> crate::history::Event {
    let (name, target) = ("cut".to_owned(), target.to_owned());
    let fault = crate::history::Fault { at, name, target, phase, isolates: true, ..Default::default() };
    crate::history::Event::Fault(fault)
}
