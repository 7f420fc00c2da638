//! Whole nodes in one process: real sockets on loopback, real disks.

mod forming;
mod full;
mod joining;
mod regions;
pub(crate) mod support;
mod trouble;
