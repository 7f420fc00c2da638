//! All chance of a world: one generator from its seed, drawn from in the order in which things happen.

use oorandom::Rand64;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Chance(Rand64);

impl Chance {
    /// The chance of a seed.
    #[must_use]
    pub(crate) fn new(seed: u64) -> Self {
        Self(Rand64::new(u128::from(seed) ^ 0x6c65_6173_6568_6f6c_6421))
    }

    /// A number below `end`, which isn't 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.rand_range(0..end.max(1))
    }

    /// A number from `least` to `most`.
    pub(crate) fn within(&mut self, least: u64, most: u64) -> u64 {
        self.0.rand_range(least..most.max(least).saturating_add(1))
    }

    /// Whether something happens that happens so often in a thousand times.
    pub(crate) fn per_mille(&mut self, often: u64) -> bool {
        self.below(1_000) < often
    }

    /// A place in a list of `len`, which isn't empty.
    pub(crate) fn place(&mut self, len: usize) -> usize {
        let place = self.below(u64::try_from(len).unwrap_or(u64::MAX));
        usize::try_from(place).unwrap_or(0)
    }

    /// One of several.
    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let place = self.place(from.len());
        &from[place]
    }

    /// 128 bits that nobody else draws.
    pub(crate) fn session(&mut self) -> u128 {
        u128::from(self.0.rand_u64()) << 64 | u128::from(self.0.rand_u64())
    }
}
