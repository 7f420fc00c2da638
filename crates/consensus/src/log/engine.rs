//! The writer of a log, without its thread.
//!
//! Invariant: a change is checked before a byte of it is written, written and synced before it is seen by readers, and
//! seen by readers before it is acknowledged. After a failed write or sync nothing is acknowledged any more.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;

use leasehold_model::planted::{self, Bug};
use parking_lot::Mutex;

use super::index::{Effect, Index, Run, SegmentFile};
use super::read::{Reader, read_run};
use super::record::{self, Batch, Kind, MARKER_BYTES, Place};
use super::recover;
use super::segment::{self, Segment};
use super::{Change, Entry, EntryId, GroupId, LogConfig, OnFatal, OpenError, RECORD_BYTES_MAX, WriteError};
use crate::disk::Disk;

/// A write is synced when it has grown to this, even if more changes wait: bounds memory and the first one's delay.
const FLUSH_BYTES: u64 = 4 << 20;
/// Live entries of old segments are copied in steps of about this, between two writes of others.
const MOVE_BYTES: u64 = 1 << 20;
/// A log of fewer segments than this moves nothing: there is little to gain.
const MOVE_ABOVE_SEGMENTS: u64 = 4;
/// Room for any record that isn't entries.
const SMALL_BYTES: u64 = 96;

/// Told when a change is durable, or why it isn't made. Runs on the writer's thread: it only passes the word on.
pub type Done = Box<dyn FnOnce(Result<(), WriteError>) + Send>;

/// A change and who waits for it.
pub struct Request {
    /// The group.
    pub group: GroupId,
    /// What to change.
    pub change: Change,
    /// Who waits.
    pub done: Done,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("group", &self.group).field("change", &self.change).finish()
    }
}

/// See the module.
pub struct Engine {
    disk: Arc<dyn Disk>,
    config: LogConfig,
    on_fatal: OnFatal,
    index: Arc<Mutex<Index>>,
    /// None when a segment is needed and the disk is full.
    active: Option<Segment>,
    last_sequence: u64,
    last_end: u64,
    staged: Option<Staged>,
    full: bool,
    stopped: bool,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("active", &self.active).field("full", &self.full).finish()
    }
}

/// What the next write consists of.
struct Staged {
    batch: Batch,
    effects: Vec<(GroupId, Effect)>,
    dones: Vec<Done>,
    /// The last entry of each group whose log changes, as it will be.
    lasts: BTreeMap<GroupId, Option<EntryId>>,
}

/// Whether these go without a sync, by a bug that was put back.
fn is_taken_for_synced(effects: &[(GroupId, Effect)]) -> bool {
    let votes = || effects.iter().all(|(_, effect)| matches!(effect, Effect::Vote(_)));
    (planted::is(Bug::VoteNotSynced) && votes()) || (planted::is(Bug::AckBeforeSync) && !votes())
}

impl Engine {
    /// Opens the log on a disk, reading all of it. A torn write at its end is cut. On a full disk it opens too: what is
    /// there can be read, and changes are refused as [`WriteError::Full`].
    ///
    /// # Errors
    /// When an acknowledged record can't be read back, or the disk fails.
    pub fn open(disk: Arc<dyn Disk>, config: LogConfig, on_fatal: OnFatal) -> Result<Self, OpenError> {
        let recovered = recover::recover(disk.as_ref())?;
        let mut index = recovered.index;
        index.tail_bytes_max = config.tail_bytes_max;
        let mut engine = Self {
            disk,
            config,
            on_fatal,
            index: Arc::new(Mutex::new(index)),
            active: None,
            last_sequence: recovered.last_sequence,
            last_end: recovered.last_end,
            staged: None,
            full: false,
            stopped: false,
        };
        // Always a new segment: what a torn write left behind in the last one must never be reached by a record again.
        match engine.roll(0) {
            Err(error) if is_full(&error) => engine.full = true,
            other => other?,
        }
        engine.prune()?;
        Ok(engine)
    }

    /// Reads beside the writer.
    #[must_use]
    pub fn reader(&self) -> Reader {
        Reader::new(Arc::clone(&self.index))
    }

