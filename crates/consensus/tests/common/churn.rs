//! A log under the load that Raft puts on it: many groups append and purge, some are idle, all is durable.

use std::fs;
use std::path::Path;

use bytes::Bytes;
use leasehold_consensus::log::{Change, Entry, EntryId, GroupId, Log, LogConfig, OnFatal};

/// Entries that an idle group has: they stay for ever, and pin the segments they stand in until they are moved.
const IDLE_ENTRIES: u64 = 100;

/// The load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Churn {
    /// Appended by busy groups, all together.
    pub(crate) entries: u64,
    pub(crate) busy: u32,
    pub(crate) idle: u32,
    /// Entries an append.
    pub(crate) batch: u64,
    pub(crate) entry_bytes: usize,
    /// A busy group purges when it has this many, down to half of it.
    pub(crate) kept: u64,
}

/// What it took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Peak {
    /// Resident memory of the process.
    pub(crate) memory_bytes: u64,
    /// Of the files.
    pub(crate) disk_bytes: u64,
}

impl Peak {
    pub(crate) fn note(&mut self, dir: &Path) {
        self.memory_bytes = self.memory_bytes.max(resident_bytes());
        self.disk_bytes = self.disk_bytes.max(tree_bytes(dir));
    }
}

impl Churn {
    /// Entries that each busy group appends.
    pub(crate) fn each(&self) -> u64 {
        self.entries / u64::from(self.busy)
    }

    /// Runs on a new log in `dir`, and checks what is left.
    pub(crate) fn run(&self, dir: &Path, config: LogConfig) -> Peak {
        let fatal: OnFatal = std::sync::Arc::new(|error| panic!("fatal: {error}"));
        let log = Log::open(dir, config, fatal).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let peak = runtime.block_on(self.drive(&log, dir));
        for group in (0..self.idle).map(|group| GroupId(self.busy + group)) {
            let found = log.read(group, 0..u64::MAX, u64::MAX).unwrap();
            assert_eq!(found.len() as u64, IDLE_ENTRIES, "idle group {group}");
            assert!(found.iter().all(|found| *found == self.entry(found.id.index)));
        }
        peak
    }

    async fn drive(&self, log: &Log, dir: &Path) -> Peak {
        for group in 0..self.idle {
            let entries = (0..IDLE_ENTRIES).map(|index| self.entry(index)).collect();
            log.write(GroupId(self.busy + group), Change::Append(entries)).await.unwrap();
        }
        let churn = *self;
        let groups: Vec<_> = (0..self.busy)
            .map(|group| {
                let (log, dir) = (log.clone(), dir.to_owned());
                tokio::spawn(async move { churn.group(&log, GroupId(group), &dir).await })
            })
            .collect();
        let mut peak = Peak::default();
        for group in groups {
            let seen = group.await.unwrap();
            peak.memory_bytes = peak.memory_bytes.max(seen.memory_bytes);
            peak.disk_bytes = peak.disk_bytes.max(seen.disk_bytes);
        }
        peak
    }

    async fn group(&self, log: &Log, group: GroupId, dir: &Path) -> Peak {
        let (mut peak, mut next, mut kept) = (Peak::default(), 0, 0);
        while next < self.each() {
            let entries = (next..next + self.batch).map(|index| self.entry(index)).collect();
            log.write(group, Change::Append(entries)).await.unwrap();
            next += self.batch;
            kept += self.batch;
            if kept >= self.kept {
                kept = self.kept / 2;
                let upto = EntryId { term: 1, node: 1, index: next - kept - 1 };
                log.write(group, Change::Purge(upto)).await.unwrap();
                if group.0 == 0 {
                    peak.note(dir);
                }
            }
        }
        peak
    }

    fn entry(&self, index: u64) -> Entry {
        let mut data = vec![0; self.entry_bytes];
        data[..8].copy_from_slice(&index.to_le_bytes());
        Entry { id: EntryId { term: 1, node: 1, index }, data: Bytes::from(data) }
    }
}

/// Resident memory of this process.
pub(crate) fn resident_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or_default() * 4096
}

fn tree_bytes(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => tree_bytes(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    sizes.sum()
}
