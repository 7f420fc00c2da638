//! Real processes killed or traced while they write, on a real disk.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Chance, entry, no_fatal, require};
use leasehold_consensus::log::{Change, Entry, EntryId, GroupId, Log, LogConfig, Vote};

const DIR: &str = "LEASEHOLD_TEST_LOG_DIR";
const GROUPS: u32 = 8;
const KILLS: u64 = 200;

fn config() -> LogConfig {
    LogConfig { segment_bytes: 256 << 10, reserve_bytes: 16 << 10, tail_bytes_max: 64 << 10 }
}

/// Says a line at once: the parent must see no more and no less than what was acknowledged.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}

/// One group of the child: appends, votes and purges, and says what was acknowledged.
async fn write_for_ever(log: Log, group: GroupId) {
    let mut chance = Chance(u64::from(group.0));
    loop {
        let state = log.state(group);
        let next = state.last.map_or(0, |last| last.index + 1);
        let term = state.vote.map_or(1, |vote| vote.term);
        let count = 1 + chance.below(4);
        let entries = (next..next + count).map(|index| entry(group, term, index)).collect();
        log.write(group, Change::Append(entries)).await.unwrap();
        say(&format!("\nentry {group} {}", next + count - 1));
        if chance.below(5) == 0 {
            let vote = Vote { term: term + 1, node: 2, committed: false };
            log.write(group, Change::Vote(vote)).await.unwrap();
            say(&format!("\nvote {group} {}", term + 1));
        }
        // Group 0 keeps what it has: it pins old segments.
        let low = state.purged.map_or(0, |purged| purged.index + 1);
        if next > low + 200 && group.0 != 0 {
            let upto = log.read(group, next - 100..next - 99, 1).unwrap()[0].id;
            log.write(group, Change::Purge(upto)).await.unwrap();
        }
    }
}

/// Not a test by itself: the process that a test here starts and kills. Without a folder to write to it does nothing.
#[test]
fn child() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let log = Log::open(Path::new(&dir), config(), no_fatal()).unwrap();
    say("\nopen");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let groups = (0..GROUPS).map(|group| tokio::spawn(write_for_ever(log.clone(), GroupId(group))));
        for group in groups.collect::<Vec<_>>() {
            group.await.unwrap();
        }
    });
}

/// This binary again, as the process `test`, under `wrapper` when there is one.
fn start(dir: &Path, test: &str, wrapper: Option<&mut Command>) -> std::process::Child {
    let binary = std::env::current_exe().unwrap();
    let mut plain = Command::new(&binary);
    let command = match wrapper {
        Some(wrapper) => wrapper.arg(&binary),
        None => &mut plain,
    };
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env(DIR, dir).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

#[derive(Default)]
struct Acknowledged {
    entries: BTreeMap<GroupId, u64>,
    votes: BTreeMap<GroupId, u64>,
}

impl Acknowledged {
    fn note(&mut self, line: &str) {
        let mut words = line.split(' ');
        let map = match words.next() {
            Some("entry") => &mut self.entries,
            Some("vote") => &mut self.votes,
            _ => return,
        };
        // A line that the kill cut has no number or a shorter, smaller one.
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
        if let (Some(group), Some(number)) = (number(), number()) {
            let newest = map.entry(GroupId(u32::try_from(group).unwrap())).or_default();
            *newest = number.max(*newest);
        }
    }

    fn check(&self, log: &Log, kill: u64) {
        for (group, index) in &self.entries {
            let last = log.state(*group).last.map(|last| last.index);
            assert!(last >= Some(*index), "kill {kill}: group {group} has {last:?}, not {index}");
        }
        for (group, term) in &self.votes {
            let vote = log.state(*group).vote.map(|vote| vote.term);
            assert!(vote >= Some(*term), "kill {kill}: group {group} voted in {vote:?}, not {term}");
        }
        for group in log.groups() {
            for found in log.read(group, 0..u64::MAX, u64::MAX).unwrap() {
                assert_eq!(found, entry(group, found.id.term, found.id.index));
            }
        }
    }
}

#[test]
fn two_hundred_kills_lose_no_acknowledged_entry_and_no_vote() {
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged = Acknowledged::default();
    let mut chance = Chance(1);
    for kill in 0..KILLS {
        let mut child = start(dir.path(), "child", None);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        for line in lines.by_ref().take(usize::try_from(5 + chance.below(250)).unwrap()) {
            acknowledged.note(&line.unwrap());
        }
        child.kill().unwrap();
        for line in lines {
            acknowledged.note(&line.unwrap());
        }
        child.wait().unwrap();
        let log = Log::open(dir.path(), config(), no_fatal()).unwrap();
        acknowledged.check(&log, kill);
        let segments = log.usage().segments;
        assert!(segments < 40, "{segments} segments stay after {kill} restarts");
    }
    let entries: u64 = acknowledged.entries.values().sum();
    let votes: u64 = acknowledged.votes.values().sum();
    eprintln!("{KILLS} kills, {entries} entries and {votes} votes acknowledged, none lost");
    assert!(entries > 5000 && votes > 500, "{entries} entries, {votes} votes: the kills came too early");
}

/// Not a test by itself: the process that is traced.
#[test]
fn traced_child() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let log = Log::open(Path::new(&dir), config(), no_fatal()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        for index in 0..50 {
            let id = EntryId { term: 1, node: 1, index };
            let data = format!("<record {index}>").into();
            log.write(GroupId(1), Change::Append(vec![Entry { id, data }])).await.unwrap();
            say(&format!("\n<ack {index}>"));
        }
    });
}

/// Fails if a traced process said that a record is safe before it had written and then synced it. Returns how many it
/// said.
fn check_trace(trace: &str) -> u64 {
    let (mut written, mut synced, mut acknowledged) = (None, None, 0);
    for line in trace.lines() {
        let number = |open: &str| line.split_once(open)?.1.split_once('>')?.0.parse::<u64>().ok();
        if line.contains("pwrite64(") && line.contains("<record ") {
            written = number("<record ");
        } else if line.contains("fdatasync") && line.ends_with("= 0") {
            synced = written;
        } else if let Some(ack) = number("<ack ").filter(|_| line.contains("write(1,")) {
            assert_eq!(synced, Some(ack), "acknowledged before a sync after its write:\n{line}");
            acknowledged += 1;
        }
    }
    acknowledged
}

#[test]
fn every_acknowledgement_follows_a_sync_that_follows_the_write() {
    let Some(strace) = require("strace") else { return };
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    let mut wrapper = Command::new(strace);
    wrapper.args(["-f", "-s", "400", "-e", "trace=pwrite64,write,fdatasync", "-o"]).arg(&trace);
    let child = start(&dir.path().join("log"), "traced_child", Some(&mut wrapper));
    assert!(child.wait_with_output().unwrap().status.success());
    assert_eq!(check_trace(&std::fs::read_to_string(trace).unwrap()), 50);
}

#[test]
#[should_panic(expected = "acknowledged before a sync")]
fn the_trace_check_notices_a_missing_sync() {
    check_trace("1 pwrite64(5, \"..<record 3>..\", 80, 0) = 80\n2 write(1, \"<ack 3>\\n\", 8) = 8");
}
