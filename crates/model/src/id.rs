//! Ids: which counter, whose, which request, which rules.

use std::fmt;

/// Names one counter: a keyed 128-bit hash over (domain, rule, values). Uniform, so its high bits place it.
///
/// Two `u64` halves (high, low) instead of a `u128` keep it 8-byte aligned: table entries stay 40 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The most significant half; order of keys is order of (high, low).
    pub high: u64,
    /// The least significant half.
    pub low: u64,
}

impl Key {
    /// The smallest key.
    pub const MIN: Self = Self { high: 0, low: 0 };

    /// From the hash's 128 bits.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "splits 128 bits into their two halves")]
    pub const fn from_u128(bits: u128) -> Self {
        Self { high: (bits >> 64) as u64, low: bits as u64 }
    }

    /// The 128 bits as one number.
    #[must_use]
    pub const fn to_u128(self) -> u128 {
        ((self.high as u128) << 64) | self.low as u128
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.high, self.low)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

/// Whose counters these are: a keyed hash of the domain. Bounds are kept per tenant, so a flood costs its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(pub u64);

/// Identifies one request for as long as it may be retried: a client's session and its own sequence there.
///
/// Retried under the same id it is charged once and gets the same answer (P3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId {
    /// Random per client process, or the keyed hash of an id that the caller chose.
    pub session: u128,
    /// Position in that session.
    pub seq: u64,
}

/// Version of a rule set, counted up by one at each accepted change. Numbers of an older version never replace newer ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RulesVersion(pub u64);

impl fmt::Display for RulesVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One slice of the key space: one Raft group. Dense from 0, fixed at the cluster's creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u32);

/// One node of a cluster. Never reused: a node that lost its disk comes back under a new id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

/// Version of the shard map, counted up at each change; stands in every routed request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_keeps_all_128_bits_in_order() {
        let bits = 0x0123_4567_89ab_cdef_fedc_ba98_7654_3210_u128;
        assert_eq!(Key::from_u128(bits).to_u128(), bits);
        assert_eq!(Key::from_u128(bits).to_string(), "0123456789abcdeffedcba9876543210");
        assert!(Key::from_u128(1 << 64) > Key::from_u128(u128::from(u64::MAX)));
    }
}
