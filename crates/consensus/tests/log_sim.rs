//! The log on a disk that loses, tears and flips, over thousands of seeds.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

mod common;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::{Chance, entry, process, with_seeds};
use leasehold_consensus::disk::sim::SimDisk;
use leasehold_consensus::log::{
    Change, Engine, EntryId, GroupId, GroupState, LogConfig, OnFatal, OpenError, Vote, WriteError,
};

const GROUPS: u32 = 4;

/// Segments of a few dozen records, so that rolling, removing and moving happen all the time.
fn config() -> LogConfig {
    LogConfig { segment_bytes: 8192, reserve_bytes: 1024, tail_bytes_max: 2048 }
}

fn open(disk: &SimDisk) -> Result<Engine, OpenError> {
    let fatal: OnFatal = Arc::new(|_| {});
    Engine::open(Arc::new(disk.clone()), config(), fatal)
}

/// What a group should have: its state and the terms of its entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Model {
    vote: Option<Vote>,
    purged: Option<EntryId>,
    terms: BTreeMap<u64, u64>,
}

impl Model {
    fn last(&self) -> Option<EntryId> {
        let last = self.terms.last_key_value().map(|(index, term)| id(*term, *index));
        last.or(self.purged)
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Append(entries) => self.terms.extend(entries.iter().map(|e| (e.id.index, e.id.term))),
            Change::Vote(vote) => self.vote = Some(*vote),
            Change::Truncate(from) => self.terms.retain(|index, _| index < from),
            Change::Purge(upto) => {
                self.terms.retain(|index, _| *index > upto.index);
                if self.purged.is_none_or(|purged| purged.index < upto.index) {
                    self.purged = Some(*upto);
                }
            }
            Change::Clear => *self = Self { vote: self.vote, ..Self::default() },
        }
    }

    /// A change that the group could get next.
    fn random_change(&self, group: GroupId, chance: &mut Chance) -> Change {
        let last = self.last();
        let next = last.map_or(0, |last| last.index + 1);
        let term = last.map_or(1, |last| last.term) + u64::from(chance.below(8) == 0);
        match chance.below(20) {
            0..=11 => {
                let count = 1 + chance.below(5);
                Change::Append((next..next + count).map(|index| entry(group, term, index)).collect())
            }
            12..=14 => Change::Vote(Vote { term, node: chance.below(3), committed: chance.below(2) == 0 }),
            15..=16 => {
                let low = self.purged.map_or(0, |purged| purged.index + 1);
                Change::Truncate(low.max(next.saturating_sub(chance.below(6))))
            }
            17..=18 => {
                let keep = chance.below(12);
                let indexes: Vec<(&u64, &u64)> = self.terms.iter().collect();
                let upto =
                    indexes.len().checked_sub(1 + usize::try_from(keep).unwrap()).map(|at| indexes[at]);
                let snapshot = id(term + 1, next + 5);
                Change::Purge(upto.map_or(self.last().unwrap_or(snapshot), |(index, term)| id(*term, *index)))
            }
            _ if chance.below(6) == 0 => Change::Purge(id(term + 1, next + chance.below(10))),
            _ if chance.below(10) == 0 => Change::Clear,
            _ => Change::Append(vec![entry(group, term, next)]),
        }
    }
}

fn id(term: u64, index: u64) -> EntryId {
    EntryId { term, node: 1 + term % 3, index }
}

/// What the log has for a group; every entry that it returns is the one that was written.
fn found(engine: &Engine, group: GroupId) -> Model {
    let reader = engine.reader();
    let GroupState { vote, purged, last } = reader.state(group);
    let entries = reader.read(group, 0..u64::MAX, u64::MAX).unwrap();
    for found in &entries {
        assert_eq!(*found, entry(group, found.id.term, found.id.index), "group {group}");
    }
    let terms: BTreeMap<u64, u64> = entries.iter().map(|entry| (entry.id.index, entry.id.term)).collect();
    let model = Model { vote, purged, terms };
    assert_eq!(model.last(), last, "group {group}");
    if let Some(index) = last.map(|last| last.index).filter(|index| model.terms.contains_key(index)) {
        let middle = index - model.terms.len() as u64 / 2;
        let one = reader.read(group, middle..middle + 1, 1).unwrap();
        assert_eq!(one, [entry(group, model.terms[&middle], middle)], "group {group}");
    }
    model
}

