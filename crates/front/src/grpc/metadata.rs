//! What a caller says in metadata: its deadline, and how it likes refusals.

use std::time::Duration;

use http::HeaderMap;

/// The gRPC deadline header: at most eight digits and a unit.
const TIMEOUT: &str = "grpc-timeout";
const TIMEOUT_DIGITS_MAX: usize = 8;
/// `true`: being over the limit is a status, not a response.
const STATUS_ERRORS: &str = "leasehold-status-errors";

/// What is left of the caller's deadline; `None` when it sent none that can be read.
#[must_use]
pub fn budget(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(TIMEOUT)?.as_bytes();
    let (unit, digits) = value.split_last()?;
    if digits.is_empty() || digits.len() > TIMEOUT_DIGITS_MAX || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0_u64, |number, digit| number * 10 + u64::from(digit - b'0'));
    match unit {
        b'H' => Some(Duration::from_secs(number * 3600)),
        b'M' => Some(Duration::from_secs(number * 60)),
        b'S' => Some(Duration::from_secs(number)),
        b'm' => Some(Duration::from_millis(number)),
        b'u' => Some(Duration::from_micros(number)),
        b'n' => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

/// Whether the caller wants a status when it is over the limit.
pub(super) fn wants_status_errors(headers: &HeaderMap) -> bool {
    headers.get(STATUS_ERRORS).is_some_and(|value| value == "true")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn check(sent: &'static str, expected: Option<Duration>) {
        let headers = HeaderMap::from_iter([(TIMEOUT.parse().unwrap(), HeaderValue::from_static(sent))]);
        assert_eq!(budget(&headers), expected, "for {sent:?}");
    }

    #[test]
    fn every_unit_of_a_deadline_is_read() {
        check("20m", Some(Duration::from_millis(20)));
        check("99999999H", Some(Duration::from_secs(99_999_999 * 3600)));
        check("1M", Some(Duration::from_secs(60)));
        check("0S", Some(Duration::ZERO));
        check("7u", Some(Duration::from_micros(7)));
        check("7n", Some(Duration::from_nanos(7)));
    }

    #[test]
    fn a_deadline_that_cannot_be_read_counts_as_absent() {
        for sent in ["", "m", "20", "20x", "-1S", "+1S", "1.5S", "123456789S", " 1S"] {
            check(sent, None);
        }
        assert_eq!(budget(&HeaderMap::new()), None);
    }
}
