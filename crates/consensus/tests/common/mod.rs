//! What the log's tests share: entries whose bytes follow from their place, so that a wrong one is noticed anywhere.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use leasehold_consensus::log::{Change, Engine, Entry, EntryId, GroupId, OnFatal, Request, WriteError};
use parking_lot::Mutex;

/// SplitMix64: the tests' only chance, from a seed that a failure prints.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// The entry of this place. Its length and bytes follow from group, term and index.
pub(crate) fn entry(group: GroupId, term: u64, index: u64) -> Entry {
    let mut chance = Chance(u64::from(group.0) << 48 ^ term << 32 ^ index);
    let length = usize::try_from(chance.below(120)).unwrap();
    let data: Vec<u8> =
        std::iter::repeat_with(|| chance.next().to_le_bytes()).take(length.div_ceil(8)).flatten().collect();
    Entry { id: EntryId { term, node: 1 + term % 3, index }, data: Bytes::from(data).slice(..length) }
}

/// A fatal error ends a process; a test that expects none fails on it.
pub(crate) fn no_fatal() -> OnFatal {
    Arc::new(|error| panic!("fatal: {error}"))
}

/// Makes changes in one go and returns what each was told.
pub(crate) fn process(
    engine: &mut Engine,
    changes: impl IntoIterator<Item = (GroupId, Change)>,
) -> Vec<Result<(), WriteError>> {
    let told = Arc::new(Mutex::new(Vec::new()));
    let mut requests = Vec::new();
    for (at, (group, change)) in changes.into_iter().enumerate() {
        let told = Arc::clone(&told);
        requests.push(Request {
            group,
            change,
            done: Box::new(move |result| told.lock().push((at, result))),
        });
    }
    let asked = requests.len();
    engine.process(requests);
    let mut told = told.lock().clone();
    told.sort_by_key(|(at, _)| *at);
    assert_eq!(told.len(), asked, "everyone who waits is told once");
    told.into_iter().map(|(_, result)| result).collect()
}

/// Runs a test of one seed; a failure says how to run that one again.
pub(crate) fn with_seeds(test: &str, binary: &str, seeds: std::ops::Range<u64>, body: impl Fn(u64)) {
    let seeds = match std::env::var("LEASEHOLD_SEED") {
        Ok(seed) => seed.parse::<u64>().map(|seed| seed..seed + 1).expect("LEASEHOLD_SEED is a number"),
        Err(_) => seeds,
    };
    for seed in seeds {
        let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(seed)));
        if let Err(panic) = run {
            eprintln!(
                "again: LEASEHOLD_SEED={seed} cargo test -p leasehold-consensus --test {binary} -- --exact {test}"
            );
            std::panic::resume_unwind(panic);
        }
    }
}

/// The path of a program, or `None` after having said that the test is skipped.
pub(crate) fn require(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file());
    if found.is_none() {
        missing(program);
    }
    found
}

/// Says that a test is skipped; fails when `LEASEHOLD_REQUIRE` lists what is missing.
pub(crate) fn missing(what: &str) {
    let required = std::env::var("LEASEHOLD_REQUIRE").unwrap_or_default();
    assert!(
        !required.split(',').any(|name| name.trim() == what),
        "LEASEHOLD_REQUIRE={required}, but no {what}"
    );
    // Past the harness, which hides what a passing test prints.
    let _ = writeln!(std::io::stderr(), "skipped: needs {what}");
}
