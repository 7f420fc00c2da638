//! Empty services.
fn main() {}
