//! Routes for operators: rules, status, metrics and the cluster, on a port of their own.
//!
//! A rule file is YAML as on disk. `GET /v1/rules/{domain}` sends its version as `ETag`; a `PUT` with that in `If-Match`
//! changes the rules only if nobody else did meanwhile (412 otherwise), and so does a `DELETE`.

mod cluster;
mod usage;

use std::future::{self, Ready};
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{ConnectInfo, Path, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, get, on};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, ETAG, IF_MATCH};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use leasehold_model::RulesVersion;
use serde_json::json;

use super::body;
use super::problem::{Problem, RuleErrors};
use super::routes::{get_only, json, live, named, not_found, post_only, readiness};
use crate::{Admin, Decider, Readiness, bounds};

const OPENMETRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
const YAML: HeaderValue = HeaderValue::from_static("application/yaml");

/// Routes for operators. Whoever reaches them can change every limit: they belong on a port that callers don't reach.
pub fn admin_routes<D: Decider + Admin>(admin: Arc<D>) -> Router {
    Router::new()
        .route("/", get(index).fallback(get_only))
        .route("/livez", get(live).fallback(get_only))
        .route("/readyz", get(ready::<D>).fallback(get_only))
        .route("/metrics", get(metrics::<D>).fallback(get_only))
        .route("/v1/status", get(status::<D>).fallback(get_only))
        .route("/v1/rules", get(rules::<D>).fallback(get_only))
        .route("/v1/rules:validate", on(MethodFilter::POST, validate::<D>).fallback(post_only))
        .route(
            "/v1/rules/{domain}",
            get(rules_of::<D>).put(put_rules::<D>).delete(remove_rules::<D>).fallback(no_such_method),
        )
        .merge(usage::routes())
        .merge(cluster::routes())
        .fallback(not_found)
        .with_state(admin)
}

const INDEX: &str = "\
leasehold: rate limits. This port is for operators.

