//! Unary gRPC calls straight on `h2`, so that the generator costs as little as it may, and of every server's protocol the same.

use bytes::{BufMut as _, Bytes, BytesMut};
use h2::client::SendRequest;
use http::{HeaderMap, Method, Request, header};
use tokio::net::TcpStream;

use super::Outcome;

/// What answers may fill before the server has to wait.
const WINDOW_BYTES: u32 = 1 << 20;

/// One stream at a time of a connection.
#[derive(Clone)]
pub(super) struct GrpcCaller {
    send: SendRequest<Bytes>,
    head: Request<()>,
}

/// One connection, with so many streams.
pub(super) async fn connect(address: &str, path: &str, streams: usize) -> Outcome<Vec<GrpcCaller>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(WINDOW_BYTES).initial_connection_window_size(16 * WINDOW_BYTES);
    let (send, connection) = builder.handshake(stream).await?;
    tokio::spawn(async move {
        // A lost connection shows in every call that was on it.
        let _lost = connection.await;
    });
    let head = Request::builder()
        .method(Method::POST)
        .uri(format!("http://{address}{path}"))
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::TE, "trailers")
        .body(())?;
    Ok(vec![GrpcCaller { send, head }; streams])
}

impl GrpcCaller {
    /// Sends a message, and returns the one that answers it.
    pub(super) async fn call(&mut self, message: &[u8]) -> Outcome<Bytes> {
        let mut framed = BytesMut::with_capacity(5 + message.len());
        framed.put_u8(0);
        framed.put_u32(u32::try_from(message.len())?);
        framed.put_slice(message);
        // The clone of a sender that waits must be kept, or it loses its place.
        self.send = self.send.clone().ready().await?;
        let (response, mut stream) = self.send.send_request(self.head.clone(), false)?;
        stream.send_data(framed.freeze(), true)?;
        let response = response.await?;
        refused(response.headers())?;
        let mut body = response.into_body();
        let mut answer = BytesMut::new();
        while let Some(chunk) = body.data().await {
            let chunk = chunk?;
            body.flow_control().release_capacity(chunk.len())?;
            answer.extend_from_slice(&chunk);
        }
        refused(&body.trailers().await?.unwrap_or_default())?;
        let head = answer.len().min(5);
        Ok(answer.freeze().slice(head..))
    }
}

/// A gRPC status other than OK.
fn refused(headers: &HeaderMap) -> Outcome<()> {
    match headers.get("grpc-status").map(http::HeaderValue::as_bytes) {
        None | Some(b"0") => Ok(()),
        Some(code) => Err(format!("gRPC status {}", code.escape_ascii()).into()),
    }
}
