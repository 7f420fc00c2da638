//! A disk in memory that does what real ones do at the worst time.
//!
//! Invariant: it keeps exactly what was synced; of the rest a crash keeps any part, sector by sector and name by name,
//! as its seed says. It has no chance and no time of its own: the same calls and seeds give the same bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Disk, DiskFile};

/// What a disk writes at once: a torn write is torn at multiples of it.
pub const SECTOR_BYTES: usize = 512;

/// A simulated disk. Clones are the same disk: keep one to break it under the log.
#[derive(Clone, Debug, Default)]
pub struct SimDisk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    inodes: Vec<Inode>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    unsynced_names: Vec<NameChange>,
    capacity_bytes: Option<u64>,
    calls_until_power_cut: Option<u64>,
    syncs_until_failure: Option<u64>,
    syncs: u64,
    lies: bool,
}

#[derive(Debug, Default)]
struct Inode {
    bytes: Vec<u8>,
    durable: Vec<u8>,
    dirty: BTreeSet<usize>,
}

/// One change of the directory, durable or lost as a whole.
#[derive(Debug)]
struct NameChange {
    removed: Option<String>,
    added: Option<(String, usize)>,
}

impl SimDisk {
    /// An empty disk without bounds and faults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Bounds the sum of the lengths of all named files; `None` takes the bound away.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.0.lock().capacity_bytes = bytes;
    }

    /// After so many more changes (creations, writes, syncs …) every call fails, as if the power were gone.
    pub fn cut_power_after(&self, calls: u64) {
        self.0.lock().calls_until_power_cut = Some(calls);
    }

    /// After so many more syncs of files, they fail; what they were to keep is lost at the next crash.
    pub fn fail_sync_after(&self, syncs: u64) {
        self.0.lock().syncs_until_failure = Some(syncs);
    }

    /// From now on syncs of files succeed and keep nothing: a disk that lies, or a log that forgets to sync.
    pub fn lie_about_syncs(&self) {
        self.0.lock().lies = true;
    }

    /// How many syncs of files succeeded.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.0.lock().syncs
    }

    /// The sum of the lengths of all named files.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.0.lock().used_bytes()
    }

    /// Loses the power: of every unsynced sector and name the seed says whether it survived. Faults end.
    pub fn crash(&self, seed: u64) {
        let mut state = self.0.lock();
        let mut coins = Coins::new(seed);
        for inode in &mut state.inodes {
            inode.crash(&mut coins);
        }
        let changes = std::mem::take(&mut state.unsynced_names);
        for change in changes {
            if coins.flip() {
                state.make_durable(change);
            }
        }
        state.names = state.durable_names.clone();
        state.calls_until_power_cut = None;
        state.syncs_until_failure = None;
        state.lies = false;
    }

    /// Turns one bit of a file over, for good. False when the file has no such bit.
    #[must_use]
    pub fn flip_bit(&self, name: &str, offset: u64, bit: u32) -> bool {
        let mut state = self.0.lock();
        let Some(&inode) = state.names.get(name) else { return false };
        let inode = &mut state.inodes[inode];
        let Some(at) = usize::try_from(offset).ok().filter(|at| *at < inode.bytes.len()) else {
            return false;
        };
        let mask = 1_u8 << (bit % 8);
        inode.bytes[at] ^= mask;
        if let Some(byte) = inode.durable.get_mut(at) {
            *byte ^= mask;
        }
        true
    }
}

impl Inode {
    fn write(&mut self, bytes: &[u8], at: usize) {
        let end = at + bytes.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[at..end].copy_from_slice(bytes);
        self.dirty.extend(at / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES));
    }

    fn sync(&mut self) {
        self.durable.resize(self.bytes.len(), 0);
        for sector in std::mem::take(&mut self.dirty) {
            copy_sector(&self.bytes, &mut self.durable, sector);
        }
    }

    fn crash(&mut self, coins: &mut Coins) {
        if self.bytes.len() != self.durable.len() && coins.flip() {
            self.durable.resize(self.bytes.len(), 0);
        }
        for sector in std::mem::take(&mut self.dirty) {
            if coins.flip() {
                copy_sector(&self.bytes, &mut self.durable, sector);
            }
        }
        self.bytes = self.durable.clone();
    }
}

fn copy_sector(from: &[u8], to: &mut [u8], sector: usize) {
    let start = sector * SECTOR_BYTES;
    let end = (start + SECTOR_BYTES).min(from.len()).min(to.len());
    if start < end {
        to[start..end].copy_from_slice(&from[start..end]);
    }
}

