//! The atomics that [`Cells`](crate::Cells) are made of. The tests of their interleavings put a model checker's here.

pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
