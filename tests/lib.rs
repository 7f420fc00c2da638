//! Shared by the test binaries: nothing yet.