impl State {
    fn used_bytes(&self) -> u64 {
        let bytes = self.names.values().map(|inode| self.inodes[*inode].bytes.len());
        bytes.map(|bytes| u64::try_from(bytes).unwrap_or(u64::MAX)).sum()
    }

    /// Counts one change against the power cut.
    fn change(&mut self) -> io::Result<()> {
        match self.calls_until_power_cut.as_mut() {
            Some(0) => Err(io::Error::other("the power is gone")),
            Some(calls) => {
                *calls -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn check_room(&self, inode: usize, len: usize) -> io::Result<()> {
        let more = len.saturating_sub(self.inodes[inode].bytes.len());
        let more = u64::try_from(more).unwrap_or(u64::MAX);
        match self.capacity_bytes {
            Some(capacity) if more > 0 && self.used_bytes().saturating_add(more) > capacity => {
                Err(io::ErrorKind::StorageFull.into())
            }
            _ => Ok(()),
        }
    }

    fn rename(&mut self, change: NameChange) {
        if let Some(name) = &change.removed {
            self.names.remove(name);
        }
        if let Some((name, inode)) = &change.added {
            self.names.insert(name.clone(), *inode);
        }
        self.unsynced_names.push(change);
    }

    fn make_durable(&mut self, change: NameChange) {
        if let Some(name) = change.removed {
            self.durable_names.remove(&name);
        }
        if let Some((name, inode)) = change.added {
            self.durable_names.insert(name, inode);
        }
    }
}

impl Disk for SimDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.0.lock();
        state.change()?;
        let inode = state.inodes.len();
        state.inodes.push(Inode::default());
        state.rename(NameChange { removed: None, added: Some((name.to_owned(), inode)) });
        Ok(Arc::new(SimFile { disk: self.clone(), inode }))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let inode = *self.0.lock().names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(SimFile { disk: self.clone(), inode }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.0.lock();
        state.change()?;
        let inode = *state.names.get(from).ok_or(io::ErrorKind::NotFound)?;
        state.rename(NameChange { removed: Some(from.to_owned()), added: Some((to.to_owned(), inode)) });
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.0.lock();
        state.change()?;
        if !state.names.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.rename(NameChange { removed: Some(name.to_owned()), added: None });
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.0.lock().names.keys().cloned().collect())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.0.lock();
        state.change()?;
        for change in std::mem::take(&mut state.unsynced_names) {
            state.make_durable(change);
        }
        Ok(())
    }
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    inode: usize,
}

impl DiskFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        let state = self.disk.0.lock();
        Ok(u64::try_from(state.inodes[self.inode].bytes.len()).unwrap_or(u64::MAX))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let state = self.disk.0.lock();
        let bytes = &state.inodes[self.inode].bytes;
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let found = bytes.get(start..start.saturating_add(buffer.len()));
        buffer.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.disk.0.lock();
        let at = usize::try_from(offset).map_err(io::Error::other)?;
        // The write under way when the power goes is the one that tears: it reaches the cache and reports failure.
        let alive = state.change();
        state.check_room(self.inode, at.saturating_add(bytes.len()))?;
        state.inodes[self.inode].write(bytes, at);
        alive
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.disk.0.lock();
        state.change()?;
        match state.syncs_until_failure.as_mut() {
            // As Linux does: the error is told once, the pages count as clean, and the disk never got them.
            Some(0) => {
                state.inodes[self.inode].dirty.clear();
                return Err(io::Error::other("the disk lost a write"));
            }
            Some(left) => *left -= 1,
            None => {}
        }
        state.syncs += 1;
        if state.lies {
            return Ok(());
        }
        state.inodes[self.inode].sync();
        Ok(())
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        let mut state = self.disk.0.lock();
        state.change()?;
        let len = usize::try_from(len).map_err(io::Error::other)?;
        state.check_room(self.inode, len)?;
        let inode = &mut state.inodes[self.inode];
        if inode.bytes.len() < len {
            inode.bytes.resize(len, 0);
        }
        Ok(())
    }
}

/// Coin flips of one crash. The seed also picks the bias: all lost, all kept and mixtures are each common.
struct Coins {
    state: u64,
    kept_of_4: u64,
}

impl Coins {
    fn new(seed: u64) -> Self {
        let mut coins = Self { state: seed, kept_of_4: 0 };
        coins.kept_of_4 = coins.next() % 5;
        coins
    }

    /// SplitMix64 (Steele, Lea, Flood 2014).
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn flip(&mut self) -> bool {
        self.next() % 4 < self.kept_of_4
    }
}

#[cfg(test)]
mod tests;
