//! Whole-product tests: one module a subject, real servers on free ports of the loopback.

mod arrows;
mod bounds;
mod clients;
mod cluster;
mod edge;
mod envoy;
mod exact;
mod inputs;
mod leases;
mod lifecycle;
mod nginx;
mod operators;
mod random;
mod regions;
mod reload;
mod style;