    /// Whether the last segment that was needed couldn't be made.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.full
    }

    /// Whether a write or a sync failed.
    #[must_use]
    pub const fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Sequence of the newest segment and where its records end.
    #[must_use]
    pub const fn position(&self) -> (u64, u64) {
        (self.last_sequence, self.last_end)
    }

    /// Makes these changes, in order, with as few syncs as possible. All are done or refused when it returns.
    pub fn process(&mut self, requests: impl IntoIterator<Item = Request>) {
        for request in requests {
            let Request { group, change, done } = request;
            match self.stage(group, change) {
                Ok(()) => match self.staged.as_mut() {
                    Some(staged) => staged.dones.push(done),
                    None => done(Ok(())),
                },
                Err(error) => done(Err(error)),
            }
            if self.staged.as_ref().is_some_and(|staged| staged.batch.len() >= FLUSH_BYTES) {
                self.flush();
            }
        }
        self.flush();
        self.maintain();
    }

    /// Tries again to make the segment that a full disk had no room for.
    pub fn probe(&mut self) {
        if self.full && !self.stopped {
            match self.roll(0) {
                Err(error) if is_full(&error) => {}
                Err(error) => self.fail(&error),
                Ok(()) => self.maintain(),
            }
        }
    }

    /// Marks the end as synced, so that damage there is noticed at the next opening.
    pub fn close(mut self) {
        self.flush();
        if let Some(active) = self.active.as_ref().filter(|_| !self.stopped) {
            let mut batch = Batch::new(active.sequence, active.end);
            batch.marker();
            if active.end + batch.len() <= active.len {
                let written = active.file.write_at(batch.bytes(), active.end);
                // Everything acknowledged is synced already: a marker that fails takes nothing away.
                let _ = written.and_then(|()| active.file.sync_data());
            }
        }
    }

    /// Checks a change, makes room for it and puts its records into the next write.
    fn stage(&mut self, group: GroupId, change: Change) -> Result<(), WriteError> {
        if self.stopped {
            return Err(WriteError::Stopped);
        }
        match change {
            Change::Append(entries) => self.stage_append(group, entries),
            Change::Vote(vote) => self.stage_small(group, Effect::Vote(vote)),
            Change::Truncate(from) => {
                self.flush_before_reorder(group);
                let last = self.index.lock().groups.get(&group).and_then(|log| log.last_below(from));
                self.stage_reorder(group, Effect::Truncate { from, last }, last)
            }
            Change::Purge(upto) => {
                self.flush_before_reorder(group);
                let last = self.index.lock().groups.get(&group).and_then(|log| log.last());
                let last = last.filter(|last| last.index > upto.index).unwrap_or(upto);
                self.stage_reorder(group, Effect::Purge(upto), Some(last))
            }
            Change::Clear => {
                self.flush_before_reorder(group);
                self.stage_reorder(group, Effect::Clear, None)
            }
        }
    }

    /// What a truncation, a purge or a clearing leaves is computed from the index: earlier changes of the group have to
    /// be in it, and later ones have to wait for it.
    fn flush_before_reorder(&mut self, group: GroupId) {
        if self.staged.as_ref().is_some_and(|staged| staged.lasts.contains_key(&group)) {
            self.flush();
        }
    }

    fn stage_append(&mut self, group: GroupId, entries: Vec<Entry>) -> Result<(), WriteError> {
        let bytes = record::entries_bytes(&entries);
        if bytes > RECORD_BYTES_MAX {
            return Err(WriteError::TooLarge { bytes });
        }
        let Some(last) = entries.last().map(|entry| entry.id) else { return Ok(()) };
        self.make_room(bytes, true)?;
        // Only now: making room can refuse earlier entries of the same group.
        self.check_contiguous(group, &entries)?;
        let staged = self.staged()?;
        for run in entries.chunk_by(|a, b| (a.id.term, a.id.node) == (b.id.term, b.id.node)) {
            let place = staged.batch.entries(group, Kind::Entries, run);
            let effect = Effect::Append { run: run_at(run, place), entries: run.to_vec() };
            staged.effects.push((group, effect));
        }
        staged.lasts.insert(group, Some(last));
        Ok(())
    }

    fn stage_small(&mut self, group: GroupId, effect: Effect) -> Result<(), WriteError> {
        self.make_room(SMALL_BYTES, false)?;
        let staged = self.staged()?;
        match &effect {
            Effect::Vote(vote) => staged.batch.vote(group, *vote),
            Effect::Truncate { from, last } => staged.batch.truncate(group, *from, *last),
            Effect::Purge(upto) => staged.batch.purge(group, *upto),
            Effect::Clear => staged.batch.clear(group),
            Effect::Append { .. } | Effect::Moved(_) => unreachable!("entries are staged with their bytes"),
        }
        staged.effects.push((group, effect));
        Ok(())
    }

    /// `last` is the group's last entry afterwards.
    fn stage_reorder(
        &mut self,
        group: GroupId,
        effect: Effect,
        last: Option<EntryId>,
    ) -> Result<(), WriteError> {
        self.stage_small(group, effect)?;
        self.staged()?.lasts.insert(group, last);
        Ok(())
    }

    fn check_contiguous(&self, group: GroupId, entries: &[Entry]) -> Result<(), WriteError> {
        let staged = self.staged.as_ref().and_then(|staged| staged.lasts.get(&group));
        let last = match staged {
            Some(last) => *last,
            None => self.index.lock().groups.get(&group).and_then(|log| log.last()),
        };
        let mut next = last.map_or(0, |last| last.index.saturating_add(1));
        for entry in entries {
            if entry.id.index != next {
                return Err(WriteError::Gap { group, index: entry.id.index, last });
            }
            next = next.saturating_add(1);
        }
        Ok(())
    }

    /// Makes sure that the active segment has room. Entries leave its reserve alone; what else there is may use it
    /// when no new segment can be made.
    fn make_room(&mut self, bytes: u64, entries: bool) -> Result<(), WriteError> {
        if self.fits(bytes, self.config.reserve_bytes) {
            return Ok(());
        }
        self.flush();
        if self.stopped {
            return Err(WriteError::Stopped);
        }
        match self.roll(bytes) {
            Ok(()) => Ok(()),
            Err(error) if is_full(&error) => {
                self.full = true;
                if !entries && self.fits(bytes, 0) { Ok(()) } else { Err(WriteError::Full) }
            }
            Err(error) => {
                self.fail(&error);
                Err(WriteError::Stopped)
            }
        }
    }

    fn fits(&self, bytes: u64, reserve: u64) -> bool {
        let staged = self.staged.as_ref().map_or(MARKER_BYTES as u64, |staged| staged.batch.len());
        let Some(active) = &self.active else { return false };
        active.end.saturating_add(staged).saturating_add(bytes).saturating_add(reserve) <= active.len
    }

    fn staged(&mut self) -> Result<&mut Staged, WriteError> {
        let active = self.active.as_ref().ok_or(WriteError::Full)?;
        Ok(self.staged.get_or_insert_with(|| {
            let mut batch = Batch::new(active.sequence, active.end);
            batch.marker();
            Staged { batch, effects: Vec::new(), dones: Vec::new(), lasts: BTreeMap::new() }
        }))
    }

    /// Begins the next segment. Nothing is staged.
    fn roll(&mut self, bytes: u64) -> io::Result<()> {
        let room = bytes + self.config.reserve_bytes + MARKER_BYTES as u64;
        let sequence = self.last_sequence + 1;
        let head = segment::head(sequence, self.last_end, &self.index.lock().groups);
        let made = segment::create(self.disk.as_ref(), &head, self.config.segment_bytes, room);
        let made = match made {
            Ok(made) => made,
            Err(error) => {
                if is_full(&error) {
                    segment::remove_unfinished(self.disk.as_ref())?;
                }
                return Err(error);
            }
        };
        let mut index = self.index.lock();
        index.files.insert(sequence, SegmentFile { file: Arc::clone(&made.file), len: made.len });
        drop(index);
        (self.last_sequence, self.last_end) = (sequence, made.end);
        self.active = Some(made);
        self.full = false;
        Ok(())
    }

    /// Writes and syncs what is staged, shows it to readers, and tells who waits.
    fn flush(&mut self) {
        let Some(staged) = self.staged.take() else { return };
        let active = self.active.as_mut().expect("nothing is staged without a segment");
        match active.file.write_at(staged.batch.bytes(), active.end) {
            Ok(()) => {}
            Err(error) if is_full(&error) => {
                // Part of it may stand there: nothing must follow it in this segment.
                self.active = None;
                self.full = true;
                return tell(staged.dones, &Err(WriteError::Full));
            }
            Err(error) => {
                self.fail(&error);
                return tell(staged.dones, &Err(WriteError::Stopped));
            }
        }
        if !is_taken_for_synced(&staged.effects)
            && let Err(error) = active.file.sync_data()
        {
            self.fail(&error);
            return tell(staged.dones, &Err(WriteError::Stopped));
        }
        active.end += staged.batch.len();
        self.last_end = active.end;
        let mut index = self.index.lock();
        for (group, effect) in staged.effects {
            index.apply(group, effect);
        }
        drop(index);
        tell(staged.dones, &Ok(()));
    }

    /// Keeps the log small: removes segments in which nothing lives, and moves what lives out of the oldest one when
    /// most of the log is dead.
    fn maintain(&mut self) {
        if self.stopped {
            return;
        }
        let kept = self.prune().and_then(|()| self.move_oldest()).and_then(|()| self.prune());
        if let Err(error) = kept {
            self.fail(&error);
        }
    }

    /// Removes the oldest segments while nothing in them lives. One after the other, each durably: a gap between two
    /// segments would be taken for a lost one.
    fn prune(&mut self) -> io::Result<()> {
        loop {
            let mut index = self.index.lock();
            let Some((&oldest, _)) = index.files.first_key_value() else { return Ok(()) };
            if oldest == self.last_sequence || index.live.of(oldest).entries > 0 {
                return Ok(());
            }
            index.files.remove(&oldest);
            index.live.forget(oldest);
            drop(index);
            self.disk.remove(&segment::name(oldest))?;
            self.disk.sync_dir()?;
        }
    }

    fn move_oldest(&mut self) -> io::Result<()> {
        let Some((file, runs)) = self.to_move() else { return Ok(()) };
        for (group, run) in runs {
            let entries = read_run(group, &run, &file).map_err(io::Error::other)?;
            if self.make_room(record::entries_bytes(&entries), true).is_err() {
                break;
            }
            let Ok(staged) = self.staged() else { break };
            let place = staged.batch.entries(group, Kind::Moved, &entries);
            staged.effects.push((group, Effect::Moved(Run { place: Some(place), ..run })));
        }
        self.flush();
        Ok(())
    }

    /// A step's worth of what lives in the oldest segment, when more than half of the log is dead. A log is walked
    /// through at most once for every time that it doubles, so moving costs at most one more write for each write.
    fn to_move(&self) -> Option<(SegmentFile, Vec<(GroupId, Run)>)> {
        let index = self.index.lock();
        let spared = self.config.segment_bytes.saturating_mul(MOVE_ABOVE_SEGMENTS);
        let (&oldest, file) = index.files.first_key_value()?;
        let live = index.live.bytes().saturating_mul(2).saturating_add(spared);
        if oldest == self.last_sequence || index.disk_bytes() <= live {
            return None;
        }
        let mut bytes = 0;
        let all = index.groups.iter().flat_map(|(group, log)| log.runs.iter().map(|run| (*group, *run)));
        let here = all.filter(|(_, run)| run.place.is_some_and(|place| place.segment == oldest));
        let step = here.take_while(|(_, run)| {
            let fits = bytes < MOVE_BYTES;
            bytes += run.place.map_or(0, |place| u64::from(place.len));
            fits
        });
        Some((file.clone(), step.collect()))
    }

    fn fail(&mut self, error: &io::Error) {
        // Nothing is written any more: a later record must not stand where an earlier one failed.
        self.active = None;
        if !self.stopped {
            self.stopped = true;
            (self.on_fatal)(error);
        }
        if let Some(staged) = self.staged.take() {
            tell(staged.dones, &Err(WriteError::Stopped));
        }
    }
}

fn run_at(entries: &[Entry], place: Place) -> Run {
    let (first, last) = (entries[0].id, entries[entries.len() - 1].id);
    Run { term: first.term, node: first.node, low: first.index, high: last.index, place: Some(place) }
}

fn tell(dones: Vec<Done>, result: &Result<(), WriteError>) {
    for done in dones {
        done(result.clone());
    }
}

/// Whether all that is missing is space.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
