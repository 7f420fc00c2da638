//! Chance from a seed: the same seed gives the same run everywhere. SplitMix64 (Steele, Lea, Flood 2014).

#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `end`. The bias is below `end`/2⁶⁴.
    pub(crate) const fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// A number that looks random and depends on `word` alone.
pub(crate) const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
