//! Random traces against an independent oracle, and against the bounds that the contract promises.
//!
//! Every run draws the same traces. A failure prints the smallest trace that still fails; the same command repeats it:
//! `cargo test -p leasehold-limit --test properties`. Other traces: set `PROPTEST_RNG_SEED` to a number, and
//! `PROPTEST_CASES` for more of them.

mod bounds;
mod changes;
mod oracle;
mod same_answers;
mod trace;

use proptest::test_runner::{Config, RngSeed};

/// `cases` traces from a fixed seed, unless the environment names another seed or number.
fn config(cases: u32) -> Config {
    let asked = Config::default();
    let rng_seed = match asked.rng_seed {
        RngSeed::Random => RngSeed::Fixed(0x1ea5_e401d),
        RngSeed::Fixed(seed) => RngSeed::Fixed(seed),
    };
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { asked.cases } else { cases };
    Config {
        cases,
        rng_seed,
        failure_persistence: None,
        max_shrink_time: 5_000,
        // Unbounded, finding a smaller failure takes minutes where limits are drawn before their steps.
        max_flat_map_regens: 100,
        ..asked
    }
}
