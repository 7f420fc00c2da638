//! One request, encoded once. What differs between requests is only the digits of its keys, always equally many, so a
//! request is a copy of the template with its digits patched in: no formatting and no encoding on the hot path.

use anyhow::{Result, ensure};
use bytes::{BufMut, Bytes, BytesMut};
use leasehold_wire::Message;
use leasehold_wire::proto::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use leasehold_wire::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use leasehold_wire::proto::envoy::service::ratelimit::v3::RateLimitRequest;
use leasehold_wire::proto::leasehold::v1 as pb;
use serde_json::json;

use super::plan::{Plan, Protocol};

/// Stands for the digits of a key until they are patched in. JSON and protobuf both carry it as it is.
const MARK: &str = "@@@@@@@@";

/// An encoded request with holes.
#[derive(Clone, Debug)]
pub(super) struct Template {
    bytes: Vec<u8>,
    /// Where the digits of a key go: the check they belong to, and the first byte.
    holes: Vec<(usize, usize)>,
    batch: usize,
}

impl Template {
    /// Encodes the plan's request.
    ///
    /// # Errors
    /// An attribute that holds the mark.
    pub(super) fn new(plan: &Plan) -> Result<Self> {
        for (name, value) in &plan.attributes {
            ensure!(
                !format!("{name}{value}").contains('@'),
                "--attribute {name}: leave out @, it marks keys"
            );
        }
        ensure!(!plan.domain.contains('@'), "--domain: leave out @, it marks keys");
        let bytes = match plan.protocol {
            Protocol::Http => http_request(plan),
            Protocol::Grpc => framed(&check(plan)),
            Protocol::GrpcBatch => framed(&pb::CheckBatchRequest { checks: vec![check(plan); plan.batch] }),
            Protocol::Rls => framed(&rate_limit(plan)),
        };
        let marks = bytes.windows(MARK.len()).enumerate().filter(|(_, window)| *window == MARK.as_bytes());
        let starts: Vec<usize> = marks.map(|(start, _)| start).collect();
        let per_check = starts.len() / plan.batch;
        let holes = starts.iter().enumerate().map(|(index, start)| (index / per_check, *start)).collect();
        Ok(Self { bytes, holes, batch: plan.batch })
    }

    /// A request for the keys that `next_key` draws, one for each check.
    pub(super) fn fill(&self, mut next_key: impl FnMut() -> u64) -> Bytes {
        let mut request = BytesMut::from(self.bytes.as_slice());
        let mut holes = self.holes.iter().peekable();
        for check in 0..self.batch {
            let digits = digits(next_key());
            while let Some((_, start)) = holes.next_if(|(of, _)| *of == check) {
                request[*start..*start + MARK.len()].copy_from_slice(&digits);
            }
        }
        request.freeze()
    }
}

/// A key's eight decimal digits.
fn digits(mut key: u64) -> [u8; MARK.len()] {
    let mut digits = [b'0'; MARK.len()];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + u8::try_from(key % 10).expect("a decimal digit");
        key /= 10;
    }
    digits
}

fn marked(plan: &Plan) -> impl Iterator<Item = (String, String)> {
    plan.attributes.iter().map(|(name, value)| (name.clone(), value.replace("{key}", MARK)))
}

fn http_request(plan: &Plan) -> Vec<u8> {
    let attributes: serde_json::Map<_, _> = marked(plan).map(|(name, value)| (name, value.into())).collect();
    let body = json!({ "domain": plan.domain, "attributes": attributes, "cost": plan.cost }).to_string();
    (super::http::head(&plan.authority, body.len()) + &body).into_bytes()
}

fn check(plan: &Plan) -> pb::CheckRequest {
    pb::CheckRequest {
        domain: plan.domain.clone(),
        attributes: marked(plan)
            .map(|(name, value)| pb::Attribute { name, value: value.into_bytes().into() })
            .collect(),
        cost: Some(u64::from(plan.cost)),
        request_id: String::new(),
    }
}

fn rate_limit(plan: &Plan) -> RateLimitRequest {
    let entries = marked(plan).map(|(key, value)| Entry { key, value }).collect();
    let descriptor = RateLimitDescriptor {
        entries,
        // On the request a zero means one; on a descriptor it is a peek.
        hits_addend: Some(u64::from(plan.cost)),
        ..RateLimitDescriptor::default()
    };
    RateLimitRequest {
        domain: plan.domain.clone(),
        descriptors: vec![descriptor; plan.batch],
        hits_addend: 0,
    }
}

/// A message behind gRPC's five bytes: not compressed, and its length.
fn framed(message: &impl Message) -> Vec<u8> {
    let length =
        u32::try_from(message.encoded_len()).expect("a request of at most 1000 checks is below 4 GiB");
    let mut bytes = Vec::with_capacity(5 + message.encoded_len());
    bytes.put_u8(0);
    bytes.put_u32(length);
    message.encode(&mut bytes).expect("a vector grows as needed");
    bytes
}
