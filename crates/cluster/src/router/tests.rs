//! Three nodes in one process: real logs, real connections over loopback, groups formed by hand.

mod basics;
mod net;
mod nodes;
