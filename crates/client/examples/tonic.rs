//! Limits in front of a tonic service: `cargo run -p leasehold-client --example tonic -- http://127.0.0.1:7600`.
//!
//! The health service stands for any other. A call over its limit ends with `RESOURCE_EXHAUSTED`.

use std::error::Error;
use std::time::Duration;

use http::Request;
use leasehold_client::layer::{Attributes, RateLimitLayer};
use leasehold_client::{Client, Config};
use tonic::body::Body;
use tonic::transport::Server;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let node = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:7600".to_owned());
    let client = Client::connect(Config::new("example-tonic", [node.parse()?])).await?;
    let counted_by = |request: &Request<Body>| {
        let attributes = Attributes::new().with("method", request.uri().path());
        Some(attributes.with_header("api_key", request.headers(), "x-api-key"))
    };
    let (_, health) = tonic_health::server::health_reporter();
    Server::builder()
        .layer(RateLimitLayer::new(client.clone(), "api", counted_by))
        .add_service(health)
        .serve_with_shutdown("127.0.0.1:3001".parse()?, async {
            tokio::signal::ctrl_c().await.unwrap_or_default();
        })
        .await?;
    client.close(Duration::from_secs(2)).await;
    Ok(())
}
