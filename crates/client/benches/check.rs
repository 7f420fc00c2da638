//! What a check costs in process: through the engine, through the authority, through a handle.
fn main() {}
