//! What a group replicates: a machine that turns entries into answers.
//!
//! Invariant: a machine's state is a function of the entries applied to it, in order, and of nothing else; two replicas that
//! applied the same entries have the same state, the same hash, and gave the same answers to those who asked.

use std::any::Any;

use leasehold_model::Nanos;

/// An entry or a snapshot that a machine can't read: the process ends, since this replica can't keep up with the others.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct MachineError(pub String);

/// What a machine answers to an entry: a value of a type that the machine and who proposes agree on. It stays in this process.
pub type Answer = Box<dyn Any + Send + Sync>;

/// How an entry came to this replica. It differs from one to the other: no state may hang on it, nor what is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// How long ago this replica received it; zero where that isn't known.
    pub age: Nanos,
}

/// The replicated state of one group.
pub trait Machine: Any + Send + 'static {
    /// Applies one committed entry and answers it. Total in its meaning: one that makes no sense gets an answer that says so.
    ///
    /// # Errors
    /// When the bytes can't be read. The machine is as before, and nothing is applied to it afterwards.
    fn apply(&mut self, entry: &[u8], arrival: Arrival) -> Result<Answer, MachineError>;

    /// All of the state as bytes.
    fn snapshot(&self) -> Vec<u8>;

    /// Takes over the state that [`Self::snapshot`] gave, in place of its own.
    ///
    /// # Errors
    /// When the bytes aren't such a state. The machine isn't used afterwards.
    fn restore(&mut self, snapshot: &[u8]) -> Result<(), MachineError>;

    /// A hash of the state, to compare replicas by. May take as long as a snapshot.
    fn state_hash(&self) -> u64;
}
