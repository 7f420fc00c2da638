//! An ordered map from uniform 128-bit keys to small entries, in little more memory than the entries.
//!
//! A directory by the keys' top bits points to short sorted vectors. It doubles and halves a bucket at a time, one step
//! with each change, so that no single change moves everything. Keys that aren't uniform are found as surely, only slower.
//! Invariant: walking the buckets is walking the keys in order. Its layout is nobody's business: it is not replicated.

use std::cmp::Ordering;

use leasehold_model::Key;

/// What the directory stores: 40 bytes, so that a million of them with all overhead stay within 48 each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Key,
    pub(crate) words: [u64; 2],
    pub(crate) limit: u32,
    pub(crate) high: [u8; 3],
    /// `None`: the state is wide and lives beside the directory.
    pub(crate) shape: Option<crate::pack::Shape>,
}

const _: () = assert!(size_of::<Entry>() == 40, "the memory goal counts on 40 bytes an entry");

/// Mean entries a bucket at which the directory doubles: long enough that a bucket's header and slack weigh little, short
/// enough that an insertion moves at most a few cache lines.
const MEAN_MAX: usize = 64;
/// Mean entries a bucket at which the directory halves. Far below `MEAN_MAX / 2`, so that it doesn't swing.
const MEAN_MIN: usize = 8;
/// Where doubling ends: far beyond any memory, and every prefix still fits the key's first half.
const BITS_MAX: u32 = 40;
/// Entries that a full bucket grows by: its slack is half of this on average.
const GROWTH: usize = 4;
/// Unused places beyond which a bucket gives memory back.
const SLACK_MAX: usize = 3 * GROWTH;
/// Neighbours of the guessed place that are tried before falling back to binary search.
const WALK_MAX: usize = 8;

type Bucket = Vec<Entry>;

/// The ordered map.
#[derive(Debug)]
pub(crate) struct Directory {
    now: Level,
    /// The level that `now` is moving into. Its units `0..moved` are there, the others still in `now`.
    next: Option<Level>,
    moved: usize,
    len: usize,
}

/// All buckets at one number of bits.
#[derive(Debug)]
struct Level {
    bits: u32,
    buckets: Vec<Bucket>,
}

impl Directory {
    pub(crate) fn new() -> Self {
        Self::for_entries(0)
    }

