//! Names of counters: a keyed 128-bit hash over (domain, rule, length-prefixed values), never joined with separators.
//!
//! Invariant: what is hashed can be read back unambiguously. Every text follows a word with its tag and length and is
//! filled up to whole words, and a last word counts the values, so two different inputs are never the same words.
//! SipHash-1-3: the cluster's secret keys a hash of (domain, rule), and that hash keys the rule's counters.

use std::fmt;
use std::hash::Hasher;

use leasehold_model::{Key, TenantId};
use siphasher::sip128::{Hasher128, SipHasher13};

/// First word of everything hashed: what the hash is for. No use can produce another's input.
#[derive(Clone, Copy)]
enum Purpose {
    Tenant = 1,
    Session = 2,
    Rule = 3,
    Region = 4,
}

/// Low bits of the word in front of each part; the rest of the word is a length or a count.
const TAG_ABSENT: u64 = 1;
const TAG_BYTES: u64 = 2;
const TAG_END: u64 = 3;

/// The secret that keys every counter name; the same on all nodes of a cluster. `Debug` hides it.
#[derive(Clone)]
pub struct KeySecret([u8; 16]);

impl fmt::Debug for KeySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeySecret(..)")
    }
}

impl KeySecret {
    /// From 16 random bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its bytes, for those who shall name the same counters. They are as secret.
    #[must_use]
    pub const fn to_bytes(&self) -> [u8; 16] {
        self.0
    }

    /// Whose counters a domain's are.
    #[must_use]
    pub fn tenant(&self, domain: &str) -> TenantId {
        let mut hasher = self.hasher(Purpose::Tenant);
        write_bytes(&mut hasher, domain.as_bytes());
        TenantId(hasher.finish128().h1)
    }

    /// A 128-bit id for text that a caller chose (a request id), keyed so that it can't be made to collide.
    ///
    /// The text alone decides it: to keep domains apart, pair it with [`KeySecret::tenant`].
    #[must_use]
    pub fn session(&self, text: &[u8]) -> u128 {
        let mut hasher = self.hasher(Purpose::Session);
        write_bytes(&mut hasher, text);
        hasher.finish128().into()
    }

    /// 128 bits that tell a region's counters from those of all others: xored to a key they give the region's own.
    ///
    /// Both are hashes keyed by this secret, so that two regions' keys are as unlikely to meet as any two keys.
    #[must_use]
    pub fn region(&self, name: &str) -> u128 {
        let mut hasher = self.hasher(Purpose::Region);
        write_bytes(&mut hasher, name.as_bytes());
        hasher.finish128().into()
    }

    fn hasher(&self, purpose: Purpose) -> SipHasher13 {
        let mut hasher = SipHasher13::new_with_key(&self.0);
        hasher.write_u64(purpose as u64);
        hasher
    }
}

/// Names the counters of one rule: (domain, rule) hashed once, values to follow. `Debug` hides it: it is a key itself.
#[derive(Clone, Copy)]
pub struct RuleKeys {
    key0: u64,
    key1: u64,
}

impl fmt::Debug for RuleKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RuleKeys(..)")
    }
}

impl RuleKeys {
    /// The keys of `rule` in `domain`.
    #[must_use]
    pub fn new(secret: &KeySecret, domain: &str, rule: &str) -> Self {
        let mut hasher = secret.hasher(Purpose::Rule);
        write_bytes(&mut hasher, domain.as_bytes());
        write_bytes(&mut hasher, rule.as_bytes());
        let hash = hasher.finish128();
        Self { key0: hash.h1, key1: hash.h2 }
    }

    /// Begins one key.
    #[inline]
    #[must_use]
    pub fn start(&self) -> KeyBuilder {
        KeyBuilder { hasher: SipHasher13::new_with_keys(self.key0, self.key1), count: 0 }
    }

    /// The key for `values`, in the order of the rule's `per`. `None` is an absent attribute and differs from an empty one.
    #[must_use]
    pub fn key<'a>(&self, values: impl Iterator<Item = Option<&'a [u8]>>) -> Key {
        let mut key = self.start();
        for value in values {
            key.push(value);
        }
        key.finish()
    }
}

/// A key whose values are still coming in.
#[derive(Clone)]
pub struct KeyBuilder {
    hasher: SipHasher13,
    count: u64,
}

impl KeyBuilder {
    /// Adds the next value; `None` is an absent attribute.
    #[inline]
    pub fn push(&mut self, value: Option<&[u8]>) {
        self.count += 1;
        match value {
            Some(bytes) => write_bytes(&mut self.hasher, bytes),
            None => self.hasher.write_u64(TAG_ABSENT),
        }
    }

    /// The key of everything pushed.
    #[inline]
    #[must_use]
    pub fn finish(mut self) -> Key {
        self.hasher.write_u64((self.count << 2) | TAG_END);
        Key::from_u128(self.hasher.finish128().into())
    }
}

/// Whole words only: the hasher then never has to shift bytes across words, which halves its time.
#[inline]
fn write_bytes(hasher: &mut SipHasher13, bytes: &[u8]) {
    let length = u64::try_from(bytes.len()).expect("a slice in memory is shorter than 2^62 bytes");
    hasher.write_u64((length << 2) | TAG_BYTES);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        hasher.write_u64(u64::from_le_bytes(*word));
    }
    if !rest.is_empty() {
        hasher.write_u64(rest.iter().rev().fold(0, |word, byte| (word << 8) | u64::from(*byte)));
    }
}

/// The key of one counter. A `None` value is an absent attribute and differs from an empty one.
///
/// [`RuleKeys`] gives the same keys and hashes (domain, rule) only once.
#[must_use]
pub fn rule_key<'a>(
    secret: &KeySecret,
    domain: &str,
    rule: &str,
    values: impl Iterator<Item = Option<&'a [u8]>>,
) -> Key {
    RuleKeys::new(secret, domain, rule).key(values)
}
