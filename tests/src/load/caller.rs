//! One check over HTTP or gRPC, and what its answer means to somebody who retries.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use leasehold_wire::proto::leasehold::v1;
use leasehold_wire::proto::leasehold::v1::limiter_client::LimiterClient;
use serde_json::{Value, json};
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

use crate::http::Http;

/// A way to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// `POST /v1/check`.
    Http,
    /// `leasehold.v1.Limiter`.
    Grpc,
}

/// What is asked.
#[derive(Clone, Debug)]
pub(super) struct Check {
    pub(super) domain: String,
    pub(super) attribute: String,
    pub(super) value: String,
    pub(super) cost: u64,
    pub(super) request_id: String,
}

/// What came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Charged.
    Admitted,
    /// Not charged: over the limit.
    Denied,
    /// The node says that it couldn't decide. It may have been charged.
    Unavailable,
    /// No answer. It may have been charged.
    Failed,
}

/// A worker's connections.
#[derive(Debug)]
pub(super) enum Caller {
    Http(BTreeMap<SocketAddr, Http>),
    Grpc(BTreeMap<SocketAddr, LimiterClient<Channel>>),
}

impl Caller {
    pub(super) fn new(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Http => Self::Http(BTreeMap::new()),
            Protocol::Grpc => Self::Grpc(BTreeMap::new()),
        }
    }

    /// # Panics
    /// When the answer is one that no retry can mend: then the test asks for what it doesn't mean.
    pub(super) async fn ask(&mut self, node: SocketAddr, check: &Check, within: Duration) -> Answer {
        let answer = async {
            match self {
                Self::Http(nodes) => {
                    ask_http(nodes.entry(node).or_insert_with(|| Http::new(node)), check).await
                }
                Self::Grpc(nodes) => {
                    ask_grpc(nodes.entry(node).or_insert_with(|| connect(node)), check).await
                }
            }
        };
        tokio::time::timeout(within, answer).await.unwrap_or(Answer::Failed)
    }
}

/// Connects when it is first used, and again whenever the connection was lost.
fn connect(node: SocketAddr) -> LimiterClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{node}")).expect("an address makes a URL");
    LimiterClient::new(endpoint.tcp_nodelay(true).connect_lazy())
}

async fn ask_http(client: &Http, check: &Check) -> Answer {
    let body = json!({
        "domain": check.domain,
        "attributes": { &check.attribute: check.value },
        "cost": check.cost,
        "request_id": check.request_id,
    });
    let json = [("content-type", "application/json")];
    let Ok(reply) = client.try_send(Method::POST, "/v1/check", &json, Bytes::from(body.to_string())).await
    else {
        return Answer::Failed;
    };
    match reply.status.as_u16() {
        200 if reply.json()["degraded"] == Value::Bool(false) => Answer::Admitted,
        200 => Answer::Unavailable,
        429 => Answer::Denied,
        500..600 => Answer::Unavailable,
        other => panic!("a check was answered {other}: {}", reply.text()),
    }
}

async fn ask_grpc(client: &mut LimiterClient<Channel>, check: &Check) -> Answer {
    let value = check.value.clone().into_bytes().into();
    let request = v1::CheckRequest {
        domain: check.domain.clone(),
        attributes: vec![v1::Attribute { name: check.attribute.clone(), value }],
        cost: Some(check.cost),
        request_id: check.request_id.clone(),
    };
    match client.check(request).await {
        Ok(answer) => verdict(answer.get_ref()),
        Err(status) => match status.code() {
            Code::Ok
            | Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::DataLoss
            | Code::Unauthenticated => panic!("a check was answered {status}"),
            Code::Cancelled
            | Code::Unknown
            | Code::DeadlineExceeded
            | Code::ResourceExhausted
            | Code::Aborted
            | Code::Internal
            | Code::Unavailable => Answer::Failed,
        },
    }
}

fn verdict(answer: &v1::CheckResponse) -> Answer {
    match answer.verdict() {
        v1::Verdict::Allowed if !answer.degraded => Answer::Admitted,
        v1::Verdict::OverLimit if !answer.degraded => Answer::Denied,
        v1::Verdict::Allowed
        | v1::Verdict::OverLimit
        | v1::Verdict::Unavailable
        | v1::Verdict::Unspecified => Answer::Unavailable,
    }
}