    /// Empty, with as many buckets as that many entries need: it neither doubles nor halves on the way there.
    pub(crate) fn for_entries(entries: usize) -> Self {
        let buckets = (entries / (MEAN_MAX / 2)).max(1).next_power_of_two();
        let now = Level { bits: buckets.ilog2(), buckets: vec![Bucket::new(); buckets] };
        Self { now, next: None, moved: 0, len: 0 }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, key: Key) -> Option<&Entry> {
        let (level, at) = self.place(key);
        let bucket = &level.buckets[at];
        search(bucket, level.bits, key).ok().map(|i| &bucket[i])
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut Entry> {
        let (level, at) = self.place_mut(key);
        let bits = level.bits;
        let bucket = &mut level.buckets[at];
        search(bucket, bits, key).ok().map(|i| &mut bucket[i])
    }

    /// Puts `entry` in its place and returns the one that was there.
    pub(crate) fn insert(&mut self, entry: Entry) -> Option<Entry> {
        let (level, at) = self.place_mut(entry.key);
        let bits = level.bits;
        let bucket = &mut level.buckets[at];
        match search(bucket, bits, entry.key) {
            Ok(i) => Some(std::mem::replace(&mut bucket[i], entry)),
            Err(i) => {
                if bucket.len() == bucket.capacity() {
                    // The share of its length keeps a bucket of keys that aren't uniform from growing in tiny steps.
                    bucket.reserve_exact(GROWTH.max(bucket.len() / 8));
                }
                bucket.insert(i, entry);
                self.len += 1;
                if self.next.is_none()
                    && self.len > self.now.buckets.len() * MEAN_MAX
                    && self.now.bits < BITS_MAX
                {
                    self.start(self.now.bits + 1);
                }
                self.step();
                None
            }
        }
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<Entry> {
        let (level, at) = self.place_mut(key);
        let bits = level.bits;
        let bucket = &mut level.buckets[at];
        let i = search(bucket, bits, key).ok()?;
        let entry = bucket.remove(i);
        if bucket.capacity() - bucket.len() > SLACK_MAX.max(bucket.len() / 4) {
            bucket.shrink_to(bucket.len() + GROWTH);
        }
        self.len -= 1;
        if self.next.is_none() && self.len < self.now.buckets.len() * MEAN_MIN && self.now.bits > 0 {
            self.start(self.now.bits - 1);
        }
        self.step();
        Some(entry)
    }

    /// The entry of the smallest key that isn't below `key`.
    pub(crate) fn first_from(&self, key: Key) -> Option<&Entry> {
        let (level, at) = self.place(key);
        let bucket = &level.buckets[at];
        let i = search(bucket, level.bits, key).unwrap_or_else(|i| i);
        if let Some(entry) = bucket.get(i) {
            return Some(entry);
        }
        let rest = level.buckets[at + 1..].iter();
        let in_next = self.next.as_ref().is_some_and(|next| std::ptr::eq(next, level));
        let after: &[Bucket] = if in_next { &self.now.buckets } else { &[] };
        rest.chain(after).find_map(|bucket| bucket.first())
    }

    /// All entries, in key order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        let moved = self.next.iter().flat_map(|next| &next.buckets);
        moved.chain(&self.now.buckets).flatten()
    }

    fn place(&self, key: Key) -> (&Level, usize) {
        match &self.next {
            Some(next) if prefix(key, self.now.bits.min(next.bits)) < self.moved => {
                (next, prefix(key, next.bits))
            }
            Some(_) | None => (&self.now, prefix(key, self.now.bits)),
        }
    }

    fn place_mut(&mut self, key: Key) -> (&mut Level, usize) {
        match &mut self.next {
            Some(next) if prefix(key, self.now.bits.min(next.bits)) < self.moved => {
                let at = prefix(key, next.bits);
                (next, at)
            }
            Some(_) | None => {
                let at = prefix(key, self.now.bits);
                (&mut self.now, at)
            }
        }
    }

    /// Starts to move to that many bits.
    fn start(&mut self, bits: u32) {
        self.next = Some(Level { bits, buckets: Vec::with_capacity(1 << bits) });
        self.moved = 0;
    }

    /// Moves one bucket into two or two into one, if a move is under way.
    fn step(&mut self) {
        let Some(next) = &mut self.next else { return };
        if next.bits > self.now.bits {
            let mut low = std::mem::take(&mut self.now.buckets[self.moved]);
            let bit = 63 - self.now.bits;
            let middle = low.partition_point(|entry| (entry.key.high >> bit) & 1 == 0);
            let high = with_slack(&low[middle..]);
            low.truncate(middle);
            low.shrink_to(middle + GROWTH / 2);
            next.buckets.extend([low, high]);
        } else {
            let mut low = std::mem::take(&mut self.now.buckets[2 * self.moved]);
            let high = std::mem::take(&mut self.now.buckets[2 * self.moved + 1]);
            low.reserve_exact(high.len());
            low.extend(high);
            next.buckets.push(low);
        }
        self.moved += 1;
        if next.buckets.len() == 1 << next.bits
            && let Some(next) = self.next.take()
        {
            self.now = next;
            self.moved = 0;
        }
    }
}

/// A copy with a little room.
fn with_slack(entries: &[Entry]) -> Bucket {
    let mut bucket = Bucket::with_capacity(entries.len() + GROWTH / 2);
    bucket.extend_from_slice(entries);
    bucket
}

/// The top `bits` bits of a key, as an index.
fn prefix(key: Key, bits: u32) -> usize {
    let top = key.high.checked_shr(64 - bits).unwrap_or(0);
    usize::try_from(top).expect("a directory of that many bits was allocated")
}

/// Where `key` is in its bucket, or where it would go. Uniform keys lie close to where their next bits point.
fn search(bucket: &[Entry], bits: u32, key: Key) -> Result<usize, usize> {
    let Some(last) = bucket.len().checked_sub(1) else { return Err(0) };
    let share = (key.high << bits) >> 32;
    let guess = u64::try_from(bucket.len()).map_or(0, |len| (share * len.min(1 << 32)) >> 32);
    let guess = usize::try_from(guess).map_or(last, |guess| guess.min(last));
    match bucket[guess].key.cmp(&key) {
        Ordering::Equal => Ok(guess),
        Ordering::Less => search_up(bucket, guess + 1, key),
        Ordering::Greater => search_down(bucket, guess, key),
    }
}

/// As [`search`]; everything before `from` is smaller.
fn search_up(bucket: &[Entry], from: usize, key: Key) -> Result<usize, usize> {
    let near = bucket.len().min(from + WALK_MAX);
    for (i, entry) in bucket[from..near].iter().enumerate() {
        match entry.key.cmp(&key) {
            Ordering::Less => {}
            Ordering::Equal => return Ok(from + i),
            Ordering::Greater => return Err(from + i),
        }
    }
    search_all(&bucket[near..], key).map(|i| near + i).map_err(|i| near + i)
}

/// As [`search`]; everything from `to` on is larger.
fn search_down(bucket: &[Entry], to: usize, key: Key) -> Result<usize, usize> {
    let near = to.saturating_sub(WALK_MAX);
    for (i, entry) in bucket[near..to].iter().enumerate().rev() {
        match entry.key.cmp(&key) {
            Ordering::Greater => {}
            Ordering::Equal => return Ok(near + i),
            Ordering::Less => return Err(near + i + 1),
        }
    }
    search_all(&bucket[..near], key)
}

fn search_all(bucket: &[Entry], key: Key) -> Result<usize, usize> {
    bucket.binary_search_by(|entry| entry.key.cmp(&key))
}

#[cfg(test)]
mod tests;
