//! Every decoder on what is kept of it and on what is nearly right. A failure names the seed, or the file.

use std::panic::{AssertUnwindSafe, catch_unwind};

use leasehold_fuzz::{Mutator, TARGETS, Target, kept};

/// Tries of each target at every test run; `LEASEHOLD_FUZZ_TRIES` has it try more.
const TRIES: u64 = 3_000;

/// Decodes, and says which input it was that a panic came of.
#[track_caller]
fn run(target: Target, bytes: &[u8], which: &str) {
    let ended = catch_unwind(AssertUnwindSafe(|| (target.run)(bytes)));
    assert!(ended.is_ok(), "{}: {which}: {bytes:02x?}", target.name);
}

#[test]
fn nothing_that_is_kept_makes_a_decoder_panic() {
    for target in TARGETS {
        for (file, bytes) in kept(target.name).expect("what is kept can be read") {
            run(target, &bytes, &file.display().to_string());
        }
    }
}

#[test]
fn nothing_that_is_nearly_right_makes_a_decoder_panic() {
    let tries = std::env::var("LEASEHOLD_FUZZ_TRIES")
        .map_or(TRIES, |tries| tries.parse().expect("a number of tries"));
    for target in TARGETS {
        let mut inputs = (target.seeds)();
        assert!(!inputs.is_empty(), "{} has nothing to begin with", target.name);
        for (place, bytes) in inputs.iter().enumerate() {
            run(target, bytes, &format!("what it begins with, {place}"));
        }
        inputs
            .extend(kept(target.name).expect("what is kept can be read").into_iter().map(|(_, bytes)| bytes));
        for seed in 0..tries {
            run(target, &Mutator::new(seed).next(&inputs), &format!("seed {seed}"));
        }
    }
}
