//! The application behind a proxy: answers every request with 200, or 403 under `/forbidden`, and its own header.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

/// A running application; it ends when dropped.
#[derive(Debug)]
pub struct Upstream {
    /// Where it listens.
    pub address: SocketAddr,
    accepting: AbortHandle,
}

impl Upstream {
    /// Starts one on a free port.
    ///
    /// # Panics
    /// When the loopback has no free port.
    pub async fn start() -> Self {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("the loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        Self { address, accepting: tokio::spawn(accept(listener)).abort_handle() }
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer));
        // A proxy that goes away is no concern of the application's.
        tokio::spawn(async move { drop(connection.await) });
    }
}

fn answer(request: Request<Incoming>) -> std::future::Ready<Result<Response<Full<Bytes>>, Infallible>> {
    let forbidden = request.uri().path() == "/forbidden";
    let mut response = Response::new(Full::new(Bytes::from_static(b"hello from the application\n")));
    *response.status_mut() = if forbidden { StatusCode::FORBIDDEN } else { StatusCode::OK };
    response.headers_mut().insert("x-application", http::HeaderValue::from_static("yes"));
    std::future::ready(Ok(response))
}
