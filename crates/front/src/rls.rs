//! Envoy's rate limit service over a [`Decider`].
//!
//! | what happened | answer |
//! |---|---|
//! | decided | OK; `overall_code` is OVER_LIMIT when any enforced limit refused, and then nothing was charged |
//! | could not be asked | as each limit declares: `allow` is OK, `deny` is OVER_LIMIT; the client's response is marked with `x-leasehold-degraded: true` |
//! | a field is wrong | `INVALID_ARGUMENT` that names it |
//! | too much is going on | `UNAVAILABLE`, so Envoy's own failure mode decides |
//!
//! Statuses are always filled, one for each descriptor: Envoy builds its `x-ratelimit-*` headers from them.

use std::sync::Arc;
use std::time::Duration;

use leasehold_limit::check::Request;
use leasehold_wire::proto::envoy::service::ratelimit::v3::rate_limit_service_server::{
    RateLimitService, RateLimitServiceServer,
};
use leasehold_wire::proto::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use leasehold_wire::rls;
use tonic::{Response, Status};

use crate::grpc::{budget, check_status};
use crate::{CheckError, Decider, bounds};

/// The service over a decider.
#[derive(Debug)]
pub struct RlsService<D> {
    decider: Arc<D>,
}

/// The service as the listener serves it.
#[must_use]
pub fn rls_server<D: Decider>(decider: Arc<D>) -> RateLimitServiceServer<RlsService<D>> {
    RateLimitServiceServer::new(RlsService { decider }).max_decoding_message_size(bounds::MESSAGE_BYTES_MAX)
}

#[tonic::async_trait]
impl<D: Decider> RateLimitService for RlsService<D> {
    async fn should_rate_limit(
        &self,
        request: tonic::Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let (metadata, _, message) = request.into_parts();
        let budget = budget(&metadata.into_headers());
        self.decide(&message, budget).await.map(Response::new).map_err(|error| check_status(&error))
    }
}

impl<D: Decider> RlsService<D> {
    async fn decide(
        &self,
        message: &RateLimitRequest,
        budget: Option<Duration>,
    ) -> Result<RateLimitResponse, CheckError> {
        let request = checked(message)?;
        Ok((&self.decider.check(&request, budget).await?).into())
    }
}

/// The request, if it can be read and what it carries is within bounds.
fn checked(message: &RateLimitRequest) -> Result<Request<'_>, CheckError> {
    bounds::domain(&message.domain)?;
    bounds::at_most("descriptors", message.descriptors.len(), bounds::DESCRIPTORS_MAX, "descriptors")?;
    let request = rls::request(message).map_err(|error| bounds::invalid(error.field(), error.to_string()))?;
    for (index, descriptor) in request.descriptors.iter().enumerate() {
        bounds::attributes(format_args!("descriptors[{index}].entries"), &descriptor.attributes)?;
    }
    Ok(request)
}

#[cfg(test)]
mod tests;
