//! `leasehold.v1.Admin`: rules, status and the cluster, for the operators' port.
//!
//! Wrong rules are `INVALID_ARGUMENT` with every mistake in the details, another version in force is `ABORTED`, rules that
//! this process may not write and what the cluster refuses are `FAILED_PRECONDITION`, a failed write is `INTERNAL`.

mod cluster;
mod usage;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::ConnectInfo;
use leasehold_limit::rules::RuleError;
use leasehold_model::{RulesVersion, ShardId};
use leasehold_wire::duration;
use leasehold_wire::proto::leasehold::v1;
use leasehold_wire::proto::leasehold::v1::admin_server::AdminServer;
use leasehold_wire::status;
use tonic::{Response, Status};

use super::check_status;
use crate::leases::{LEASES_DEFAULT, LEASES_MAX};
use crate::top_keys::{TOP_KEYS_DEFAULT, TOP_KEYS_MAX, TopKeysQuery};
use crate::{Admin, AdminError, Readiness, bounds};

/// The service over an operator's interface.
#[derive(Debug)]
pub struct AdminService<A> {
    admin: Arc<A>,
}

/// The service as the listener serves it.
#[must_use]
pub fn admin_server<A: Admin>(admin: Arc<A>) -> AdminServer<AdminService<A>> {
    AdminServer::new(AdminService { admin }).max_decoding_message_size(bounds::ADMIN_MESSAGE_BYTES_MAX)
}

#[tonic::async_trait]
impl<A: Admin> v1::admin_server::Admin for AdminService<A> {
    async fn get_rules(
        &self,
        request: tonic::Request<v1::GetRulesRequest>,
    ) -> Result<Response<v1::GetRulesResponse>, Status> {
        let domain = request.into_inner().domain;
        bounds::domain(&domain).map_err(|error| check_status(&error))?;
        let found = self.admin.rules_get(&domain);
        let (text, version) =
            found.ok_or_else(|| Status::not_found("domain: no rules of that name are in force"))?;
        Ok(Response::new(v1::GetRulesResponse { text, version: version.0 }))
    }

    async fn put_rules(
        &self,
        request: tonic::Request<v1::PutRulesRequest>,
    ) -> Result<Response<v1::PutRulesResponse>, Status> {
        let by = by(&request);
        let message = request.into_inner();
        within_bounds(&message.text)?;
        let expected = message.expected_version.map(RulesVersion);
        let put = self.admin.rules_put(&message.text, expected, &by).await;
        let version = put.map_err(|error| admin_status(&error))?;
        Ok(Response::new(v1::PutRulesResponse { version: version.0 }))
    }

    async fn remove_rules(
        &self,
        request: tonic::Request<v1::RemoveRulesRequest>,
    ) -> Result<Response<v1::RemoveRulesResponse>, Status> {
        let by = by(&request);
        let v1::RemoveRulesRequest { domain, expected_version } = request.into_inner();
        bounds::domain(&domain).map_err(|error| check_status(&error))?;
        let removed = self.admin.rules_remove(&domain, expected_version.map(RulesVersion), &by).await;
        let version = removed.map_err(|error| admin_status(&error))?;
        Ok(Response::new(v1::RemoveRulesResponse { version: version.0 }))
    }

    async fn leases(
        &self,
        request: tonic::Request<v1::LeasesRequest>,
    ) -> Result<Response<v1::LeasesResponse>, Status> {
        let v1::LeasesRequest { domain, limit } = request.into_inner();
        let domain = usage::domain(&domain)?;
        let most = usage::limit(limit, LEASES_DEFAULT, LEASES_MAX)?;
        let told = self.admin.leases(domain, most).await.map_err(|error| admin_status(&error))?;
        Ok(Response::new(usage::leases(told)))
    }

    async fn top_keys(
        &self,
        request: tonic::Request<v1::TopKeysRequest>,
    ) -> Result<Response<v1::TopKeysResponse>, Status> {
        let v1::TopKeysRequest { domain, limit, show_values, this_node } = request.into_inner();
        let domain = usage::domain(&domain)?;
        let most = usage::limit(limit, TOP_KEYS_DEFAULT, TOP_KEYS_MAX)?;
        let told = self.admin.top_keys(TopKeysQuery { domain, most, show_values, this_node }).await;
        Ok(Response::new(told.map_err(|error| admin_status(&error))?.into()))
    }

    async fn validate_rules(
        &self,
        request: tonic::Request<v1::ValidateRulesRequest>,
    ) -> Result<Response<v1::ValidateRulesResponse>, Status> {
        let text = request.into_inner().text;
        within_bounds(&text)?;
        Ok(Response::new(match self.admin.rules_validate(&text) {
            Ok(domain) => v1::ValidateRulesResponse { domain, errors: Vec::new() },
            Err(errors) => v1::ValidateRulesResponse { domain: String::new(), errors: rule_errors(&errors) },
        }))
    }

