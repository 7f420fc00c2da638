//! A load generator.
