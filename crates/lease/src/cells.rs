//! The cells of all keys of one wallet, found without a lock while keys come and go.
//!
//! Invariant: a cell never moves, and only its wallet changes whose it is. Where a key's cell is said to be is a hint: the
//! cell itself says whose it is, so a reader that is misled finds nothing, and asks the wallet. It is misled only while
//! the wallet's lock is held.
//!
//! Cells lie in segments, each as large as all before it. A key's is found by an index of four bytes a place, at most half
//! full, and one look at the cell: keys are keyed hashes already, so nobody outside can aim at a place, and their own bits
//! place them. Nothing shrinks: what a flood of keys took is kept for the next.

use std::array;
use std::sync::{Arc, OnceLock};

use leasehold_model::Key;

use crate::cell::{Cell, KeyCell};
use crate::sync::{AtomicU32, Ordering};

/// Cells in the first segment, as a power of two. Tests begin with two, to grow soon.
const FIRST_BITS: u32 = if cfg!(test) { 1 } else { 4 };
const FIRST: u32 = 1 << FIRST_BITS;
/// Bits of an index's entry that say where; the others are bits of the key, so that few other keys' cells are looked at.
const SLOT_BITS: u32 = 22;
const SLOT_MASK: u32 = (1 << SLOT_BITS) - 1;
/// Segments until the slots run out. A wallet has room for some 4 million keys; beyond, it holds no more.
const SEGMENTS: usize = (SLOT_BITS - FIRST_BITS) as usize;
const SLOTS_MAX: u32 = FIRST * ((1 << SEGMENTS) - 1);

/// Where the keys of a wallet have their cells. Read by everybody.
#[derive(Debug)]
pub struct Cells {
    segments: [OnceLock<Arc<[Cell]>>; SEGMENTS],
    /// One for each size, the last of which is in use. An entry is 0, or bits of a key and one more than its slot.
    indexes: [OnceLock<Box<[AtomicU32]>>; SEGMENTS],
    /// Which index is in use.
    level: AtomicU32,
}

/// A key's cell, to be looked at more than once without being searched for.
#[derive(Clone, Debug)]
pub struct Held {
    segment: Arc<[Cell]>,
    place: usize,
    slot: u32,
    key: Key,
}

/// The writer's side: which cells are free. One for all [`Cells`], behind the wallet's lock.
#[derive(Debug)]
pub(crate) struct Slab {
    cells: Arc<Cells>,
    /// Those that were left.
    free: Vec<u32>,
    /// From here on none was ever used.
    unused: u32,
}

impl Held {
    /// The cell, as its key's.
    #[inline]
    #[must_use]
    pub fn cell(&self) -> KeyCell<'_> {
        KeyCell::new(&self.segment[self.place], self.key, self.slot)
    }

    /// Whether both are of one key and one cell. Both come from one wallet.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        (self.slot, self.key) == (other.slot, other.key)
    }
}

impl Cells {
    fn new() -> Self {
        Self {
            segments: array::from_fn(|_| OnceLock::new()),
            indexes: array::from_fn(|_| OnceLock::new()),
            level: AtomicU32::new(0),
        }
    }

    /// A key's cell, if the key is held.
    #[inline]
    #[must_use]
    pub fn find(&self, key: Key) -> Option<KeyCell<'_>> {
        let (cell, slot) = self.search(key)?;
        Some(KeyCell::new(cell, key, slot))
    }

    /// As [`Cells::find`], to be kept. It spends nothing once the key is no longer held; then look again.
    #[must_use]
    pub fn hold(&self, key: Key) -> Option<Held> {
        let (_, slot) = self.search(key)?;
        self.held(key, slot)
    }

    #[inline]
    fn search(&self, key: Key) -> Option<(&Cell, u32)> {
        let index = self.index()?;
        let (tag, home) = (tag(key), home(key, index.len()));
        for distance in 0..index.len() {
            let entry = index[(home + distance) & (index.len() - 1)].load(Ordering::Acquire);
            if entry == 0 {
                return None;
            }
            let slot = (entry & SLOT_MASK) - 1;
            if entry & !SLOT_MASK == tag
                && let Some(cell) = self.cell(slot)
                && cell.is_of(key)
            {
                return Some((cell, slot));
            }
        }
        None
    }

    #[inline]
    fn index(&self) -> Option<&[AtomicU32]> {
        self.indexes[wide(self.level.load(Ordering::Acquire))].get().map(AsRef::as_ref)
    }

    #[inline]
    fn cell(&self, slot: u32) -> Option<&Cell> {
        let (segment, place) = place(slot);
        self.segments[segment].get()?.get(place)
    }

    fn held(&self, key: Key, slot: u32) -> Option<Held> {
        let (segment, place) = place(slot);
        Some(Held { segment: Arc::clone(self.segments[segment].get()?), place, slot, key })
    }
}

impl Slab {
    pub(crate) fn new() -> Self {
        Self { cells: Arc::new(Cells::new()), free: Vec::new(), unused: 0 }
    }

    pub(crate) const fn cells(&self) -> &Arc<Cells> {
        &self.cells
    }

