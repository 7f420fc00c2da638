//! Counters by key: a few words each where they fit, a place beside the directory where they don't.
//!
//! Invariant: a state is wide exactly when it doesn't pack, and `wide` holds no key that the directory doesn't.
//! Not here: what a state means, whose it is, when it goes.

use std::collections::BTreeMap;

use leasehold_limit::State;
use leasehold_model::Key;

use crate::directory::{Directory, Entry};
use crate::pack::{Packed, pack, unpack};

/// Counters by key.
#[derive(Debug)]
pub(crate) struct Table {
    directory: Directory,
    wide: BTreeMap<Key, State>,
}

/// One counter as it is stored.
#[derive(Clone, Debug)]
pub(crate) struct Counter<'a> {
    pub(crate) key: Key,
    /// The interned limit it was written under.
    pub(crate) limit: u32,
    pub(crate) state: Held<'a>,
}

/// A state by value where that is cheap.
#[derive(Clone, Debug)]
pub(crate) enum Held<'a> {
    /// A copy: unpacked, or changed since.
    Narrow(State),
    /// In its place beside the directory.
    Wide(&'a State),
}

impl Held<'_> {
    pub(crate) fn get(&self) -> &State {
        match self {
            Self::Narrow(state) => state,
            Self::Wide(state) => state,
        }
    }

    pub(crate) fn into_owned(self) -> State {
        match self {
            Self::Narrow(state) => state,
            Self::Wide(state) => state.clone(),
        }
    }
}

impl Table {
    pub(crate) fn new() -> Self {
        Self::within(Directory::new())
    }

    /// An empty table over an empty directory that has its size already.
    pub(crate) fn within(directory: Directory) -> Self {
        Self { directory, wide: BTreeMap::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.directory.len()
    }

    pub(crate) fn get(&self, key: Key) -> Option<Counter<'_>> {
        self.directory.get(key).map(|entry| self.read(entry))
    }

    /// The counter of the smallest key that isn't below `key`.
    pub(crate) fn first_from(&self, key: Key) -> Option<Counter<'_>> {
        self.directory.first_from(key).map(|entry| self.read(entry))
    }

    /// All counters, in key order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Counter<'_>> {
        self.directory.iter().map(|entry| self.read(entry))
    }

    /// Stores a counter and returns the limit that it was stored under before.
    pub(crate) fn put(&mut self, key: Key, limit: u32, state: State) -> Option<u32> {
        let packed = pack(&state);
        let entry = Entry {
            key,
            words: packed.map_or([0, 0], |packed| packed.words),
            limit,
            high: packed.map_or([0; 3], |packed| packed.high),
            shape: packed.map(|packed| packed.shape),
        };
        let before = self.directory.insert(entry);
        if packed.is_none() {
            self.wide.insert(key, state);
        } else if before.is_some_and(|before| before.shape.is_none()) {
            self.wide.remove(&key);
        }
        before.map(|before| before.limit)
    }

    /// Changes a wide state where it stands, which may make it narrow.
    pub(crate) fn change_wide(&mut self, key: Key, change: impl FnOnce(&mut State)) {
        let Some(state) = self.wide.get_mut(&key) else { return };
        change(state);
        if let Some(packed) = pack(state)
            && let Some(entry) = self.directory.get_mut(key)
        {
            entry.words = packed.words;
            entry.high = packed.high;
            entry.shape = Some(packed.shape);
            self.wide.remove(&key);
        }
    }

    /// Drops a counter and returns the limit that it was stored under.
    pub(crate) fn remove(&mut self, key: Key) -> Option<u32> {
        let entry = self.directory.remove(key)?;
        if entry.shape.is_none() {
            self.wide.remove(&key);
        }
        Some(entry.limit)
    }

    fn read(&self, entry: &Entry) -> Counter<'_> {
        let state = match entry.shape {
            Some(shape) => Held::Narrow(unpack(Packed { words: entry.words, high: entry.high, shape })),
            None => Held::Wide(self.wide.get(&entry.key).expect("a wide entry has its state beside it")),
        };
        Counter { key: entry.key, limit: entry.limit, state }
    }
}

#[cfg(test)]
mod tests {
    use leasehold_limit::BucketState;
    use leasehold_model::Stamp;

    use super::*;

    fn bucket(used: u128) -> State {
        State::Bucket(BucketState { used, at: Stamp(5) })
    }

    #[test]
    fn a_state_may_become_wide_and_narrow_again() {
        let mut table = Table::new();
        let key = Key { high: 1, low: 2 };
        for (used, before) in [(1, None), (1 << 90, Some(3)), (2 << 90, Some(3)), (7, Some(3))] {
            assert_eq!(table.put(key, 3, bucket(used)), before);
            assert_eq!(table.get(key).expect("stored").state.get(), &bucket(used));
            assert_eq!(table.wide.len(), usize::from(used >= 1 << 88));
        }
        table.put(key, 3, bucket(1 << 90));
        table.change_wide(key, |state| *state = bucket(9));
        assert_eq!(table.get(key).expect("stored").state.get(), &bucket(9));
        assert!(table.wide.is_empty());
        table.put(key, 3, bucket(1 << 90));
        assert_eq!(table.remove(key), Some(3));
        assert!(table.wide.is_empty() && table.len() == 0 && table.get(key).is_none());
    }
}
