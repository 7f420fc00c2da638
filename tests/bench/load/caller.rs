//! One stream of one connection, to whichever server it speaks to. Anything but an admission is an error: the load is below
//! every limit, and a refusal would make the figures those of something else.

use leasehold_wire::Message as _;
use leasehold_wire::proto::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use leasehold_wire::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use leasehold_wire::proto::envoy::service::ratelimit::v3::rate_limit_response::Code;
use leasehold_wire::proto::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use leasehold_wire::proto::leasehold::v1;
use redis::aio::MultiplexedConnection;
use tonic::transport::{Channel, Endpoint};

use super::Outcome;
use super::grpc::{self, GrpcCaller};
use super::http::HttpCaller;

/// Units a second, and at once, of each counter.
const LIMIT: u32 = 1_000_000;

/// The bucket of `1000000/second` as Redis users write it: two fields a key, the server's time, one call.
const TOKEN_BUCKET: &str = r"
local rate, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens = tonumber(bucket[1]) or burst
local at = tonumber(bucket[2]) or now
tokens = math.min(burst, tokens + (now - at) * rate)
local allowed = tokens >= cost
if allowed then tokens = tokens - cost end
redis.call('HSET', KEYS[1], 'tokens', tokens, 'at', now)
redis.call('EXPIRE', KEYS[1], 60)
return allowed and 1 or 0
";

/// See the module.
pub(super) enum Caller {
    Grpc(v1::limiter_client::LimiterClient<Channel>),
    Rls(GrpcCaller),
    Throttlecrab(GrpcCaller),
    Http(HttpCaller),
    ThrottlecrabHttp(HttpCaller),
    Redis(MultiplexedConnection, redis::Script),
}

impl Caller {
    /// One connection, with so many streams.
    pub(super) async fn connect(protocol: &str, address: &str, streams: usize) -> Outcome<Vec<Self>> {
        let mut callers = Vec::new();
        match protocol {
            "grpc" => {
                let endpoint = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true);
                let client = v1::limiter_client::LimiterClient::new(endpoint.connect().await?);
                callers.extend((0..streams).map(|_| Self::Grpc(client.clone())));
            }
            "rls" => {
                let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
                callers.extend(grpc::connect(address, path, streams).await?.into_iter().map(Self::Rls));
            }
            "throttlecrab" => {
                let opened = grpc::connect(address, "/throttlecrab.RateLimiter/Throttle", streams).await?;
                callers.extend(opened.into_iter().map(Self::Throttlecrab));
            }
            "http" if streams == 1 => callers.push(Self::Http(HttpCaller::connect(address).await?)),
            "throttlecrab-http" if streams == 1 => {
                callers.push(Self::ThrottlecrabHttp(HttpCaller::connect(address).await?));
            }
            "redis" => {
                let client = redis::Client::open(format!("redis://{address}"))?;
                let connection = client.get_multiplexed_async_connection().await?;
                let caller = || Self::Redis(connection.clone(), redis::Script::new(TOKEN_BUCKET));
                callers.extend((0..streams).map(|_| caller()));
            }
            other => return Err(format!("{other} with {streams} streams: not known").into()),
        }
        Ok(callers)
    }

    /// Asks one unit of each key.
    pub(super) async fn check(&mut self, keys: &[u64]) -> Outcome<()> {
        match (self, keys) {
            (Self::Grpc(client), [key]) => allowed(&client.check(request(*key)).await?.into_inner()),
            (Self::Grpc(client), keys) => {
                let checks = keys.iter().copied().map(request).collect();
                let answer = client.check_batch(v1::CheckBatchRequest { checks }).await?.into_inner();
                answer.results.iter().try_for_each(|result| match &result.result {
                    Some(v1::batch_result::Result::Response(answer)) => allowed(answer),
                    other => Err(format!("{other:?}").into()),
                })
            }
            (Self::Rls(caller), [key]) => {
                let answer = RateLimitResponse::decode(caller.call(&rate_limit(*key)).await?)?;
                admitted(answer.overall_code() == Code::Ok && !answer.statuses.is_empty(), &answer)
            }
            (Self::Throttlecrab(caller), [key]) => {
                let answer = caller.call(&throttle(*key)).await?;
                // Its first field is `allowed`.
                admitted(answer.starts_with(&[0x08, 1]), &answer)
            }
            (Self::Http(caller), [key]) => {
                let body = format!(r#"{{"domain":"bench","attributes":{{"key":"{}"}}}}"#, name(*key));
                let (status, answer) = caller.call("/v1/check", &body).await?;
                admitted(status == 200 && answer.contains("per-key"), &answer)
            }
            (Self::ThrottlecrabHttp(caller), [key]) => {
                let body = format!(
                    r#"{{"key":"{}","max_burst":{LIMIT},"count_per_period":{LIMIT},"period":1}}"#,
                    name(*key)
                );
                let (status, answer) = caller.call("/throttle", &body).await?;
                admitted(status == 200 && answer.contains(r#""allowed":true"#), &answer)
            }
            (Self::Redis(connection, script), [key]) => {
                let mut asked = script.key(format!("bench:{}", name(*key)));
                let taken: i64 = asked.arg(LIMIT).arg(LIMIT).arg(1).invoke_async(connection).await?;
                admitted(taken == 1, &taken)
            }
            // What waits on a connection leaves together anyway.
            (_, _) => Err("--batch: only grpc has batches".into()),
        }
    }
}

fn name(key: u64) -> String {
    format!("caller-{key:08}")
}

fn admitted(admitted: bool, answer: &impl std::fmt::Debug) -> Outcome<()> {
    if admitted { Ok(()) } else { Err(format!("not admitted: {answer:?}").into()) }
}

fn request(key: u64) -> v1::CheckRequest {
    v1::CheckRequest {
        domain: "bench".to_owned(),
        attributes: vec![v1::Attribute { name: "key".to_owned(), value: name(key).into_bytes().into() }],
        ..Default::default()
    }
}

/// A check that wasn't decided by its counter would make the figures those of something else.
fn allowed(answer: &v1::CheckResponse) -> Outcome<()> {
    let decided = !answer.degraded && answer.matched.len() == 1;
    admitted(answer.verdict() == v1::Verdict::Allowed && decided, answer)
}

fn rate_limit(key: u64) -> Vec<u8> {
    let entry = Entry { key: "key".to_owned(), value: name(key) };
    let descriptor = RateLimitDescriptor { entries: vec![entry], ..RateLimitDescriptor::default() };
    let request =
        RateLimitRequest { domain: "bench".to_owned(), descriptors: vec![descriptor], hits_addend: 1 };
    request.encode_to_vec()
}

/// Throttlecrab's request: a key, then burst, count, period and quantity as numbers.
fn throttle(key: u64) -> Vec<u8> {
    let name = name(key);
    let mut message = vec![0x0a, u8::try_from(name.len()).expect("a short name")];
    message.extend(name.into_bytes());
    for (tag, value) in [(0x10, LIMIT), (0x18, LIMIT), (0x20, 1), (0x28, 1)] {
        message.push(tag);
        varint(value, &mut message);
    }
    message
}

fn varint(mut value: u32, into: &mut Vec<u8>) {
    while value >= 0x80 {
        into.push(u8::try_from(value & 0x7f).expect("seven bits") | 0x80);
        value >>= 7;
    }
    into.push(u8::try_from(value).expect("seven bits"));
}
