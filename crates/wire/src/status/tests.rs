//! Details of a status, written and read.

use super::*;

#[test]
fn a_status_carries_its_retry_time_there_and_back() {
    let status = with_retry(Code::Unavailable, "busy", Nanos(1_500_000_000));
    assert_eq!(retry_after(&status), Some(Nanos(1_500_000_000)));
    assert_eq!(to_proto(&status).details.len(), 1);
    assert_eq!(retry_after(&Status::unavailable("no details")), None);
}

#[test]
fn an_invalid_field_is_named_in_text_and_details() {
    let status = invalid("domain", "it is empty");
    assert_eq!((status.code(), status.message()), (Code::InvalidArgument, "domain: it is empty"));
    let detail = &to_proto(&status).details[0];
    let bad = rpc::BadRequest::decode(detail.value.as_slice()).unwrap();
    assert_eq!(bad.field_violations[0].field, "domain");
}

#[test]
fn a_plain_status_becomes_a_message_with_its_code_and_text() {
    let proto = to_proto(&Status::not_found("nothing"));
    assert_eq!((proto.code, proto.message.as_str()), (5, "nothing"));
}

#[test]
fn rule_errors_travel_with_the_status() {
    let error = RuleError {
        file: "api.yaml".into(),
        line: 3,
        column: 5,
        field: "limits[0].burst".into(),
        message: "burst is 0".into(),
        fix: "use at least 1".into(),
    };
    let errors = rule_errors(&invalid_rules(std::slice::from_ref(&error)));
    assert_eq!(errors, vec![v1::RuleError::from(&error)]);
    assert!(rule_errors(&Status::aborted("")).is_empty());
}
