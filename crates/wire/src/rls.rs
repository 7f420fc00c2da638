//! Envoy's rate limit service: a request becomes a borrowed [`Request`], an [`Answer`] becomes a response.
//!
//! Each descriptor's entries are its attributes. Statuses stand for descriptors one to one and in order.

mod status;
mod unit;

use leasehold_limit::check::{Answer, Attribute, Descriptor, Request, Verdict};
use leasehold_limit::{Algorithm, Limit, LimitError, Window};

use crate::proto::envoy::config::core::v3::HeaderValue;
use crate::proto::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use crate::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride;
use crate::proto::envoy::service::ratelimit::v3::rate_limit_response::Code;
use crate::proto::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};

pub use unit::{UnitCount, unit_of};

/// Response header that marks an answer in which a limit's declared failure behaviour stands in.
pub const DEGRADED_HEADER: &str = "x-leasehold-degraded";

/// Why a request is refused as invalid. The message names the field and the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RlsRequestError {
    /// Nothing to ask about.
    #[error("it is empty; send at least one descriptor")]
    NoDescriptors,
    /// A descriptor without attributes.
    #[error("it is empty; send at least one entry")]
    NoEntries {
        /// Position of the descriptor.
        descriptor: usize,
    },
    /// The unit of an override is UNKNOWN, or none that Envoy defines.
    #[error("{unit} is no unit to count over; use SECOND (1) to YEAR (6)")]
    OverrideUnit {
        /// Position of the descriptor.
        descriptor: usize,
        /// As sent.
        unit: i32,
    },
    /// The multiplier of an override's unit is zero.
    #[error("it is 0; leave it out for 1, or use at least 1")]
    OverrideMultiplier {
        /// Position of the descriptor.
        descriptor: usize,
    },
    /// The numbers of an override don't make a limit.
    #[error("{error}")]
    OverrideLimit {
        /// Position of the descriptor.
        descriptor: usize,
        /// Why not.
        error: LimitError,
    },
    /// Units to give back.
    #[error("giving units back is not supported yet; send hits_addend with is_negative_hits unset")]
    NegativeHits {
        /// Position of the descriptor.
        descriptor: usize,
    },
}

impl RlsRequestError {
    /// Path of the field at fault.
    #[must_use]
    pub fn field(&self) -> String {
        match self {
            Self::NoDescriptors => "descriptors".to_owned(),
            Self::NoEntries { descriptor } => format!("descriptors[{descriptor}].entries"),
            Self::OverrideUnit { descriptor, .. } => format!("descriptors[{descriptor}].limit.unit"),
            Self::OverrideMultiplier { descriptor } => {
                format!("descriptors[{descriptor}].limit.unit_multiplier")
            }
            Self::OverrideLimit { descriptor, .. } => format!("descriptors[{descriptor}].limit"),
            Self::NegativeHits { descriptor } => format!("descriptors[{descriptor}].is_negative_hits"),
        }
    }
}

/// The request, borrowed from the message. It has no request id: the protocol knows none.
///
/// A descriptor's own `hits_addend` is its cost, 0 included (a peek). Without one the request's counts, where 0 is 1.
///
/// # Errors
/// [`RlsRequestError`] for the first field at fault.
pub fn request(message: &RateLimitRequest) -> Result<Request<'_>, RlsRequestError> {
    if message.descriptors.is_empty() {
        return Err(RlsRequestError::NoDescriptors);
    }
    let cost = u64::from(message.hits_addend.max(1));
    let descriptors = message.descriptors.iter().enumerate();
    let descriptors =
        descriptors.map(|(index, one)| descriptor(index, one, cost)).collect::<Result<_, _>>()?;
    Ok(Request { domain: &message.domain, descriptors, request_id: None })
}

fn descriptor(
    index: usize,
    message: &RateLimitDescriptor,
    cost: u64,
) -> Result<Descriptor<'_>, RlsRequestError> {
    if message.entries.is_empty() {
        return Err(RlsRequestError::NoEntries { descriptor: index });
    }
    if message.is_negative_hits {
        return Err(RlsRequestError::NegativeHits { descriptor: index });
    }
    let entries = message.entries.iter();
    Ok(Descriptor {
        attributes: entries
            .map(|entry| Attribute { name: &entry.key, value: entry.value.as_bytes() })
            .collect(),
        cost: message.hits_addend.unwrap_or(cost),
        limit_override: message.limit.as_ref().map(|limit| limit_override(index, limit)).transpose()?,
    })
}

/// Numbers sent along count as envoyproxy/ratelimit counts them: a fixed window of that length, 0 blocks everything.
fn limit_override(descriptor: usize, message: &RateLimitOverride) -> Result<Limit, RlsRequestError> {
    let unit = message.unit;
    let length = unit::override_length(unit).ok_or(RlsRequestError::OverrideUnit { descriptor, unit })?;
    let multiplier = u64::from(message.unit_multiplier.unwrap_or(1));
    if multiplier == 0 {
        return Err(RlsRequestError::OverrideMultiplier { descriptor });
    }
    let period = leasehold_model::Nanos(length.0.saturating_mul(multiplier));
    Limit::new(Algorithm::FixedWindow(Window::Epoch), u64::from(message.requests_per_unit), period)
        .map_err(|error| RlsRequestError::OverrideLimit { descriptor, error })
}

impl From<&Answer> for RateLimitResponse {
    /// What a whole refusal doesn't hide: each status says what its own limits said, so one that would have passed is OK.
    fn from(answer: &Answer) -> Self {
        let overall = match answer.verdict {
            Verdict::Allowed => Code::Ok,
            Verdict::OverLimit | Verdict::Unavailable => Code::OverLimit,
        };
        let mut response = Self {
            overall_code: overall.into(),
            statuses: answer.descriptors.iter().map(status::of).collect(),
            ..Self::default()
        };
        if answer.degraded {
            response.response_headers_to_add.push(HeaderValue {
                key: DEGRADED_HEADER.to_owned(),
                value: "true".to_owned(),
                ..HeaderValue::default()
            });
        }
        response
    }
}

#[cfg(test)]
mod tests;