    async fn rules_status(
        &self,
        _request: tonic::Request<v1::RulesStatusRequest>,
    ) -> Result<Response<v1::RulesStatusResponse>, Status> {
        let status = self.admin.rules_status();
        let domains = status.domains.into_iter().map(|domain| v1::DomainStatus {
            name: domain.name,
            rules: count(domain.rules),
            overrides: count(domain.overrides),
        });
        Ok(Response::new(v1::RulesStatusResponse {
            version: status.version.0,
            source: status.source,
            domains: domains.collect(),
            errors: rule_errors(&status.errors),
            reloads_accepted: status.reloads_accepted,
            reloads_refused: status.reloads_refused,
        }))
    }

    async fn status(
        &self,
        _request: tonic::Request<v1::StatusRequest>,
    ) -> Result<Response<v1::StatusResponse>, Status> {
        let status = self.admin.status().await;
        let (ready, not_ready_reason) = match status.readiness {
            Readiness::Ready => (true, String::new()),
            Readiness::NotReady(reason) => (false, reason),
        };
        Ok(Response::new(v1::StatusResponse {
            version: status.version,
            ready,
            not_ready_reason,
            uptime: Some(duration::to_proto(status.uptime)),
            keys: status.keys,
            allowed: status.allowed,
            over_limit: status.over_limit,
            unavailable: status.unavailable,
            state_hash: status.state_hash.map(|hash| format!("{hash:032x}")).unwrap_or_default(),
        }))
    }

    async fn cluster(
        &self,
        request: tonic::Request<v1::ClusterRequest>,
    ) -> Result<Response<v1::ClusterResponse>, Status> {
        let status =
            self.admin.cluster(request.into_inner().hashes).await.map_err(|error| admin_status(&error))?;
        Ok(Response::new(cluster::response(status)))
    }

    async fn audit(
        &self,
        _request: tonic::Request<v1::AuditRequest>,
    ) -> Result<Response<v1::AuditResponse>, Status> {
        let entries = self.admin.audit().map_err(|error| admin_status(&error))?;
        let entries = entries.into_iter().map(cluster::audit_entry).collect();
        Ok(Response::new(v1::AuditResponse { entries }))
    }

    async fn move_leader(
        &self,
        request: tonic::Request<v1::MoveLeaderRequest>,
    ) -> Result<Response<v1::MoveLeaderResponse>, Status> {
        let v1::MoveLeaderRequest { shard, to } = request.into_inner();
        let moved = self.admin.move_leader(ShardId(shard), &to).await;
        moved.map_err(|error| admin_status(&error))?;
        Ok(Response::new(v1::MoveLeaderResponse {}))
    }

    async fn set_standing(
        &self,
        request: tonic::Request<v1::SetStandingRequest>,
    ) -> Result<Response<v1::SetStandingResponse>, Status> {
        let by = by(&request);
        let message = request.into_inner();
        let standing = cluster::standing(message.standing())
            .ok_or_else(|| status::invalid("standing", "name active, draining or dead"))?;
        let set = self.admin.set_standing(&message.member, standing, &by).await;
        set.map_err(|error| admin_status(&error))?;
        Ok(Response::new(v1::SetStandingResponse {}))
    }

    async fn forget(
        &self,
        request: tonic::Request<v1::ForgetRequest>,
    ) -> Result<Response<v1::ForgetResponse>, Status> {
        let by = by(&request);
        let forgotten = self.admin.forget(&request.into_inner().member, &by).await;
        forgotten.map_err(|error| admin_status(&error))?;
        Ok(Response::new(v1::ForgetResponse {}))
    }
}

/// Who asks, for the audit.
fn by<T>(request: &tonic::Request<T>) -> String {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
    crate::http::who(peer)
}

fn within_bounds(text: &str) -> Result<(), Status> {
    bounds::at_most("text", text.len(), bounds::RULES_BYTES_MAX, "bytes")
        .map_err(|error| check_status(&error))
}

fn admin_status(error: &AdminError) -> Status {
    match error {
        AdminError::Invalid(errors) => status::invalid_rules(errors),
        AdminError::Conflict { .. } => Status::aborted(format!("expected_version: {error}")),
        AdminError::ReadOnly(_) | AdminError::Alone | AdminError::Refused(_) => {
            Status::failed_precondition(error.to_string())
        }
        AdminError::Failed(_) => Status::internal(error.to_string()),
        AdminError::NotFound(_) => Status::not_found(error.to_string()),
        AdminError::Unavailable(_) => Status::unavailable(error.to_string()),
    }
}

fn rule_errors(errors: &[RuleError]) -> Vec<v1::RuleError> {
    errors.iter().map(v1::RuleError::from).collect()
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
