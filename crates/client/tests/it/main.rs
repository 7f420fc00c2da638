//! Clients in front of an owner: a real shard, in this process, behind a network that does as it is told.

mod away;
mod children;
mod close;
mod exact;
mod handle;
mod hot;
mod owner;
mod rules;
mod service;
mod several;
mod support;
