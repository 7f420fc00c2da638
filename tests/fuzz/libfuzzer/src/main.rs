//! One decoder under libFuzzer: which, `LEASEHOLD_FUZZ_TARGET` says. `LEASEHOLD_FUZZ_SEEDS` names a folder that its first inputs
//! are written to instead.

#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use leasehold_fuzz::{TARGETS, Target};
use libfuzzer_sys::fuzz_target;

fn target() -> Target {
    let name = std::env::var("LEASEHOLD_FUZZ_TARGET").unwrap_or_default();
    let known = || TARGETS.map(|target| target.name).join(", ");
    TARGETS
        .into_iter()
        .find(|target| target.name == name)
        .unwrap_or_else(|| panic!("LEASEHOLD_FUZZ_TARGET is {name:?}; it may be: {}", known()))
}

static TARGET: OnceLock<Target> = OnceLock::new();

fuzz_target!(
    init: {
        let target = *TARGET.get_or_init(target);
        if let Some(folder) = std::env::var_os("LEASEHOLD_FUZZ_SEEDS").map(PathBuf::from) {
            for (place, bytes) in (target.seeds)().into_iter().enumerate() {
                fs::write(folder.join(format!("seed-{place}")), bytes).expect("the folder is there and can be written");
            }
        }
    },
    |bytes: &[u8]| (TARGET.get_or_init(target).run)(bytes)
);
