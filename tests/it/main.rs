//! Real servers on port 0.
