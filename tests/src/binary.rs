//! The `leasehold` binary, built once a test run, in the profile that the tests were built in.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Where the binary is. Builds it the first time.
///
/// # Panics
/// When it doesn't compile.
#[must_use]
pub fn leasehold() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(build)
}

/// Whether it is an optimised build: only then do promises about time hold.
#[must_use]
pub fn is_release() -> bool {
    profile_folder().file_name().is_some_and(|name| name == "release")
}

/// `target/debug` or `target/release`: this test binary lies in its `deps`.
fn profile_folder() -> PathBuf {
    let here = env::current_exe().expect("a test knows where it is");
    here.ancestors().nth(2).expect("a test binary lies in target/PROFILE/deps").to_owned()
}

fn build() -> PathBuf {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let folder = profile_folder();
    // The whole workspace is selected so that the dependencies have the features, and so the build, that
    // `cargo test --workspace` has given them already.
    let mut command = Command::new(cargo);
    command
        .args(["build", "--quiet", "--workspace", "--bin", "leasehold"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .env("CARGO_TARGET_DIR", folder.parent().expect("a profile's folder lies in the target folder"))
        .stdin(Stdio::null());
    if is_release() {
        command.arg("--release");
    }
    let status = command.status().expect("cargo can be started");
    assert!(status.success(), "building leasehold failed");
    folder.join("leasehold")
}
