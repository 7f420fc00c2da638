//! The floor that a node is measured against: the same protocols with nothing behind them.
//!
//! `floor grpc ADDR` is a tonic server whose RLS and `Limiter` services always allow; `floor http ADDR` is an axum
//! server that reads the JSON of a check and answers a constant. Neither counts anything or bounds what comes in.

use std::collections::BTreeMap;
use std::error::Error;
use std::net::SocketAddr;

use axum::Json;
use axum::routing::{get, post};
use leasehold_wire::proto::envoy::service::ratelimit::v3 as rls;
use leasehold_wire::proto::leasehold::v1;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tonic::{Request, Response, Status, async_trait};

struct Floor;

#[async_trait]
impl rls::rate_limit_service_server::RateLimitService for Floor {
    async fn should_rate_limit(
        &self,
        request: Request<rls::RateLimitRequest>,
    ) -> Result<Response<rls::RateLimitResponse>, Status> {
        let allowed = rls::rate_limit_response::Code::Ok.into();
        let status = rls::rate_limit_response::DescriptorStatus { code: allowed, ..Default::default() };
        let statuses = vec![status; request.get_ref().descriptors.len()];
        Ok(Response::new(rls::RateLimitResponse { overall_code: allowed, statuses, ..Default::default() }))
    }
}

fn allowed() -> v1::CheckResponse {
    v1::CheckResponse { verdict: v1::Verdict::Allowed.into(), ..Default::default() }
}

#[async_trait]
impl v1::limiter_server::Limiter for Floor {
    async fn check(&self, _: Request<v1::CheckRequest>) -> Result<Response<v1::CheckResponse>, Status> {
        Ok(Response::new(allowed()))
    }

    async fn check_batch(
        &self,
        request: Request<v1::CheckBatchRequest>,
    ) -> Result<Response<v1::CheckBatchResponse>, Status> {
        let result = v1::BatchResult { result: Some(v1::batch_result::Result::Response(allowed())) };
        let results = vec![result; request.get_ref().checks.len()];
        Ok(Response::new(v1::CheckBatchResponse { results }))
    }

    async fn peek(&self, _: Request<v1::PeekRequest>) -> Result<Response<v1::CheckResponse>, Status> {
        Ok(Response::new(allowed()))
    }

    async fn reset(&self, _: Request<v1::ResetRequest>) -> Result<Response<v1::ResetResponse>, Status> {
        Ok(Response::new(v1::ResetResponse { reset: 0 }))
    }
}

#[derive(Deserialize)]
struct Check {
    #[serde(rename = "domain")]
    _domain: String,
    #[serde(rename = "attributes")]
    _attributes: BTreeMap<String, String>,
}

#[derive(Serialize)]
struct Checked {
    allowed: bool,
}

async fn serve_http(address: SocketAddr) -> Result<(), Box<dyn Error>> {
    let check = |Json(_): Json<Check>| std::future::ready(Json(Checked { allowed: true }));
    let ready = || std::future::ready("ready");
    let app = axum::Router::new().route("/v1/check", post(check)).route("/readyz", get(ready));
    Ok(axum::serve(TcpListener::bind(address).await?, app).await?)
}

async fn serve_grpc(address: SocketAddr) -> Result<(), Box<dyn Error>> {
    Ok(tonic::transport::Server::builder()
        .add_service(rls::rate_limit_service_server::RateLimitServiceServer::new(Floor))
        .add_service(v1::limiter_server::LimiterServer::new(Floor))
        .serve(address)
        .await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["grpc", address] => serve_grpc(address.parse()?).await,
        ["http", address] => serve_http(address.parse()?).await,
        _ => Err("usage: floor grpc|http ADDR".into()),
    }
}
