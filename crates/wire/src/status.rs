//! gRPC statuses that carry machine-readable details (`grpc-status-details-bin`).

use leasehold_limit::rules::RuleError;
use leasehold_model::Nanos;
use prost::Message;
use prost_types::Any;
use tonic::{Code, Status};

use crate::duration;
use crate::proto::google::rpc;
use crate::proto::leasehold::v1;

const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";
const BAD_REQUEST: &str = "type.googleapis.com/google.rpc.BadRequest";
const RULE_ERRORS: &str = "type.googleapis.com/leasehold.v1.RuleErrors";

/// A status that says when to come back.
#[must_use]
pub fn with_retry(code: Code, message: &str, retry_after: Nanos) -> Status {
    let info = rpc::RetryInfo { retry_delay: Some(duration::to_proto(retry_after)) };
    with_detail(code, message, RETRY_INFO, &info)
}

/// `INVALID_ARGUMENT` that names the field.
#[must_use]
pub fn invalid(field: &str, description: &str) -> Status {
    let violation =
        rpc::bad_request::FieldViolation { field: field.to_owned(), description: description.to_owned() };
    let detail = rpc::BadRequest { field_violations: vec![violation] };
    with_detail(Code::InvalidArgument, &format!("{field}: {description}"), BAD_REQUEST, &detail)
}

/// `INVALID_ARGUMENT` that carries every mistake of a rule file.
#[must_use]
pub fn invalid_rules(errors: &[RuleError]) -> Status {
    let detail = v1::RuleErrors { errors: errors.iter().map(v1::RuleError::from).collect() };
    let message = format!("text: {} mistakes in the rules; the old rules stay in force", errors.len());
    with_detail(Code::InvalidArgument, &message, RULE_ERRORS, &detail)
}

/// The status as a message, for an answer that stands inside another.
#[must_use]
pub fn to_proto(status: &Status) -> rpc::Status {
    // Details that we wrote ourselves are the whole status already.
    rpc::Status::decode(status.details()).ok().filter(|proto| proto.code != 0).unwrap_or_else(|| {
        rpc::Status { code: status.code().into(), message: status.message().to_owned(), details: Vec::new() }
    })
}

/// When a refused call may be tried again, if its status says so.
#[must_use]
pub fn retry_after(status: &Status) -> Option<Nanos> {
    let proto = rpc::Status::decode(status.details()).ok()?;
    let detail = proto.details.iter().find(|detail| detail.type_url == RETRY_INFO)?;
    let info = rpc::RetryInfo::decode(detail.value.as_slice()).ok()?;
    duration::from_proto(info.retry_delay?).ok()
}

/// The mistakes that a refused `PutRules` carries; empty when the status has none.
#[must_use]
pub fn rule_errors(status: &Status) -> Vec<v1::RuleError> {
    let Ok(proto) = rpc::Status::decode(status.details()) else {
        return Vec::new();
    };
    let detail = proto.details.iter().find(|detail| detail.type_url == RULE_ERRORS);
    let errors = detail.and_then(|detail| v1::RuleErrors::decode(detail.value.as_slice()).ok());
    errors.map(|errors| errors.errors).unwrap_or_default()
}

fn with_detail(code: Code, message: &str, type_url: &str, detail: &impl Message) -> Status {
    let any = Any { type_url: type_url.to_owned(), value: detail.encode_to_vec() };
    let proto = rpc::Status { code: code.into(), message: message.to_owned(), details: vec![any] };
    Status::with_details(code, message, proto.encode_to_vec().into())
}

#[cfg(test)]
mod tests;
