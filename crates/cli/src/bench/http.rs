//! HTTP/1.1 with JSON, one request at a time on a connection.

use anyhow::{Context, Result};
use bytes::Bytes;
use http::{Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::plan::Plan;
use super::tally::{CallError, Counts};
use super::worker::Caller;

/// Bytes of one answer; a longer one is an error.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// How an answer says that no rule applied.
const NO_RULE: &[u8] = b"\"matched\":[]";

/// A connection.
pub(super) struct HttpCaller {
    send: SendRequest<Full<Bytes>>,
    head: Request<()>,
}

/// Opens one connection and spawns its driver.
pub(super) async fn connect(plan: &Plan) -> Result<Vec<HttpCaller>> {
    let stream = TcpStream::connect(plan.address).await?;
    stream.set_nodelay(true)?;
    let (send, connection) = http1::handshake(TokioIo::new(stream)).await.context("HTTP handshake")?;
    tokio::spawn(async move {
        // A lost connection shows in the call that was on it.
        let _lost = connection.await;
    });
    let head = Request::builder()
        .method(Method::POST)
        .uri(Uri::from_static("/v1/check"))
        .header(header::HOST, &plan.authority)
        .header(header::CONTENT_TYPE, "application/json")
        .body(())
        .context("request head")?;
    Ok(vec![HttpCaller { send, head }])
}

impl Caller for HttpCaller {
    async fn call(&mut self, body: Bytes) -> Result<Counts, CallError> {
        let lost = |_| CallError { kind: "connection lost".to_owned(), fatal: true };
        self.send.ready().await.map_err(lost)?;
        let request = self.head.clone().map(|()| Full::new(body));
        let (head, body) = self.send.send_request(request).await.map_err(lost)?.into_parts();
        let answer = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let answer = answer.map_err(|_| CallError {
            kind: "an answer that is cut off or too long".to_owned(),
            fatal: true,
        })?;
        match head.status {
            StatusCode::OK => {
                let bytes = answer.to_bytes();
                let unmatched = bytes.windows(NO_RULE.len()).any(|window| window == NO_RULE);
                Ok(Counts { allowed: 1, unmatched: u64::from(unmatched), ..Counts::default() })
            }
            StatusCode::TOO_MANY_REQUESTS => Ok(Counts { denied: 1, ..Counts::default() }),
            other => Err(CallError { kind: format!("HTTP status {}", other.as_u16()), fatal: false }),
        }
    }
}
