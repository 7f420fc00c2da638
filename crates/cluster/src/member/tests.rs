//! Whole nodes in one process: real sockets on loopback, real disks.

mod forming;
pub(crate) mod support;
