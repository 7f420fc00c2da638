//! The server: boot, clock, rules in force, the local authority, metrics.
