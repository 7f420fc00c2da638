//! Limits in front of an axum service: `cargo run -p leasehold-client --example axum -- http://127.0.0.1:7600`.
//!
//! Rules are the node's, here those of the domain `api`.

use std::error::Error;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::Request;
use leasehold_client::layer::{Attributes, RateLimitLayer};
use leasehold_client::{Client, Config};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let node = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:7600".to_owned());
    let client = Client::connect(Config::new("example-axum", [node.parse()?])).await?;
    let counted_by = |request: &Request<Body>| {
        let attributes = Attributes::new().with("path", request.uri().path());
        Some(attributes.with_header("api_key", request.headers(), "x-api-key"))
    };
    let app = Router::new().route("/", get(|| async { "hello" })).layer(RateLimitLayer::new(
        client.clone(),
        "api",
        counted_by,
    ));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    let interrupted = async { tokio::signal::ctrl_c().await.unwrap_or_default() };
    axum::serve(listener, app).with_graceful_shutdown(interrupted).await?;
    client.close(Duration::from_secs(2)).await;
    Ok(())
}
