//! The one binary: `leasehold`.
fn main() {}
