//! Values of single fields that only a node has.

mod cluster;

pub(super) use cluster::*;
pub(super) use leasehold_service::config::fields::*;
use serde::de::Deserializer;

/// The longest retry window: every second of it is memory for each request id.
const RETRY_WINDOW_SECONDS_MAX: u64 = 86_400;

pub(super) fn retry_window_seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    within(deserializer, 1, RETRY_WINDOW_SECONDS_MAX)
}
