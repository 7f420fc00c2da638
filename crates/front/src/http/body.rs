//! Reads a request's body and headers within their bounds.
//!
//! Every refusal happens before the bytes are looked at: a wrong content type (415), too many bytes (413), a body that
//! comes too slowly (408).

use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE, EXPECT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use http_body_util::BodyExt;

use super::problem::Problem;

/// The caller's deadline in milliseconds, for the whole request. What is not decided within it ends in the rules' declared
/// failure behaviour. Absent: the server's own bound. `/v1/authorize` ignores it: there it would be the client's.
pub(super) const BUDGET: HeaderName = HeaderName::from_static("x-request-timeout-ms");
/// The request's name in logs; it is put into the tracing span and sent back.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// A retry under the same value is charged once, as `request_id` in the body.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The longest deadline that is believed; a longer one counts as this, so that adding it to any clock is safe.
const BUDGET_MAX: Duration = Duration::from_secs(3600);

/// Bytes of `x-request-id` that are taken over; a longer one is ignored.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// How long a body may take to arrive. Longer: 408, so that slow senders hold no memory.
const BODY_WAIT_MAX: Duration = Duration::from_secs(10);

/// Bytes of a refused body that are read and dropped. Beyond: the connection is closed on the rest.
const DISCARDED_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How long that may take.
const DISCARD_WAIT_MAX: Duration = Duration::from_secs(1);

/// Reads a body of at most `max` bytes.
pub(super) async fn read(headers: &HeaderMap, body: Body, max: usize) -> Result<Bytes, Problem> {
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|bytes| bytes > max) {
        // Who waits for a word before sending has sent nothing yet.
        if !headers.contains_key(EXPECT) {
            discard(body).await;
        }
        return Err(too_large(max));
    }
    // Most bodies are small and here already: what waits pays for its timer, in a future of its own.
    let mut read = Box::pin(collect(body, max));
    if let Poll::Ready(read) = poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx))).await {
        return read;
    }
    let late =
        |_| Problem::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive within 10 s; send it at once");
    tokio::time::timeout(BODY_WAIT_MAX, read).await.map_err(late)?
}

async fn collect(mut body: Body, max: usize) -> Result<Bytes, Problem> {
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let broken = |_| Problem::field("body", "it broke off; send it to its end");
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        if first.len() + all.len() + data.len() > max {
            discard(body).await;
            return Err(too_large(max));
        }
        if first.is_empty() && all.is_empty() {
            first = data;
        } else {
            all.extend_from_slice(&std::mem::take(&mut first));
            all.extend_from_slice(&data);
        }
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

/// Reads on without keeping anything: a caller that writes all before it reads would find its connection reset in place
/// of the answer.
async fn discard(mut body: Body) {
    let mut left = DISCARDED_BYTES_MAX;
    let reading = async {
        while let Some(Ok(frame)) = body.frame().await {
            left = match left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
                Some(left) => left,
                None => return,
            };
        }
    };
    // At either bound the connection is closed on the rest.
    drop(tokio::time::timeout(DISCARD_WAIT_MAX, reading).await);
}

/// Reads a JSON body of at most `max` bytes.
///
/// The content type must say JSON: a browser sends that across sites only with the target's consent.
pub(super) async fn read_json(headers: &HeaderMap, body: Body, max: usize) -> Result<Bytes, Problem> {
    if !headers.get(CONTENT_TYPE).is_some_and(is_json) {
        let detail = "the body must be JSON: send the header Content-Type: application/json";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    read(headers, body, max).await
}

fn is_json(value: &HeaderValue) -> bool {
    let essence = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let suffix = essence.len().checked_sub(b"+json".len()).and_then(|start| essence.get(start..));
    essence.eq_ignore_ascii_case(b"application/json")
        || suffix.is_some_and(|s| s.eq_ignore_ascii_case(b"+json"))
}

pub(super) fn too_large(max: usize) -> Problem {
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        format!("the body is larger than {max} bytes; send less at once"),
    )
}

/// What is left of the caller's deadline.
pub(super) fn budget(headers: &HeaderMap) -> Result<Option<Duration>, Problem> {
    let Some(value) = headers.get(BUDGET) else { return Ok(None) };
    let millis = value.to_str().ok().and_then(|text| text.parse().ok()).filter(|millis| *millis > 0);
    match millis {
        Some(millis) => Ok(Some(Duration::from_millis(millis).min(BUDGET_MAX))),
        None => Err(Problem::field(BUDGET.as_str(), "it is not a number of milliseconds from 1 up")),
    }
}

/// The id of a request that may be retried. The draft on this header asks for quotes, many clients leave them out.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let text = value.to_str().map_err(|_| Problem::field("Idempotency-Key", "it is not visible ASCII"))?;
    Ok(Some(text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text)))
}

/// `x-request-id`, if it is short and visible ASCII; anything else is no name that a log should carry.
pub(super) fn request_id(headers: &HeaderMap) -> Option<&HeaderValue> {
    let value = headers.get(REQUEST_ID)?;
    let bytes = value.as_bytes();
    let fits = (1..=REQUEST_ID_BYTES_MAX).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic);
    fits.then_some(value)
}

/// 405 with the methods that are served.
pub(super) fn not_allowed(method: &Method, allowed: &'static str) -> Problem {
    let detail = format!("{} is not served here; use {allowed}", super::json::echo(method.as_str()));
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail).header(ALLOW, HeaderValue::from_static(allowed))
}