    /// Gives a key that has none a cell. `None`: there is no room.
    pub(crate) fn open(&mut self, key: Key) -> Option<Held> {
        let slot = self.free.pop().or_else(|| self.next_slot())?;
        self.known_cell(slot).open(key);
        let index = self.cells.index().expect("an index of every size that is in use");
        insert(index, key, slot);
        self.cells.held(key, slot)
    }

    /// Takes a key's cell back.
    pub(crate) fn close(&mut self, held: &Held) {
        let left = self.known_cell(held.slot).vacate();
        debug_assert_eq!(left, 0, "what a cell holds is withdrawn before it is left");
        self.remove(held.key, held.slot);
        self.free.push(held.slot);
    }

    fn next_slot(&mut self) -> Option<u32> {
        if self.unused == SLOTS_MAX {
            return None;
        }
        if self.cells.cell(self.unused).is_none() {
            self.grow();
        }
        self.unused += 1;
        Some(self.unused - 1)
    }

    /// Another segment, and an index that is twice as large. None of its cells is free, so all are in it.
    fn grow(&self) {
        let (level, _) = place(self.unused);
        let size = wide(FIRST) << level;
        let segment: Arc<[Cell]> = (0..size).map(|_| Cell::new()).collect();
        self.cells.segments[level].set(segment).expect("a segment is made once");
        let index: Box<[AtomicU32]> = (0..size * 4).map(|_| AtomicU32::new(0)).collect();
        for slot in 0..self.unused {
            insert(&index, self.known_cell(slot).key(), slot);
        }
        self.cells.indexes[level].set(index).expect("an index is made once");
        self.cells.level.store(u32::try_from(level).expect("a few segments"), Ordering::Release);
    }

    /// Closes the gap that a key leaves in the index, so that a search ends at the first. Whoever searches meanwhile may
    /// miss a key.
    fn remove(&self, key: Key, slot: u32) {
        let index = self.cells.index().expect("an index, if there is a key");
        let mask = index.len() - 1;
        let mut gap = home(key, index.len());
        while index[gap].load(Ordering::Relaxed) & SLOT_MASK != slot + 1 {
            gap = (gap + 1) & mask;
        }
        let mut next = gap;
        loop {
            next = (next + 1) & mask;
            let entry = index[next].load(Ordering::Relaxed);
            if entry == 0 {
                break;
            }
            let home = home(self.known_cell((entry & SLOT_MASK) - 1).key(), index.len());
            let from = |place: usize| next.wrapping_sub(place) & mask;
            if from(home) >= from(gap) {
                index[gap].store(entry, Ordering::Release);
                gap = next;
            }
        }
        index[gap].store(0, Ordering::Release);
    }

    fn known_cell(&self, slot: u32) -> &Cell {
        self.cells.cell(slot).expect("a slot that is in use")
    }
}

/// Puts a key into the first free place from its home on. There is one: half of them are.
fn insert(index: &[AtomicU32], key: Key, slot: u32) {
    let mut at = home(key, index.len());
    while index[at].load(Ordering::Relaxed) != 0 {
        at = (at + 1) & (index.len() - 1);
    }
    index[at].store(tag(key) | (slot + 1), Ordering::Release);
}

/// Where a key is first looked for. Wallets are told apart by the low bits of the high half, and shards by those of the low
/// half: the keys of one shard are spread by the others.
#[inline]
fn home(key: Key, places: usize) -> usize {
    let bits = (key.low ^ (key.low >> 32)) & (u64::from(u32::MAX) >> 1);
    usize::try_from(bits).expect("31 bits") & (places - 1)
}

/// Bits of a key that don't say where it is.
#[inline]
fn tag(key: Key) -> u32 {
    u32::try_from(key.high >> 32).expect("32 bits") & !SLOT_MASK
}

/// A slot's segment, and where in it.
#[inline]
fn place(slot: u32) -> (usize, usize) {
    let number = slot + FIRST;
    let top = u32::BITS - 1 - number.leading_zeros();
    (wide(top - FIRST_BITS), wide(number - (1 << top)))
}

#[inline]
fn wide(number: u32) -> usize {
    usize::try_from(number).expect("32 bits or more")
}

/// Another with the same keys in the same cells, that say the same: for models.
#[cfg(test)]
impl Clone for Slab {
    fn clone(&self) -> Self {
        let copied = |number: &AtomicU32| AtomicU32::new(number.load(Ordering::Relaxed));
        let Cells { segments, indexes, level } = &*self.cells;
        let cells = Cells {
            segments: array::from_fn(|at| map(&segments[at], |cells| cells.iter().map(Cell::copy).collect())),
            indexes: array::from_fn(|at| map(&indexes[at], |index| index.iter().map(copied).collect())),
            level: copied(level),
        };
        Self { cells: Arc::new(cells), free: self.free.clone(), unused: self.unused }
    }
}

#[cfg(test)]
fn map<T>(once: &OnceLock<T>, with: impl FnOnce(&T) -> T) -> OnceLock<T> {
    once.get().map_or_else(OnceLock::new, |value| OnceLock::from(with(value)))
}