fn groups() -> impl Iterator<Item = GroupId> {
    (0..GROUPS).map(GroupId)
}

/// Up to a few changes of random groups. Group 0 is mostly idle: its old entries pin old segments.
fn random_changes(models: &BTreeMap<GroupId, Model>, chance: &mut Chance) -> Vec<(GroupId, Change)> {
    let mut models = models.clone();
    let count = 1 + chance.below(5);
    (0..count)
        .map(|_| {
            let busy = GroupId(1 + u32::try_from(chance.below(u64::from(GROUPS) - 1)).unwrap());
            let group = if chance.below(60) == 0 { GroupId(0) } else { busy };
            let model = models.entry(group).or_default();
            let change = model.random_change(group, chance);
            model.apply(&change);
            (group, change)
        })
        .collect()
}

/// What each group could have been, one for each change since the last that was acknowledged.
type Possible = BTreeMap<GroupId, Vec<Model>>;

/// Runs changes until the power goes; returns what may be found afterwards.
fn run_until_power_cut(engine: &mut Engine, chance: &mut Chance) -> Possible {
    let mut models: BTreeMap<GroupId, Model> = groups().map(|group| (group, found(engine, group))).collect();
    let mut possible: Possible = models.iter().map(|(group, model)| (*group, vec![model.clone()])).collect();
    for _ in 0..1000 {
        let changes = random_changes(&models, chance);
        let results = process(engine, changes.clone());
        for ((group, change), result) in changes.into_iter().zip(results) {
            let model = models.entry(group).or_default();
            let before = model.clone();
            model.apply(&change);
            let possible = possible.entry(group).or_default();
            match result {
                Ok(()) => *possible = vec![model.clone()],
                Err(WriteError::Stopped) => possible.extend(partial(&before, &change, model)),
                Err(other) => panic!("{other}: {change:?}"),
            }
        }
        if engine.is_stopped() {
            break;
        }
        if chance.below(20) == 0 {
            for group in groups() {
                assert_eq!(found(engine, group), models[&group]);
            }
        }
    }
    possible
}

/// An append of two terms is two records: the first can survive alone.
fn partial(before: &Model, change: &Change, after: &Model) -> Vec<Model> {
    let mut models = Vec::new();
    if let Change::Append(entries) = change {
        for count in 1..entries.len() {
            let mut model = before.clone();
            model.apply(&Change::Append(entries[..count].to_vec()));
            models.push(model);
        }
    }
    models.push(after.clone());
    models
}

#[test]
fn no_crash_loses_what_was_acknowledged_or_brings_back_what_was_not_written() {
    let segments = AtomicU64::new(0);
    with_seeds(
        "no_crash_loses_what_was_acknowledged_or_brings_back_what_was_not_written",
        "log_sim",
        0..1000,
        |seed| {
            let mut chance = Chance(seed);
            let disk = SimDisk::new();
            for _ in 0..2 {
                let mut engine = open(&disk).unwrap();
                disk.cut_power_after(chance.below(250));
                let possible = run_until_power_cut(&mut engine, &mut chance);
                segments.fetch_add(engine.position().0, Ordering::Relaxed);
                drop(engine);
                disk.crash(chance.next());
                // The power can go again while the log is being opened.
                disk.cut_power_after(chance.below(12));
                let _ = open(&disk);
                disk.crash(chance.next());
                let engine = open(&disk).unwrap();
                for (group, possible) in &possible {
                    let found = found(&engine, *group);
                    assert!(possible.contains(&found), "group {group}: {found:?}\nnot one of {possible:?}");
                }
            }
        },
    );
    assert!(segments.load(Ordering::Relaxed) > 3000, "{segments:?}: hardly a segment was begun");
}

