//! One connection: which protocol it speaks, what it may do, and how it ends.

use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio_util::sync::CancellationToken;

use super::activity::{Activity, Answering, Watched};
use super::door::Door;
use super::guard::Guard;
use super::inline::InlineFirst;
use super::limits::ServerLimits;
use super::listener::Connection;

/// What every HTTP/2 client sends first.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How long to wait for the rest of a preface that came in pieces; doubled each time, so that a peer that never sends it
/// costs a dozen looks, not thousands.
const PREFACE_PAUSE: Duration = Duration::from_millis(2);
/// Bytes buffered of an HTTP/1 connection beyond its header bound: read-ahead of the body.
const HTTP1_BUFFER_EXTRA_BYTES: usize = 64 * 1024;
/// HTTP/2 streams that a peer may open and reset before we have looked at them ("rapid reset"). Beyond: GOAWAY.
const PENDING_RESET_STREAMS_MAX: usize = 200;
/// HTTP/2 streams that we reset because of a peer's errors. Beyond: GOAWAY.
const LOCAL_ERROR_RESETS_MAX: usize = 1024;
/// Bytes of bodies a peer may send ahead, a stream and a connection: so much one connection can make us hold.
const STREAM_WINDOW_BYTES: u32 = 64 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;
/// Bytes of a response held for a stream whose peer doesn't read. Beyond: the response's body waits.
const SEND_BUFFER_BYTES: usize = 64 * 1024;

/// How often a drain looks whether a connection is still busy. One that wasn't in all that time, because it idles or never
/// ended its headers, is closed.
const QUIET_PERIOD: Duration = Duration::from_millis(500);

enum Protocol {
    Http1,
    Http2,
}

/// Serves one connection to its end, or until `draining` and what was in flight is done. `false`: that had to be cut off.
pub(super) async fn run<D: Door, S: Connection>(
    stream: S,
    peer: SocketAddr,
    guard: Arc<Guard<D>>,
    limits: &ServerLimits,
    draining: CancellationToken,
) -> bool {
    if let Err(error) = stream.set_options() {
        tracing::debug!(%error, %peer, "socket options");
    }
    let protocol = tokio::select! {
        biased;
        () = draining.cancelled() => return true,
        shown = tokio::time::timeout(limits.first_bytes_timeout, protocol(&stream)) => shown,
    };
    let Ok(Some(protocol)) = protocol else {
        tracing::debug!(%peer, "connection closed before it showed its protocol");
        return true;
    };
    let activity = Arc::new(Activity::default());
    let io = TokioIo::new(Watched::new(stream, limits.write_timeout, Arc::clone(&activity)));
    let counted = Arc::clone(&activity);
    let service = hyper::service::service_fn(move |request| {
        let (guard, in_flight) = (Arc::clone(&guard), counted.begin());
        async move {
            let answer = guard.answer(request, peer).await;
            Ok::<_, std::convert::Infallible>(answer.map(|body| Answering::new(body, in_flight)))
        }
    });
    let ended = match protocol {
        Protocol::Http1 => {
            let connection = pin!(http1(limits).serve_connection(io, service));
            finish(connection, http1::Connection::graceful_shutdown, &activity, &draining, limits).await
        }
        Protocol::Http2 => {
            let connection = pin!(http2(limits).serve_connection(io, service));
            finish(connection, http2::Connection::graceful_shutdown, &activity, &draining, limits).await
        }
    };
    match ended {
        Ended::Done | Ended::Quiet => true,
        Ended::Broken(error) => {
            tracing::debug!(%peer, %error, "connection ended with an error");
            // What the peer broke off was not cut off by us; what it never took was.
            !(draining.is_cancelled() && activity.is_stalled())
        }
        Ended::CutOff => {
            tracing::info!(%peer, "connection cut off: it did not finish within the drain timeout");
            false
        }
    }
}

/// Looks at the first bytes without taking them. `None`: the peer hung up.
async fn protocol(stream: &impl Connection) -> Option<Protocol> {
    let mut first = [0; PREFACE.len()];
    let mut pause = PREFACE_PAUSE;
    loop {
        let read = stream.peek(&mut first).await.ok()?;
        if read == 0 {
            return None;
        }
        if first[..read] != PREFACE[..read] {
            return Some(Protocol::Http1);
        }
        if read == PREFACE.len() {
            return Some(Protocol::Http2);
        }
        tokio::time::sleep(pause).await;
        pause = pause.saturating_mul(2);
    }
}

fn http1(limits: &ServerLimits) -> http1::Builder {
    let header_bytes_max = usize::try_from(limits.header_bytes_max).unwrap_or(usize::MAX);
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_headers(limits.headers_max)
        .max_header_size(header_bytes_max)
        .max_buf_size(header_bytes_max.saturating_add(HTTP1_BUFFER_EXTRA_BYTES))
        .keep_alive(true)
        .half_close(false);
    builder
}

fn http2(limits: &ServerLimits) -> http2::Builder<InlineFirst> {
    let mut builder = http2::Builder::new(InlineFirst);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams_per_connection_max)
        .max_pending_accept_reset_streams(PENDING_RESET_STREAMS_MAX)
        .max_local_error_reset_streams(LOCAL_ERROR_RESETS_MAX)
        .max_header_list_size(limits.header_bytes_max)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .keep_alive_interval(limits.ping_interval)
        .keep_alive_timeout(limits.ping_timeout);
    builder
}

/// How a connection ended.
enum Ended {
    Done,
    Broken(hyper::Error),
    /// Closed by a drain with nothing in flight.
    Quiet,
    /// Closed by a drain at its timeout, with something in flight.
    CutOff,
}

impl From<hyper::Result<()>> for Ended {
    fn from(ended: hyper::Result<()>) -> Self {
        ended.map_or_else(Self::Broken, |()| Self::Done)
    }
}

/// Drives a connection to its end; at a drain it takes no new requests and has so long to end those it has.
async fn finish<C: Future<Output = hyper::Result<()>>>(
    mut connection: Pin<&mut C>,
    graceful_shutdown: impl FnOnce(Pin<&mut C>),
    activity: &Activity,
    draining: &CancellationToken,
    limits: &ServerLimits,
) -> Ended {
    tokio::select! {
        biased;
        ended = connection.as_mut() => return ended.into(),
        () = draining.cancelled() => {}
    }
    graceful_shutdown(connection.as_mut());
    let draining = async {
        let mut written_bytes = activity.written_bytes();
        loop {
            if let Ok(ended) = tokio::time::timeout(QUIET_PERIOD, connection.as_mut()).await {
                return ended.into();
            }
            let before = std::mem::replace(&mut written_bytes, activity.written_bytes());
            if before == written_bytes && !activity.is_busy() {
                return Ended::Quiet;
            }
        }
    };
    let ended = tokio::time::timeout(limits.drain_timeout, draining).await;
    ended.unwrap_or(if activity.is_busy() { Ended::CutOff } else { Ended::Quiet })
}
