//! gRPC over one HTTP/2 connection, straight on `h2`: requests are bytes already, and of an answer only the verdicts are read.

use anyhow::{Context, Result};
use bytes::{Buf, Bytes, BytesMut};
use h2::client::SendRequest;
use http::{HeaderMap, Method, Request, Uri, header};
use leasehold_wire::Message;
use leasehold_wire::proto::envoy::service::ratelimit::v3::RateLimitResponse;
use leasehold_wire::proto::envoy::service::ratelimit::v3::rate_limit_response::Code;
use leasehold_wire::proto::leasehold::v1 as pb;
use tokio::net::TcpStream;

use super::plan::{Plan, Protocol};
use super::tally::{CallError, Counts};
use super::worker::Caller;

/// Bytes of answers that may be on their way, a stream and in all: enough that the window never holds a server up.
const WINDOW_BYTES: u32 = 1024 * 1024;
/// Bytes of one answer; a longer one is an error.
const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Counts an answer; `None` when it can't be read.
type Read = fn(&[u8]) -> Option<Counts>;

/// One stream's worth of a connection.
#[derive(Clone)]
pub(super) struct GrpcCaller {
    send: SendRequest<Bytes>,
    head: Request<()>,
    read: Read,
}

/// Opens one connection and spawns its driver; one caller for each stream.
pub(super) async fn connect(plan: &Plan) -> Result<Vec<GrpcCaller>> {
    let stream = TcpStream::connect(plan.address).await?;
    stream.set_nodelay(true)?;
    let mut builder = h2::client::Builder::new();
    builder
        .enable_push(false)
        .initial_window_size(WINDOW_BYTES)
        .initial_connection_window_size(16 * WINDOW_BYTES);
    let (send, connection) = builder.handshake(stream).await.context("HTTP/2 handshake")?;
    tokio::spawn(async move {
        // A lost connection shows in every call that was on it.
        let _lost = connection.await;
    });
    let (path, read): (_, Read) = match plan.protocol {
        Protocol::GrpcBatch => ("/leasehold.v1.Limiter/CheckBatch", read_batch),
        Protocol::Rls => ("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", read_rls),
        Protocol::Grpc | Protocol::Http => ("/leasehold.v1.Limiter/Check", read_check),
    };
    let uri: Uri = format!("http://{}{path}", plan.authority).parse().context("TARGET")?;
    let head = Request::builder()
        .method(Method::POST)
        .uri(uri)
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::TE, "trailers")
        .body(())
        .context("request head")?;
    Ok(vec![GrpcCaller { send, head, read }; plan.streams])
}

impl Caller for GrpcCaller {
    async fn call(&mut self, body: Bytes) -> Result<Counts, CallError> {
        // The clone of a sender that waits must be kept, or it loses its place.
        self.send = self.send.clone().ready().await.map_err(lost)?;
        let (response, mut stream) = self.send.send_request(self.head.clone(), false).map_err(lost)?;
        stream.send_data(body, true).map_err(lost)?;
        let response = response.await.map_err(lost)?;
        if response.status() != http::StatusCode::OK {
            return Err(failed(format!("HTTP status {}", response.status().as_u16())));
        }
        refused(response.headers())?;
        let (message, trailers) = receive(response.into_body()).await?;
        refused(&trailers)?;
        let payload = message.get(5..).unwrap_or_default();
        (self.read)(payload).ok_or_else(|| failed("an answer that can't be read".to_owned()))
    }
}

async fn receive(mut body: h2::RecvStream) -> Result<(Bytes, HeaderMap), CallError> {
    let mut message = Bytes::new();
    while let Some(chunk) = body.data().await {
        let chunk = chunk.map_err(lost)?;
        let _closed = body.flow_control().release_capacity(chunk.len());
        if message.is_empty() {
            message = chunk;
        } else if message.len() + chunk.len() <= ANSWER_BYTES_MAX {
            let mut joined = BytesMut::from(message.chunk());
            joined.extend_from_slice(&chunk);
            message = joined.freeze();
        } else {
            return Err(failed("an answer that is too long".to_owned()));
        }
    }
    Ok((message, body.trailers().await.map_err(lost)?.unwrap_or_default()))
}

/// A gRPC status other than OK.
fn refused(headers: &HeaderMap) -> Result<(), CallError> {
    match headers.get("grpc-status").map(http::HeaderValue::as_bytes) {
        None | Some(b"0") => Ok(()),
        Some(code) => Err(failed(format!("gRPC status {}", code.escape_ascii()))),
    }
}

fn failed(kind: String) -> CallError {
    CallError { kind, fatal: false }
}

fn lost(error: h2::Error) -> CallError {
    match error.reason() {
        Some(reason) if error.is_reset() => failed(format!("stream reset: {reason:?}")),
        _ => CallError { kind: "connection lost".to_owned(), fatal: true },
    }
}

fn read_check(payload: &[u8]) -> Option<Counts> {
    Some(count_check(&pb::CheckResponse::decode(payload).ok()?))
}

fn count_check(answer: &pb::CheckResponse) -> Counts {
    let mut counts = Counts { unmatched: u64::from(answer.matched.is_empty()), ..Counts::default() };
    match answer.verdict() {
        pb::Verdict::Allowed => counts.allowed = 1,
        pb::Verdict::OverLimit => counts.denied = 1,
        pb::Verdict::Unavailable | pb::Verdict::Unspecified => counts.failed = 1,
    }
    counts
}

fn read_batch(payload: &[u8]) -> Option<Counts> {
    let mut counts = Counts::default();
    for result in pb::CheckBatchResponse::decode(payload).ok()?.results {
        match result.result? {
            pb::batch_result::Result::Response(answer) => counts.add(count_check(&answer)),
            pb::batch_result::Result::Error(_) => counts.failed += 1,
        }
    }
    Some(counts)
}

fn read_rls(payload: &[u8]) -> Option<Counts> {
    let answer = RateLimitResponse::decode(payload).ok()?;
    let mut counts = Counts::default();
    for status in &answer.statuses {
        match status.code() {
            Code::Ok => counts.allowed += 1,
            Code::OverLimit => counts.denied += 1,
            Code::Unknown => counts.failed += 1,
        }
        counts.unmatched += u64::from(status.current_limit.is_none());
    }
    Some(counts)
}
