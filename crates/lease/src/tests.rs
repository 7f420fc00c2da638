//! Both ends together.

mod model;
