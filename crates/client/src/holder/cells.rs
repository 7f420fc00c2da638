//! The cells of all keys that are held, found without a lock.

use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use leasehold_lease::Cell;
use leasehold_model::Key;

/// Key → cell. Written under the lock of the key's stripe, read by everybody.
#[derive(Debug, Default)]
pub(super) struct Cells(papaya::HashMap<Key, Arc<Cell>, BuildHasherDefault<KeyHasher>>);

impl Cells {
    /// Looks at a key's cell, if the key is held.
    pub(super) fn with<R>(&self, key: Key, look: impl FnOnce(&Arc<Cell>) -> R) -> Option<R> {
        self.0.pin().get(&key).map(look)
    }

    pub(super) fn insert(&self, key: Key, cell: Arc<Cell>) {
        self.0.pin().insert(key, cell);
    }

    pub(super) fn remove(&self, key: Key) {
        self.0.pin().remove(&key);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Keys are keyed hashes already, so that nobody outside can aim at a place.
#[derive(Debug, Default)]
pub(super) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, bits: u64) {
        self.0 = self.0.rotate_left(32) ^ bits;
    }
}
