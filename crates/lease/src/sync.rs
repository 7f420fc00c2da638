//! The atomics that a [`Cell`](crate::Cell) is made of. The tests of its interleavings put a model checker's here.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
