//! Every decoder of what comes from outside, as a function of bytes that must return.
//!
//! What a target does with sound bytes goes on as in a node: entries are applied, snapshots restored. Nothing here judges
//! answers; a panic, an abort or a hang is the finding. `tests/` tries what is kept and what is near it at every test run;
//! `libfuzzer/` looks for more, led by coverage.

mod corpus;
mod mutate;
mod targets;

pub use corpus::{kept, kept_in};
pub use mutate::Mutator;
pub use targets::{TARGETS, Target};
