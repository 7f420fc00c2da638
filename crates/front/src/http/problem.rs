//! Errors as `application/problem+json` (RFC 9457): what is wrong, which field, and what to send instead.
//!
//! Over the limit is not among them: that is an answer, and `answer` renders it.

use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, StatusCode};
use leasehold_decide::headers::insert_retry_after;
use leasehold_limit::rules::RuleError;
use leasehold_model::Nanos;
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::{AdminError, CheckError};

pub(super) const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");
pub(super) const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// Problem type of a request over its limit, from the IETF draft on RateLimit headers.
pub(super) const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
/// Problem type of a server that can't serve for now, from the same draft.
pub(super) const REDUCED_CAPACITY: &str =
    "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";
/// A problem that its status says all about.
const BLANK: &str = "about:blank";

/// An error on its way to the caller.
pub(crate) struct Problem(Box<Inner>);

struct Inner {
    status: StatusCode,
    kind: &'static str,
    detail: String,
    field: Option<String>,
    errors: Vec<RuleError>,
    retry_after: Option<Nanos>,
    header: Option<(HeaderName, HeaderValue)>,
}

impl Problem {
    /// A problem of this status; `detail` says what is wrong and what to do instead.
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            status,
            kind: BLANK,
            detail: detail.into(),
            field: None,
            errors: Vec::new(),
            retry_after: None,
            header: None,
        }))
    }

    /// 503, with the time after which there may be room again.
    pub(crate) fn overloaded(detail: impl Into<String>, retry_after: Nanos) -> Self {
        let mut problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, detail);
        problem.0.kind = REDUCED_CAPACITY;
        problem.0.retry_after = Some(retry_after);
        problem
    }

    /// 400 for one field.
    pub(super) fn field(field: impl Into<String>, message: &str) -> Self {
        let field = field.into();
        let mut problem = Self::new(StatusCode::BAD_REQUEST, format!("{field}: {message}"));
        problem.0.field = Some(field);
        problem
    }

    /// With a header that belongs to the status.
    pub(super) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.header = Some((name, value));
        self
    }

    /// Under another status, where the caller asked for one.
    pub(super) fn status(mut self, status: Option<StatusCode>) -> Self {
        self.0.status = status.unwrap_or(self.0.status);
        self
    }

    /// 400 for a rule file, with every mistake.
    pub(super) fn rules(errors: Vec<RuleError>) -> Self {
        let detail = format!("{} mistakes in the rules; those in force stay as they are", errors.len());
        let mut problem = Self::new(StatusCode::BAD_REQUEST, detail);
        problem.0.field = errors.first().map(|error| error.field.clone());
        problem.0.errors = errors;
        problem
    }
}

impl From<CheckError> for Problem {
    fn from(error: CheckError) -> Self {
        match error {
            CheckError::Invalid { field, message } => Self::field(field, &message),
            CheckError::RequestIdReused => {
                let mut problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string());
                problem.0.field = Some("request_id".to_owned());
                problem
            }
            CheckError::Overloaded { retry_after, .. } => Self::overloaded(error.to_string(), retry_after),
        }
    }
}

impl From<AdminError> for Problem {
    fn from(error: AdminError) -> Self {
        let detail = error.to_string();
        match error {
            AdminError::Invalid(errors) => Self::rules(errors),
            AdminError::Conflict { .. } => Self::new(StatusCode::PRECONDITION_FAILED, detail),
            AdminError::ReadOnly(_) => Self::new(StatusCode::FORBIDDEN, detail),
            AdminError::Failed(_) => Self::new(StatusCode::INTERNAL_SERVER_ERROR, detail),
            AdminError::Alone | AdminError::NotFound(_) => Self::new(StatusCode::NOT_FOUND, detail),
            AdminError::Refused(_) => Self::new(StatusCode::CONFLICT, detail),
            AdminError::Unavailable(_) => Self::new(StatusCode::SERVICE_UNAVAILABLE, detail),
        }
    }
}

impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let inner = &self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", inner.kind)?;
        map.serialize_entry("title", inner.status.canonical_reason().unwrap_or("Error"))?;
        map.serialize_entry("status", &inner.status.as_u16())?;
        map.serialize_entry("detail", &inner.detail)?;
        if let Some(field) = &inner.field {
            map.serialize_entry("field", field)?;
        }
        if let Some(retry_after) = inner.retry_after {
            map.serialize_entry("retry_after_ms", &retry_after.millis_ceil())?;
        }
        if !inner.errors.is_empty() {
            map.serialize_entry("errors", &RuleErrors(&inner.errors))?;
        }
        map.end()
    }
}

/// Mistakes in a rule file as JSON.
pub(super) struct RuleErrors<'a>(pub(super) &'a [RuleError]);

impl Serialize for RuleErrors<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|error| {
            serde_json::json!({
                "file": error.file,
                "line": error.line,
                "column": error.column,
                "field": error.field,
                "message": error.message,
                "fix": error.fix,
            })
        }))
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self).expect("a problem has only text keys and writes to memory");
        let mut response = (self.0.status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, PROBLEM_JSON);
        headers.insert(CACHE_CONTROL, NO_STORE);
        if let Some(retry_after) = self.0.retry_after {
            insert_retry_after(headers, retry_after);
        }
        if let Some((name, value)) = self.0.header {
            headers.insert(name, value);
        }
        response
    }
}
