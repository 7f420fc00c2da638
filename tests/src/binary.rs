//! The `leasehold` binary, built once a test run, in the profile that the tests were built in.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Where the binary is: where `LEASEHOLD_BIN` says, else built the first time.
///
/// # Panics
/// When it doesn't compile.
#[must_use]
pub fn leasehold() -> &'static Path {
    static BINARY: OnceLock<Option<PathBuf>> = OnceLock::new();
    BINARY
        .get_or_init(|| env::var_os("LEASEHOLD_BIN").map(PathBuf::from).or_else(build))
        .as_deref()
        .expect("leasehold compiles")
}

/// Whether it is an optimised build: only then do promises about time hold.
#[must_use]
pub fn is_release() -> bool {
    profile_folder().file_name().is_some_and(|name| name == "release")
}

/// `target/debug` or `target/release`: a harness lies in it, a test binary in its `deps`.
fn profile_folder() -> PathBuf {
    let here = env::current_exe().expect("a test knows where it is");
    let folder = here.parent().expect("a program lies in a folder");
    let inside = folder.file_name().is_some_and(|name| name == "deps" || name == "examples");
    let folder = if inside { folder.parent() } else { Some(folder) };
    folder.expect("deps and examples lie in target/PROFILE").to_owned()
}

/// `None` when it doesn't compile: then the compiler has said why, once.
fn build() -> Option<PathBuf> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let folder = profile_folder();
    // Selected as `cargo run` does it in the workspace: the features are those of the program that users get, without
    // what tests' dependencies switch on.
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
    status.success().then(|| folder.join("leasehold"))
}
