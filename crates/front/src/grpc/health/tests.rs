//! Health follows readiness, for one call and for a watcher.

use tokio_stream::StreamExt;
use tonic::Code;

use super::*;
use crate::testing::Fake;

fn service() -> HealthService<Fake> {
    HealthService { decider: Arc::new(Fake::allowing()), services: &super::super::CLIENT_SERVICES }
}

fn request(service: &str) -> Request<HealthCheckRequest> {
    Request::new(HealthCheckRequest { service: service.to_owned() })
}

async fn status(health: &HealthService<Fake>, service: &str) -> Result<ServingStatus, Code> {
    let got = health.check(request(service)).await;
    got.map(|response| response.get_ref().status()).map_err(|status| status.code())
}

#[tokio::test]
async fn health_follows_readiness_for_each_service_offered() {
    let health = service();
    for name in ["", "leasehold.v1.Limiter", "envoy.service.ratelimit.v3.RateLimitService"] {
        assert_eq!(status(&health, name).await, Ok(ServingStatus::Serving));
    }
    assert_eq!(status(&health, "leasehold.v1.Admin").await, Err(Code::NotFound));
    *health.decider.readiness.lock() = Readiness::NotReady("draining".into());
    assert_eq!(status(&health, "").await, Ok(ServingStatus::NotServing));
}

#[tokio::test]
async fn a_watcher_hears_of_each_change_once_and_is_let_go_at_a_drain() {
    let health = service();
    *health.decider.readiness.lock() = Readiness::NotReady("starting".into());
    let mut watch = health.watch(request("")).await.unwrap().into_inner();
    let mut heard = Vec::new();
    for next in [Readiness::Ready, Readiness::NotReady("draining".into())] {
        heard.push(watch.next().await.unwrap().unwrap().status());
        *health.decider.readiness.lock() = next;
    }
    heard.push(watch.next().await.unwrap().unwrap().status());
    assert_eq!(heard, [ServingStatus::NotServing, ServingStatus::Serving, ServingStatus::NotServing]);
    assert!(watch.next().await.is_none());
}