GET  /metrics             OpenMetrics
GET  /v1/status           the process in numbers
GET  /v1/rules            what is in force, how the last reload went
GET  /v1/rules/DOMAIN     one domain's rules
PUT  /v1/rules/DOMAIN     other rules for it; If-Match: \"VERSION\" guards against a lost change
DELETE /v1/rules/DOMAIN   no rules for it any more: its requests pass without a limit
POST /v1/rules:validate   every mistake in a rule file, without putting it in force
GET  /v1/leases           units lent to edges: ?domain=DOMAIN&limit=50
GET  /v1/keys/top         keys asked for most often: ?domain=DOMAIN&limit=20&show_values=true&this_node=true
GET  /v1/cluster          members and shards
GET  /v1/audit            who changed what and when
POST /v1/shards/N/leader  another leader for a shard: {\"to\": \"NODE\"}
POST /v1/members/NODE     {\"standing\": \"draining\"}, \"active\" or \"dead\"
DELETE /v1/members/NODE   forgets a node that holds nothing any more
GET  /livez, /readyz
";

fn index() -> Ready<&'static str> {
    future::ready(INDEX)
}

fn ready<D: Decider>(State(admin): State<Arc<D>>) -> Ready<Response> {
    future::ready(readiness(&*admin))
}

fn metrics<D: Admin>(State(admin): State<Arc<D>>) -> Ready<Response> {
    future::ready(([(CONTENT_TYPE, OPENMETRICS)], admin.metrics()).into_response())
}

async fn status<D: Admin>(State(admin): State<Arc<D>>) -> Response {
    let status = admin.status().await;
    let (ready, reason) = match status.readiness {
        Readiness::Ready => (true, None),
        Readiness::NotReady(reason) => (false, Some(reason)),
    };
    json(&json!({
        "version": status.version,
        "ready": ready,
        "reason": reason,
        "degraded": status.degraded,
        "uptime_ms": status.uptime.millis_ceil(),
        "keys": status.keys,
        "allowed": status.allowed,
        "over_limit": status.over_limit,
        "unavailable": status.unavailable,
        "state_hash": status.state_hash.map(|hash| format!("{hash:032x}")),
    }))
}

fn rules<D: Admin>(State(admin): State<Arc<D>>) -> Ready<Response> {
    let status = admin.rules_status();
    let domains = status
        .domains
        .iter()
        .map(|domain| json!({ "name": domain.name, "rules": domain.rules, "overrides": domain.overrides }));
    future::ready(json(&json!({
        "version": status.version.0,
        "source": status.source,
        "domains": domains.collect::<Vec<_>>(),
        "errors": RuleErrors(&status.errors),
        "reloads_accepted": status.reloads_accepted,
        "reloads_refused": status.reloads_refused,
    })))
}

fn rules_of<D: Admin>(
    State(admin): State<Arc<D>>,
    domain: Result<Path<String>, PathRejection>,
) -> Ready<Result<Response, Problem>> {
    future::ready(domain_of(domain).and_then(|domain| match admin.rules_get(&domain) {
        Some((text, version)) => Ok(([(CONTENT_TYPE, YAML), (ETAG, etag(version))], text).into_response()),
        None => Err(unknown(&*admin, &domain)),
    }))
}

fn unknown<D: Admin>(admin: &D, domain: &str) -> Problem {
    let names: Vec<_> = admin.rules_status().domains.into_iter().map(|domain| domain.name).collect();
    let detail = format!("there is no domain {domain:?}; there are: {}", names.join(", "));
    Problem::new(StatusCode::NOT_FOUND, detail)
}

fn domain_of(domain: Result<Path<String>, PathRejection>) -> Result<String, Problem> {
    let Path(domain) = domain.map_err(|_| Problem::field("domain", "it can't be read from the path"))?;
    bounds::domain(&domain)?;
    Ok(domain)
}

async fn put_rules<D: Admin>(
    State(admin): State<Arc<D>>,
    domain: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let work = async {
        let domain = domain_of(domain)?;
        let expected = expected(&parts.headers)?;
        let body = body::read(&parts.headers, body, bounds::RULES_BYTES_MAX).await?;
        let text = text(&body)?;
        let named = admin.rules_validate(text).map_err(Problem::rules)?;
        if named != domain {
            let fix = format!("the file is for domain {named:?}; send it to /v1/rules/{named}");
            return Err(Problem::field("domain", &fix));
        }
        let version = admin.rules_put(text, expected, &who(parts.extensions.get())).await?;
        let mut response = json(&json!({ "domain": domain, "version": version.0 }));
        response.headers_mut().insert(ETAG, etag(version));
        Ok(response)
    };
    named(&parts.headers, work).await
}

async fn remove_rules<D: Admin>(
    State(admin): State<Arc<D>>,
    domain: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    let work = async {
        let domain = domain_of(domain)?;
        let expected = expected(&parts.headers)?;
        let version = admin.rules_remove(&domain, expected, &who(parts.extensions.get())).await?;
        let mut response = json(&json!({ "domain": domain, "removed": true, "version": version.0 }));
        response.headers_mut().insert(ETAG, etag(version));
        Ok(response)
    };
    named(&parts.headers, work).await
}

async fn validate<D: Admin>(State(admin): State<Arc<D>>, request: Request) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let body = body::read(&parts.headers, body, bounds::RULES_BYTES_MAX).await?;
    let domain = admin.rules_validate(text(&body)?).map_err(Problem::rules)?;
    Ok(json(&json!({ "domain": domain, "valid": true })))
}

/// Who asks, for the audit: nothing is known of them but where they come from.
pub(crate) fn who(peer: Option<&ConnectInfo<SocketAddr>>) -> String {
    peer.map_or_else(|| "operator".to_owned(), |ConnectInfo(peer)| format!("operator at {}", peer.ip()))
}

fn text(body: &Bytes) -> Result<&str, Problem> {
    std::str::from_utf8(body)
        .map_err(|_| Problem::field("body", "it is not UTF-8; send the YAML text as it is"))
}

fn etag(version: RulesVersion) -> HeaderValue {
    HeaderValue::try_from(format!("\"{version}\"")).expect("a number in quotes is a valid header")
}

/// The version that `If-Match` expects; `*` expects none in particular.
fn expected(headers: &HeaderMap) -> Result<Option<RulesVersion>, Problem> {
    let Some(value) = headers.get(IF_MATCH) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim();
    if text == "*" {
        return Ok(None);
    }
    let number = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    match number.parse() {
        Ok(version) => Ok(Some(RulesVersion(version))),
        Err(_) => Err(Problem::field("If-Match", "it is no version; send the ETag of GET /v1/rules/DOMAIN")),
    }
}

fn no_such_method(method: Method) -> Ready<Problem> {
    future::ready(body::not_allowed(&method, "GET, HEAD, PUT, DELETE"))
}
