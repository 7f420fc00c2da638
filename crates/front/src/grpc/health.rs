//! `grpc.health.v1`: serving while the process behind the doors says it is ready.
//!
//! A check reads readiness at that moment. A watcher looks every [`WATCH_PERIOD`], and its stream ends once a server that
//! was ready no longer is: so a drain doesn't wait for watchers.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior};
use tokio_stream::Stream;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::{Decider, Readiness};

/// How often a watcher looks.
const WATCH_PERIOD: Duration = Duration::from_millis(250);
/// Bytes of a health request: the name of a service. Longer: refused by the decoder.
const HEALTH_MESSAGE_BYTES_MAX: usize = 1024;

/// The service over a decider, for these service names and the empty one (the server as a whole).
#[derive(Debug)]
pub struct HealthService<D> {
    decider: Arc<D>,
    services: &'static [&'static str],
}

/// The service as the listener serves it; it knows the services of its own port.
#[must_use]
pub fn health_server<D: Decider>(
    decider: Arc<D>,
    services: &'static [&'static str],
) -> HealthServer<HealthService<D>> {
    HealthServer::new(HealthService { decider, services }).max_decoding_message_size(HEALTH_MESSAGE_BYTES_MAX)
}

impl<D: Decider> HealthService<D> {
    fn known(&self, service: &str) -> Result<(), Status> {
        if service.is_empty() || self.services.contains(&service) {
            return Ok(());
        }
        Err(Status::not_found("service: no service of that name is offered here"))
    }
}

#[tonic::async_trait]
impl<D: Decider> Health for HealthService<D> {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        self.known(&request.into_inner().service)?;
        Ok(Response::new(response(serving(&*self.decider))))
    }

    type WatchStream = Watch<D>;

    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Watch<D>>, Status> {
        self.known(&request.into_inner().service)?;
        let mut interval = tokio::time::interval(WATCH_PERIOD);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Response::new(Watch { decider: Arc::clone(&self.decider), interval, told: None, ends: false }))
    }
}

/// Tells a watcher of every change.
#[derive(Debug)]
pub struct Watch<D> {
    decider: Arc<D>,
    interval: Interval,
    told: Option<ServingStatus>,
    ends: bool,
}

impl<D: Decider> Stream for Watch<D> {
    type Item = Result<HealthCheckResponse, Status>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if this.ends {
                return Poll::Ready(None);
            }
            if this.interval.poll_tick(cx).is_pending() {
                return Poll::Pending;
            }
            let now = serving(&*this.decider);
            let told = this.told.replace(now);
            if told != Some(now) {
                this.ends = told == Some(ServingStatus::Serving);
                return Poll::Ready(Some(Ok(response(now))));
            }
        }
    }
}

fn serving(decider: &impl Decider) -> ServingStatus {
    match decider.readiness() {
        Readiness::Ready => ServingStatus::Serving,
        Readiness::NotReady(_) => ServingStatus::NotServing,
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

#[cfg(test)]
mod tests;
