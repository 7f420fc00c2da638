//! 10 M entries of 64 groups with purging, durable, on the log and on fjall in the same run:
//! `cargo bench -p leasehold-consensus --bench log_churn [-- ENTRIES]`.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints its figures and ends when it fails"
)]

#[path = "../tests/common/churn.rs"]
mod churn;

use std::path::Path;
use std::time::Instant;

use churn::{Churn, Peak};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use leasehold_consensus::log::LogConfig;

fn main() {
    let entries = std::env::args().filter_map(|argument| argument.parse().ok()).next().unwrap_or(10_000_000);
    let load = Churn { entries, busy: 48, idle: 16, batch: 64, entry_bytes: 100, kept: 2048 };
    println!("{load:?}");
    measure("segment log", &load, |load, dir| load.run(dir, LogConfig::default()));
    measure("fjall 3", &load, run_fjall);
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn measure(name: &str, load: &Churn, run: impl Fn(&Churn, &Path) -> Peak) {
    let dir =
        tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory on the disk that is measured");
    let start = Instant::now();
    let peak = run(load, dir.path());
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{name}: {:.0} entries/s, peak memory {} MB, peak disk {} MB",
        load.entries as f64 / seconds,
        peak.memory_bytes / 1_000_000,
        peak.disk_bytes / 1_000_000
    );
}

/// The same appends, those of all groups joined into one durable batch as the log's writer does.
fn run_fjall(load: &Churn, dir: &Path) -> Peak {
    let db = Database::builder(dir).open().expect("fjall opens");
    let log = db.keyspace("log", KeyspaceCreateOptions::default).expect("fjall has a keyspace");
    let (mut peak, mut next, mut low) = (Peak::default(), 0, 0);
    while next < load.each() {
        append_fjall(&db, &log, load, next);
        next += load.batch;
        if next - low >= load.kept {
            let keep_from = next - load.kept / 2;
            purge_fjall(&db, &log, load, low..keep_from);
            low = keep_from;
            peak.note(dir);
        }
    }
    peak
}

fn append_fjall(db: &Database, log: &Keyspace, load: &Churn, next: u64) {
    let mut batch = db.batch().durability(Some(PersistMode::SyncData));
    for group in 0..load.busy {
        for index in next..next + load.batch {
            batch.insert(log, key(group, index), vec![0; load.entry_bytes]);
        }
    }
    batch.commit().expect("fjall commits");
}

fn purge_fjall(db: &Database, log: &Keyspace, load: &Churn, indexes: std::ops::Range<u64>) {
    for group in 0..load.busy {
        let mut batch = db.batch();
        for index in indexes.clone() {
            batch.remove(log, key(group, index));
        }
        batch.commit().expect("fjall commits");
    }
}

fn key(group: u32, index: u64) -> [u8; 12] {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&group.to_be_bytes());
    key[4..].copy_from_slice(&index.to_be_bytes());
    key
}
