//! A plain HTTP client: one address, whole bodies, every wait bounded.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

/// No answer of a server on this machine takes longer; the test fails.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// A client of one server.
#[derive(Clone, Debug)]
pub struct Http {
    client: Client<HttpConnector, Full<Bytes>>,
    server: SocketAddr,
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

impl Http {
    /// A client of `server` with connections of its own.
    #[must_use]
    pub fn new(server: SocketAddr) -> Self {
        Self { client: Client::builder(TokioExecutor::new()).build_http(), server }
    }

    /// `GET path`.
    pub async fn get(&self, path: &str) -> Reply {
        self.send(Method::GET, path, &[], Bytes::new()).await
    }

    /// `POST path` with a JSON body.
    pub async fn post(&self, path: &str, body: &Value) -> Reply {
        let json = [("content-type", "application/json")];
        self.send(Method::POST, path, &json, Bytes::from(body.to_string())).await
    }

    /// Any request.
    ///
    /// # Panics
    /// When there is no answer.
    pub async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)], body: Bytes) -> Reply {
        self.try_send(method, path, headers, body).await.expect("the server answers")
    }

    /// Any request.
    ///
    /// # Errors
    /// When there is no answer: connection refused or cut.
    ///
    /// # Panics
    /// When the request can't be written as HTTP, or the answer takes too long.
    pub async fn try_send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Result<Reply, Box<dyn std::error::Error + Send + Sync>> {
        let mut request = Request::builder().method(method).uri(format!("http://{}{path}", self.server));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body)).expect("the test wrote a valid request");
        let answer = async {
            let (parts, body) = self.client.request(request).await?.into_parts();
            let body = body.collect().await?.to_bytes();
            Ok(Reply { status: parts.status, headers: parts.headers, body })
        };
        tokio::time::timeout(ANSWER_WITHIN, answer).await.expect("an answer within the deadline")
    }
}

impl Reply {
    /// A header as text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// When it isn't.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}
