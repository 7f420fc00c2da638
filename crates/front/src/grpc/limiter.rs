//! `leasehold.v1.Limiter`: check, batch, peek and reset. Where callers may not reset, that is `PERMISSION_DENIED`.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use leasehold_limit::RetryAfter;
use leasehold_limit::check::{Answer, Descriptor, Request, Verdict};
use leasehold_wire::check::{attributes, descriptor, peek_descriptor};
use leasehold_wire::proto::leasehold::v1;
use leasehold_wire::proto::leasehold::v1::limiter_server::{Limiter, LimiterServer};
use leasehold_wire::status;
use tokio::time::Instant;
use tonic::{Code, Response, Status};

use super::check_status;
use super::metadata::{budget, wants_status_errors};
use crate::http::RESET_OFF;
use crate::{CheckError, Decider, ResetTarget, bounds};

/// The service over a decider.
#[derive(Debug)]
pub struct LimiterService<D> {
    decider: Arc<D>,
    reset: bool,
}

/// The service as the listener serves it. `reset`: whether callers may make counters fresh.
#[must_use]
pub fn limiter_server<D: Decider>(decider: Arc<D>, reset: bool) -> LimiterServer<LimiterService<D>> {
    LimiterServer::new(LimiterService { decider, reset }).max_decoding_message_size(bounds::MESSAGE_BYTES_MAX)
}

#[tonic::async_trait]
impl<D: Decider> Limiter for LimiterService<D> {
    async fn check(
        &self,
        request: tonic::Request<v1::CheckRequest>,
    ) -> Result<Response<v1::CheckResponse>, Status> {
        let (metadata, _, message) = request.into_parts();
        let headers = metadata.into_headers();
        self.check_one(&message, budget(&headers), wants_status_errors(&headers)).await.map(Response::new)
    }

    async fn check_batch(
        &self,
        request: tonic::Request<v1::CheckBatchRequest>,
    ) -> Result<Response<v1::CheckBatchResponse>, Status> {
        let (metadata, _, message) = request.into_parts();
        self.batch(&metadata.into_headers(), &message.checks).await.map(Response::new)
    }

    async fn peek(
        &self,
        request: tonic::Request<v1::PeekRequest>,
    ) -> Result<Response<v1::CheckResponse>, Status> {
        let (metadata, _, message) = request.into_parts();
        let headers = metadata.into_headers();
        let asked = self.request(&message.domain, peek_descriptor(&message), "");
        self.decide(asked, budget(&headers), wants_status_errors(&headers)).await.map(Response::new)
    }

    async fn reset(
        &self,
        request: tonic::Request<v1::ResetRequest>,
    ) -> Result<Response<v1::ResetResponse>, Status> {
        if !self.reset {
            return Err(Status::permission_denied(RESET_OFF));
        }
        let message = request.into_inner();
        let attributes = attributes(&message.attributes);
        bounds::domain(&message.domain).map_err(|error| check_status(&error))?;
        bounds::some_attributes("attributes", &attributes).map_err(|error| check_status(&error))?;
        bounds::attributes("attributes", &attributes).map_err(|error| check_status(&error))?;
        let rule = (!message.rule.is_empty()).then_some(message.rule.as_str());
        let target = ResetTarget { domain: &message.domain, attributes: &attributes, rule };
        let reset = self.decider.reset(target).await.map_err(|error| check_status(&error))?;
        Ok(Response::new(v1::ResetResponse { reset }))
    }
}

impl<D: Decider> LimiterService<D> {
    async fn check_one(
        &self,
        message: &v1::CheckRequest,
        budget: Option<Duration>,
        status_errors: bool,
    ) -> Result<v1::CheckResponse, Status> {
        let asked = self.request(&message.domain, descriptor(message), &message.request_id);
        self.decide(asked, budget, status_errors).await
    }

    async fn batch(
        &self,
        headers: &HeaderMap,
        checks: &[v1::CheckRequest],
    ) -> Result<v1::CheckBatchResponse, Status> {
        if checks.is_empty() {
            return Err(status::invalid("checks", "it is empty; send at least one check"));
        }
        bounds::at_most("checks", checks.len(), bounds::BATCH_MAX, "checks")
            .map_err(|error| check_status(&error))?;
        let status_errors = wants_status_errors(headers);
        let deadline = budget(headers).and_then(|budget| Instant::now().checked_add(budget));
        let items = checks.iter().map(|check| async move {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            self.check_one(check, left, status_errors).await
        });
        let told = |decided: &Result<v1::CheckResponse, Status>| {
            decided.as_ref().map_or(0, |response| response.matched.len())
        };
        let full = || Err(Status::out_of_range(bounds::BATCH_FULL));
        let results = crate::batch::decide(items, told, full).await.into_iter().map(|decided| {
            let result = match decided {
                Ok(response) => v1::batch_result::Result::Response(response),
                Err(error) => v1::batch_result::Result::Error(status::to_proto(&error)),
            };
            v1::BatchResult { result: Some(result) }
        });
        let results = results.collect();
        Ok(v1::CheckBatchResponse { results })
    }

    /// The request, if what it carries is within bounds. An empty request id is none.
    fn request<'a>(
        &self,
        domain: &'a str,
        descriptor: Descriptor<'a>,
        request_id: &str,
    ) -> Result<Request<'a>, CheckError> {
        bounds::domain(domain)?;
        bounds::some_attributes("attributes", &descriptor.attributes)?;
        bounds::attributes("attributes", &descriptor.attributes)?;
        let request_id = match request_id {
            "" => None,
            text => {
                bounds::request_id(text)?;
                Some(self.decider.request_id(domain, text))
            }
        };
        Ok(Request { domain, descriptors: vec![descriptor], request_id })
    }

    async fn decide(
        &self,
        asked: Result<Request<'_>, CheckError>,
        budget: Option<Duration>,
        status_errors: bool,
    ) -> Result<v1::CheckResponse, Status> {
        let request = asked.map_err(|error| check_status(&error))?;
        let answer = self.decider.check(&request, budget).await.map_err(|error| check_status(&error))?;
        match refusal(&answer) {
            Some(refusal) if status_errors => Err(refusal),
            Some(_) | None => Ok((&answer).into()),
        }
    }
}

/// A refusal as a status, for callers that asked for it.
fn refusal(answer: &Answer) -> Option<Status> {
    let (code, what) = match answer.verdict {
        Verdict::Allowed => return None,
        Verdict::OverLimit => (Code::ResourceExhausted, "over the limit"),
        Verdict::Unavailable => (Code::Unavailable, "could not be asked"),
    };
    let names: Vec<_> = answer.violated().map(|matched| &*matched.rule.name).collect();
    let message = format!("{what}: {}", names.join(", "));
    Some(match answer.retry_after() {
        Some(RetryAfter::In(time)) => status::with_retry(code, &message, time),
        Some(RetryAfter::Never) | None => Status::new(code, message),
    })
}

#[cfg(test)]
mod tests;
