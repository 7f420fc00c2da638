//! One check over each protocol, for tests that promise the same over all of them.

use std::net::SocketAddr;

use leasehold_tests::Http;
use leasehold_wire::proto::envoy::extensions::common::ratelimit::v3::{
    RateLimitDescriptor, rate_limit_descriptor,
};
use leasehold_wire::proto::envoy::service::ratelimit::v3 as rls;
use leasehold_wire::proto::leasehold::v1;
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};

/// A way to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http,
    Grpc,
    Rls,
}

pub(crate) const PROTOCOLS: [Protocol; 3] = [Protocol::Http, Protocol::Grpc, Protocol::Rls];

/// A client that asks over one protocol.
#[derive(Clone, Debug)]
pub(crate) enum Client {
    Http(Http),
    Grpc(v1::limiter_client::LimiterClient<Channel>),
    Rls(rls::rate_limit_service_client::RateLimitServiceClient<Channel>),
}

pub(crate) async fn channel(server: SocketAddr) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{server}")).expect("an address makes a URL");
    endpoint.connect().await.expect("the server accepts connections")
}

impl Client {
    pub(crate) async fn connect(protocol: Protocol, server: SocketAddr) -> Self {
        match protocol {
            Protocol::Http => Self::Http(Http::new(server)),
            Protocol::Grpc => Self::Grpc(v1::limiter_client::LimiterClient::new(channel(server).await)),
            Protocol::Rls => {
                Self::Rls(rls::rate_limit_service_client::RateLimitServiceClient::new(channel(server).await))
            }
        }
    }

    /// One check of one unit; whether it was admitted. Anything but an answer fails the test.
    pub(crate) async fn admits(&mut self, domain: &str, attributes: &[(&str, &str)]) -> bool {
        match self {
            Self::Http(client) => {
                let reply = client.post("/v1/check", &check(domain, attributes)).await;
                assert!([200, 429].contains(&reply.status.as_u16()), "{}: {}", reply.status, reply.text());
                reply.status == 200
            }
            Self::Grpc(client) => {
                let attributes = attributes
                    .iter()
                    .map(|(name, value)| v1::Attribute {
                        name: (*name).to_owned(),
                        value: value.as_bytes().to_vec().into(),
                    })
                    .collect();
                let request =
                    v1::CheckRequest { domain: domain.to_owned(), attributes, ..Default::default() };
                let answer = client.check(request).await.expect("over the limit is an answer").into_inner();
                match answer.verdict() {
                    v1::Verdict::Allowed => true,
                    v1::Verdict::OverLimit => false,
                    other @ (v1::Verdict::Unspecified | v1::Verdict::Unavailable) => panic!("{other:?}"),
                }
            }
            Self::Rls(client) => {
                let request = rls_request(domain, attributes);
                let answer = client
                    .should_rate_limit(request)
                    .await
                    .expect("over the limit is an answer")
                    .into_inner();
                match answer.overall_code() {
                    rls::rate_limit_response::Code::Ok => true,
                    rls::rate_limit_response::Code::OverLimit => false,
                    rls::rate_limit_response::Code::Unknown => panic!("an answer without a code"),
                }
            }
        }
    }
}

/// Asks `asking` times at once on as many connections as `clients`; how many were admitted.
pub(crate) async fn admitted(
    clients: &[Client],
    domain: &'static str,
    attributes: &'static [&'static str],
    value: &str,
    asking: usize,
) -> usize {
    let mut asks = JoinSet::new();
    for client in clients.iter().cycle().take(asking) {
        let (mut client, value) = (client.clone(), value.to_owned());
        asks.spawn(async move {
            let attributes: Vec<(&str, &str)> =
                attributes.iter().map(|name| (*name, value.as_str())).collect();
            client.admits(domain, &attributes).await
        });
    }
    asks.join_all().await.into_iter().filter(|admitted| *admitted).count()
}

/// The JSON of a check.
pub(crate) fn check(domain: &str, attributes: &[(&str, &str)]) -> Value {
    let attributes: Map<String, Value> =
        attributes.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    json!({ "domain": domain, "attributes": attributes })
}

fn rls_request(domain: &str, attributes: &[(&str, &str)]) -> rls::RateLimitRequest {
    let entries = attributes
        .iter()
        .map(|(key, value)| rate_limit_descriptor::Entry { key: (*key).into(), value: (*value).into() })
        .collect();
    rls::RateLimitRequest {
        domain: domain.to_owned(),
        descriptors: vec![RateLimitDescriptor { entries, ..Default::default() }],
        hits_addend: 0,
    }
}
