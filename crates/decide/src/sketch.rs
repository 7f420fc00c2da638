//! Heavy hitters of one stream in bounded memory: the Space-Saving sketch (Metwally, Agrawal and El Abbadi, "Efficient
//! computation of frequent and top-k elements in data streams", 2005).
//!
//! Invariant: an entry's count is never below its key's true count, and above it by its `error` at most; a key that isn't
//! held has a true count of [`Sketch::unlisted_max`] at most, which is at most 1/[`ENTRIES_MAX`] of the total. Pure.

use leasehold_model::Key;

/// Keys held at once. At the bound a new key takes the place of the one with the smallest count, and its count with it as
/// its error. Few enough to look through all of them.
pub const ENTRIES_MAX: usize = 128;

/// Counts of the keys that were seen most often.
#[derive(Clone, Debug)]
pub struct Sketch<V> {
    entries: Vec<Entry<V>>,
    total: u64,
}

/// One key's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<V> {
    /// The key.
    pub key: Key,
    /// How often it was seen, or less.
    pub count: u64,
    /// How much less at most.
    pub error: u64,
    /// How often of those it was refused, as far as that was seen.
    pub refused: u64,
    /// What is known of it besides.
    pub value: V,
}

impl<V> Default for Sketch<V> {
    fn default() -> Self {
        Self { entries: Vec::new(), total: 0 }
    }
}

impl<V> Sketch<V> {
    /// Sees a key once. `value` is called when it is new.
    pub fn see(&mut self, key: Key, refused: bool, value: impl FnOnce() -> V) {
        self.total += 1;
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.key == key) {
            entry.count += 1;
            entry.refused += u64::from(refused);
            return;
        }
        let new = |error, value| Entry { key, count: error + 1, error, refused: refused.into(), value };
        if self.entries.len() < ENTRIES_MAX {
            self.entries.push(new(0, value()));
        } else if let Some(least) = self.entries.iter_mut().min_by_key(|entry| entry.count) {
            *least = new(least.count, value());
        }
    }

    /// What is held, in no order.
    #[must_use]
    pub fn entries(&self) -> &[Entry<V>] {
        &self.entries
    }

    /// How many keys were seen, each as often as it was.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// How often a key that isn't held was seen at most.
    #[must_use]
    pub fn unlisted_max(&self) -> u64 {
        if self.entries.len() < ENTRIES_MAX {
            return 0;
        }
        self.entries.iter().map(|entry| entry.count).min().unwrap_or_default()
    }
}

impl<V: Clone> Sketch<V> {
    /// What one sketch of both streams may say: up to twice as many entries, with the same promises.
    #[must_use]
    pub fn and(&self, other: &Self) -> Vec<Entry<V>> {
        let mut both: Vec<_> = self.entries.iter().map(|entry| plus(entry, other)).collect();
        let ours = |entry: &&Entry<V>| self.entries.iter().any(|held| held.key == entry.key);
        both.extend(other.entries.iter().filter(|entry| !ours(entry)).map(|entry| plus(entry, self)));
        both
    }
}

/// An entry with what another stream's sketch knows of its key.
fn plus<V: Clone>(entry: &Entry<V>, other: &Sketch<V>) -> Entry<V> {
    let unlisted = other.unlisted_max();
    let (count, error, refused) = match other.entries.iter().find(|held| held.key == entry.key) {
        Some(held) => (held.count, held.error, held.refused),
        None => (unlisted, unlisted, 0),
    };
    Entry {
        count: entry.count + count,
        error: entry.error + error,
        refused: entry.refused + refused,
        ..entry.clone()
    }
}

#[cfg(test)]
mod tests;
