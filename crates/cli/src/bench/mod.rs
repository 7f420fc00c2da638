//! A load generator: many requests at once over few connections, and what became of them.
//!
//! Open loop, a request is due at a fixed moment whether or not earlier ones were answered, and its latency counts from
//! that moment: a server that stalls is charged for everybody who would have waited. Closed loop, each stream sends its
//! next request when the last was answered. The generator must not be what is measured: requests are encoded once, a
//! request patches the digits of its key into a copy, and each worker thread drives its own connections.

pub(crate) mod clock;
pub(crate) mod cpu;
mod grpc;
mod http;
pub(crate) mod keys;
mod pace;
pub(crate) mod plan;
pub(crate) mod report;
mod run;
mod tally;
mod template;
mod worker;

pub(crate) use run::run;

#[cfg(test)]
mod tests;
