//! Three nodes in one process: real log, real connections over loopback, default timings.

mod basics;
mod cluster;
mod failover;
mod members;
mod snapshot;

pub(super) use cluster::Tape;
