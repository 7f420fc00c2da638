//! One check over HTTP, and what is read of its answer.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use leasehold_tests::Http;
use serde_json::{Map, Value, json};

use crate::history::{Outcome, Source};
use crate::scenario::DOMAIN;

/// What is asked. It can be asked again.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Names and values.
    pub(crate) attributes: Vec<(String, String)>,
    pub(crate) cost: u64,
    pub(crate) id: Option<String>,
}

/// What was answered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reply {
    pub(super) outcome: Outcome,
    pub(super) degraded: bool,
    pub(super) source: Option<Source>,
    pub(super) remaining: Option<u64>,
    pub(super) retry_after_ns: Option<u64>,
}

/// The connections of somebody who asks.
#[derive(Debug, Default)]
pub(crate) struct Asker {
    doors: BTreeMap<SocketAddr, Http>,
}

impl Asker {
    pub(super) async fn ask(&mut self, door: SocketAddr, request: &Request, within: Duration) -> Reply {
        let attributes: Map<String, Value> =
            request.attributes.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let mut body = json!({ "domain": DOMAIN, "attributes": attributes, "cost": request.cost });
        if let Some(id) = &request.id {
            body["request_id"] = json!(id);
        }
        let http = self.doors.entry(door).or_insert_with(|| Http::new(door));
        let json = [("content-type", "application/json")];
        let answer = http.try_send(Method::POST, "/v1/check", &json, Bytes::from(body.to_string()));
        match tokio::time::timeout(within, answer).await {
            Ok(Ok(reply)) => read(reply.status.as_u16(), &reply.body),
            Ok(Err(_)) => Reply::default(),
            Err(_) => {
                // What is still under way on it must not be waited for again.
                self.doors.remove(&door);
                Reply::default()
            }
        }
    }
}

/// # Panics
/// When the answer isn't one to a check: then the harness asks for what it doesn't mean.
fn read(status: u16, body: &[u8]) -> Reply {
    let outcome = match status {
        200 => Outcome::Allowed,
        429 => Outcome::OverLimit,
        500..600 => Outcome::Unavailable,
        other => panic!("a check was answered {other}: {}", String::from_utf8_lossy(body)),
    };
    let said: Value = serde_json::from_slice(body).unwrap_or_default();
    let first = &said["matched"][0];
    Reply {
        outcome,
        degraded: said["degraded"] == Value::Bool(true),
        source: serde_json::from_value(first["source"].clone()).ok(),
        remaining: first["remaining"].as_u64(),
        retry_after_ns: first["retry_after_ns"].as_u64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_says_who_decided_and_what_is_left() {
        let body = r#"{"verdict": "allowed", "degraded": false,
            "matched": [{"rule": "hot", "source": "deny_cache", "remaining": 4, "retry_after_ns": 5}]}"#;
        let reply = read(200, body.as_bytes());
        assert_eq!(
            (reply.outcome, reply.source, reply.remaining),
            (Outcome::Allowed, Some(Source::DenyCache), Some(4))
        );
        assert_eq!((reply.degraded, reply.retry_after_ns), (false, Some(5)));
        assert_eq!(read(503, b"overloaded").outcome, Outcome::Unavailable);
    }
}
