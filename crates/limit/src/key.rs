//! Names of counters: a keyed 128-bit hash over (domain, rule, length-prefixed values), never joined with separators.

use leasehold_model::{Key, TenantId};

/// The secret that keys every counter name; the same on all nodes of a cluster. `Debug` hides it.
#[derive(Clone)]
pub struct KeySecret([u8; 16]);

impl std::fmt::Debug for KeySecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeySecret(..)")
    }
}

impl KeySecret {
    /// From 16 random bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Whose counters a domain's are.
    #[must_use]
    pub fn tenant(&self, _domain: &str) -> TenantId {
        todo!()
    }

    /// A 128-bit id for text that a caller chose (a request id), keyed so that it can't be made to collide.
    #[must_use]
    pub fn session(&self, _text: &[u8]) -> u128 {
        todo!()
    }
}

/// The key of one counter. A `None` value is an absent attribute and differs from an empty one.
#[must_use]
pub fn rule_key<'a>(
    _secret: &KeySecret,
    _domain: &str,
    _rule: &str,
    _values: impl Iterator<Item = Option<&'a [u8]>>,
) -> Key {
    todo!()
}
