//! Inputs that are nearly right: a seed's changes to bytes that a decoder takes.

use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

/// Numbers at which lengths and counts go wrong.
const EDGES: [u64; 8] = [0, 1, 0x7f, 0x80, 0xffff, 0x7fff_ffff, 0xffff_ffff, u64::MAX];

/// Changes bytes, always alike for the same seed.
#[derive(Debug)]
pub struct Mutator(SmallRng);

impl Mutator {
    /// The changes of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(SmallRng::seed_from_u64(seed))
    }

    /// One to four changes of one of the inputs, which are not none.
    pub fn next(&mut self, inputs: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = inputs[self.0.random_range(0..inputs.len())].clone();
        for _ in 0..self.0.random_range(1..5) {
            self.change(&mut bytes, inputs);
        }
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, inputs: &[Vec<u8>]) {
        let at = self.0.random_range(0..=bytes.len());
        let to = self.0.random_range(at..=bytes.len());
        match self.0.random_range(0..7) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, self.0.random()),
            2 => drop(bytes.drain(at..to)),
            3 => bytes.extend_from_within(at..to),
            4 => {
                let edge = EDGES[self.0.random_range(0..EDGES.len())].to_le_bytes();
                let length = self.0.random_range(1..=8).min(bytes.len() - at);
                bytes[at..at + length].copy_from_slice(&edge[..length]);
            }
            5 => {
                let other = &inputs[self.0.random_range(0..inputs.len())];
                let from = self.0.random_range(0..=other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << self.0.random_range(0..8);
                }
            }
        }
    }
}
