//! How much one request may carry, at every front door alike: constants and the checks that apply them.
//!
//! At a bound the request is refused with an error that names the field; nothing is cut short or dropped silently.

use std::fmt;

use leasehold_limit::check::Attribute;
pub use leasehold_limit::rules::{ATTRIBUTE_NAME_BYTES_MAX, DOMAIN_BYTES_MAX};

use crate::CheckError;

/// Attributes of one descriptor: matching looks through all of them for each rule. More: refused as invalid.
pub const ATTRIBUTES_MAX: usize = 64;
/// Bytes of an attribute's value, enough for a long URL. Longer: refused as invalid, never cut (two values could become one).
pub const ATTRIBUTE_VALUE_BYTES_MAX: usize = 4096;
/// Descriptors of one request, which is charged as a whole. More: refused as invalid.
pub const DESCRIPTORS_MAX: usize = 32;
/// Bytes of a request id. Longer: refused as invalid.
pub const REQUEST_ID_BYTES_MAX: usize = 128;

/// Checks the name of a domain.
///
/// # Errors
/// [`CheckError::Invalid`] when it is empty or too long.
pub fn domain(domain: &str) -> Result<(), CheckError> {
    if domain.is_empty() {
        return Err(invalid("domain", "it is empty; name the domain of the rules to apply"));
    }
    at_most("domain", domain.len(), DOMAIN_BYTES_MAX, "bytes")
}

/// Checks a request id that is present.
///
/// # Errors
/// [`CheckError::Invalid`] when it is empty or too long.
pub fn request_id(text: &str) -> Result<(), CheckError> {
    if text.is_empty() {
        return Err(invalid("request_id", "it is empty; leave it out or send a unique text"));
    }
    at_most("request_id", text.len(), REQUEST_ID_BYTES_MAX, "bytes")
}

/// Checks the attributes of one descriptor; `path` is how the caller knows their list, such as `attributes`.
///
/// # Errors
/// [`CheckError::Invalid`] for the first attribute that is nameless or too long, or when there are too many.
pub fn attributes(path: impl fmt::Display, attributes: &[Attribute<'_>]) -> Result<(), CheckError> {
    if attributes.len() > ATTRIBUTES_MAX {
        return at_most(path.to_string(), attributes.len(), ATTRIBUTES_MAX, "attributes");
    }
    for (index, attribute) in attributes.iter().enumerate() {
        let (name, value) = (attribute.name.len(), attribute.value.len());
        if name == 0 {
            return Err(invalid(format!("{path}[{index}]"), "its name is empty; give it a name"));
        }
        if name > ATTRIBUTE_NAME_BYTES_MAX {
            let field = format!("{path}[{index}]");
            return at_most(field, name, ATTRIBUTE_NAME_BYTES_MAX, "bytes in its name");
        }
        if value > ATTRIBUTE_VALUE_BYTES_MAX {
            // The name is the rules' own and short; the value may be a secret and is not repeated.
            let field = format!("{path}[{index}] ({:?})", attribute.name);
            return at_most(field, value, ATTRIBUTE_VALUE_BYTES_MAX, "bytes in its value");
        }
    }
    Ok(())
}

/// Checks that there are attributes at all, where a caller lists them for one check.
///
/// # Errors
/// [`CheckError::Invalid`] when there are none: they were forgotten, or filled in under another name.
pub fn some_attributes(path: impl Into<String>, attributes: &[Attribute<'_>]) -> Result<(), CheckError> {
    if attributes.is_empty() {
        return Err(invalid(path, "it is empty; send at least one name and value"));
    }
    Ok(())
}

/// Checks a count or length against its bound.
///
/// # Errors
/// [`CheckError::Invalid`] that names the field, the bound and what was sent.
pub fn at_most(field: impl Into<String>, sent: usize, max: usize, unit: &str) -> Result<(), CheckError> {
    if sent <= max {
        return Ok(());
    }
    Err(invalid(field, format!("at most {max} {unit} are taken, {sent} were sent")))
}

/// An error that names the field and the fix.
#[must_use]
pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> CheckError {
    CheckError::Invalid { field: field.into(), message: message.into() }
}

#[cfg(test)]
mod tests;
