//! The HTTP door over a test double: every status, header and member that it promises.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

mod admin;
mod authorize;
mod batch;
mod double;
mod input;
mod random;
mod structured;
mod table;
