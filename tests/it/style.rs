//! What a test can check of the house style: headers, file lengths, and words that pure crates don't use.
//!
//! Lines are looked at as text; a comment is never a finding. Everything clippy can check is left to clippy.

use std::fs;
use std::path::{Path, PathBuf};

use crate::arrows::pure_crates;

/// Past this a file has two subjects.
const FILE_LINES_MAX: usize = 600;

/// What a pure crate doesn't mention: each reads a clock, touches the system, or speaks to somebody.
const NOT_IN_PURE: &[&str] = &[
    "std::time::Instant",
    "Instant::now",
    "SystemTime",
    "std::fs",
    "std::net::Tcp",
    "std::net::Udp",
    "std::process",
    "std::thread",
    "std::env",
    "thread_rng",
    "println!",
    "eprintln!",
    "tracing::",
    "tokio::",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the workspace's folder is there")
}

/// All `.rs` files below a folder; nothing when there is no such folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a folder of the workspace can be read").path())
        .flat_map(|path| match path.is_dir() {
            true => sources(&path),
            false => vec![path],
        })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect();
    found.sort();
    found
}

/// The sources of every crate, `src` only: `crates/NAME/src/**`.
fn crate_sources() -> Vec<PathBuf> {
    let crates = fs::read_dir(root().join("crates")).expect("crates/ is there");
    crates.flat_map(|entry| sources(&entry.expect("crates/ can be read").path().join("src"))).collect()
}

fn is_test(path: &Path) -> bool {
    let path = path.strip_prefix(root()).unwrap_or(path);
    path.components().any(|part| part.as_os_str() == "tests") || path.ends_with("tests.rs")
}

/// Fails with one line for every file (and line in it) that `complaint` finds something in.
fn check(files: &[PathBuf], complaint: impl Fn(&str) -> Vec<String>) {
    assert!(!files.is_empty(), "no files to look at");
    let found: Vec<String> = files
        .iter()
        .flat_map(|path| {
            let text = fs::read_to_string(path).expect("a source file is UTF-8");
            complaint(&text).into_iter().map(|what| format!("{}: {what}", path.display())).collect::<Vec<_>>()
        })
        .collect();
    assert!(found.is_empty(), "{} findings:\n  {}", found.len(), found.join("\n  "));
}

/// Line numbers and text of the lines outside comments that hold any of `words`.
fn lines_with(text: &str, words: &[&str]) -> Vec<String> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .filter(|(_, line)| words.iter().any(|word| line.contains(word)))
        .map(|(index, line)| format!("line {}: {}", index + 1, line.trim()))
        .collect()
}

#[test]
fn every_source_file_says_what_it_is() {
    let mut files = crate_sources();
    files.extend(sources(&root().join("tests")));
    check(&files, |text| match text.starts_with("//!") {
        true => vec![],
        false => vec!["does not begin with //!".to_owned()],
    });
}

#[test]
fn no_file_has_two_subjects() {
    let mut files = sources(&root().join("crates"));
    files.extend(sources(&root().join("tests")));
    check(&files, |text| match text.lines().count() {
        lines if lines > FILE_LINES_MAX => vec![format!("{lines} lines, {FILE_LINES_MAX} are the most")],
        _ => vec![],
    });
}

#[test]
fn nothing_is_left_to_do_in_code() {
    let words = [
        concat!("todo", "!("),
        concat!("unimplemented", "!("),
        concat!("FIX", "ME"),
        concat!("#[ign", "ore"),
    ];
    let mut files = sources(&root().join("crates"));
    files.extend(sources(&root().join("tests")));
    check(&files, |text| lines_with(text, &words));
}

#[test]
fn pure_crates_read_no_clock_and_touch_no_system() {
    let files: Vec<PathBuf> = pure_crates()
        .flat_map(|name| sources(&root().join("crates").join(name).join("src")))
        .filter(|path| !is_test(path))
        .collect();
    check(&files, |text| lines_with(text, NOT_IN_PURE));
}
