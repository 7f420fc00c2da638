//! Three nodes in one process: real logs, real connections over loopback, groups formed by hand.

mod basics;
mod clocks;
mod failover;
mod hints;
mod net;
mod nodes;
mod spread;
