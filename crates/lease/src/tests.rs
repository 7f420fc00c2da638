//! Both ends together.

mod cells;
mod model;
