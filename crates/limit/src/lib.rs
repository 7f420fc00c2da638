//! Rate limits as pure functions: algorithms, rules, keys and decisions.
//!
//! Invariant: every answer is a function of (limit, state, stamp, ask) in exact integers. Nothing here reads a clock,
//! draws a random number, opens a file or knows a network; a state and a limit are plain values that replicate.

pub mod address;
mod algorithm;
pub mod check;
mod decision;
mod key;
mod out;
mod policy;
pub mod rules;
mod share;
mod state;

pub use decision::{Ask, Decision, RetryAfter};
pub use key::{KeyBuilder, KeySecret, RuleKeys, rule_key};
pub use out::{Due, Out};
pub use policy::{Algorithm, CalendarUnit, Limit, LimitError, Window, Zone};
pub use share::Share;
pub use state::{BucketState, CounterState, LogState, QueueState, State, WindowState};
