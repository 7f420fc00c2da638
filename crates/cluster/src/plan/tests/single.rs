//! Single decisions.
