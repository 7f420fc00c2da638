//! How much one message may carry, at every front door alike. What one request may carry is in [`leasehold_decide::bounds`].
//!
//! At a bound the message is refused with an error that names the field; nothing is cut short or dropped silently.

pub use leasehold_decide::bounds::{
    ATTRIBUTE_NAME_BYTES_MAX, ATTRIBUTE_VALUE_BYTES_MAX, ATTRIBUTES_MAX, DESCRIPTORS_MAX, DOMAIN_BYTES_MAX,
    REQUEST_ID_BYTES_MAX, at_most, attributes, domain, invalid, request_id, some_attributes,
};
pub use leasehold_limit::rules::FILE_BYTES_MAX as RULES_BYTES_MAX;

/// Checks of one batch, so that one message can't hold a worker for long. More: refused as invalid.
pub const BATCH_MAX: usize = 1000;
/// Limits that the answer to one batch tells of, so that a small batch under many rules has no huge answer. Items past it are
/// not decided; each is refused in its place.
pub const BATCH_LIMITS_TOLD_MAX: usize = 10_000;
/// What an item past [`BATCH_LIMITS_TOLD_MAX`] is told.
pub(crate) const BATCH_FULL: &str = "the answers before this one fill the batch's answer; nothing was charged, send this check in another batch";
/// Bytes of a request's body or message at the clients' doors. Larger: refused before it is read to its end.
pub const MESSAGE_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of a body or message at the operators' door: a rule file of the largest size, as escaped JSON.
pub const ADMIN_MESSAGE_BYTES_MAX: usize = 2 * RULES_BYTES_MAX + 64 * 1024;
