//! A log that is appended to and purged for long stays small. The full load is `benches/log_churn.rs`.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

#[path = "common/churn.rs"]
mod churn;

use churn::Churn;
use leasehold_consensus::log::LogConfig;

#[test]
fn purging_bounds_memory_and_disk_although_some_groups_are_idle() {
    let dir = tempfile::tempdir().unwrap();
    let load = Churn { entries: 200_000, busy: 48, idle: 16, batch: 16, entry_bytes: 128, kept: 256 };
    let config = LogConfig { segment_bytes: 1 << 20, reserve_bytes: 64 << 10, ..LogConfig::default() };
    let peak = load.run(dir.path(), config);
    // 31 MB of records went through; about 2 MB of them live at a time.
    assert!(peak.disk_bytes > 0 && peak.disk_bytes <= 12 << 20, "{peak:?}");
    assert!(peak.memory_bytes <= 100 << 20, "{peak:?}");
}