#[test]
fn a_flipped_bit_is_refused_or_harmless_but_never_a_wrong_entry() {
    let refused = AtomicU64::new(0);
    with_seeds("a_flipped_bit_is_refused_or_harmless_but_never_a_wrong_entry", "log_sim", 0..1500, |seed| {
        let mut chance = Chance(seed);
        let disk = SimDisk::new();
        let mut engine = open(&disk).unwrap();
        let mut models: BTreeMap<GroupId, Model> = BTreeMap::new();
        let mut history: Vec<BTreeMap<GroupId, Model>> = Vec::new();
        let mut before_last = engine.position();
        for _ in 0..chance.below(120) + 2 {
            let changes = random_changes(&models, &mut chance);
            before_last = engine.position();
            history = vec![models.clone()];
            for (change, result) in changes.iter().zip(process(&mut engine, changes.clone())) {
                result.unwrap();
                models.entry(change.0).or_default().apply(&change.1);
                history.push(models.clone());
            }
        }
        drop(engine);
        let names: Vec<String> = leasehold_consensus::disk::Disk::list(&disk).unwrap();
        let name = &names[usize::try_from(chance.below(names.len() as u64)).unwrap()];
        let sequence = u64::from_str_radix(name.trim_end_matches(".seg"), 16).unwrap();
        let offset = chance.below(6000);
        assert!(disk.flip_bit(name, offset, u32::try_from(chance.below(8)).unwrap()));

        match open(&disk) {
            Err(OpenError::Damaged { .. }) => {
                refused.fetch_add(1, Ordering::Relaxed);
            }
            Err(other) => panic!("{other}"),
            Ok(engine) => {
                let now: BTreeMap<GroupId, Model> =
                    groups().map(|group| (group, found(&engine, group))).collect();
                let full = |models: &BTreeMap<GroupId, Model>| {
                    groups().all(|group| now[&group] == models.get(&group).cloned().unwrap_or_default())
                };
                let in_last_write = (sequence, offset) >= before_last;
                let allowed = if in_last_write { &history[..] } else { std::slice::from_ref(&models) };
                assert!(allowed.iter().any(full), "{name} byte {offset}, last write from {before_last:?}");
            }
        }
    });
    assert!(refused.into_inner() > 500);
}

#[test]
fn a_failed_sync_is_fatal_and_acknowledges_nothing() {
    with_seeds("a_failed_sync_is_fatal_and_acknowledges_nothing", "log_sim", 0..200, |seed| {
        let mut chance = Chance(seed);
        let disk = SimDisk::new();
        let told = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&told);
        let fatal: OnFatal = Arc::new(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let mut engine = Engine::open(Arc::new(disk.clone()), config(), fatal).unwrap();
        disk.fail_sync_after(chance.below(60));
        let possible = run_until_power_cut(&mut engine, &mut chance);
        assert_eq!(told.load(Ordering::Relaxed), 1, "the owner is told once");
        let later = process(&mut engine, [(GroupId(1), Change::Vote(Vote::default()))]);
        assert_eq!(later, [Err(WriteError::Stopped)]);
        drop(engine);

        // The process starts again while the cache still shows what the disk never got, and only then the power goes.
        if chance.below(2) == 0 {
            disk.fail_sync_after(u64::MAX);
            drop(open(&disk).unwrap());
        }
        disk.crash(chance.next());
        let engine = open(&disk).unwrap();
        for (group, possible) in &possible {
            let found = found(&engine, *group);
            assert!(possible.contains(&found), "group {group}: {found:?}\nnot one of {possible:?}");
        }
    });
}

#[test]
fn the_harness_notices_an_acknowledgement_without_a_sync() {
    let noticed = (0..50).filter(|seed| {
        let mut chance = Chance(*seed);
        let disk = SimDisk::new();
        let mut engine = open(&disk).unwrap();
        disk.lie_about_syncs();
        disk.cut_power_after(100);
        let possible = run_until_power_cut(&mut engine, &mut chance);
        drop(engine);
        disk.crash(chance.next());
        let sound = catch_unwind(AssertUnwindSafe(|| {
            let engine = open(&disk).ok()?;
            Some(possible.iter().all(|(group, possible)| possible.contains(&found(&engine, *group))))
        }));
        !matches!(sound, Ok(Some(true)))
    });
    assert!(noticed.count() > 20);
}
