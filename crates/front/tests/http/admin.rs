//! The operators' routes over a test double.

mod cluster;
mod usage;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{Method, Request};
use leasehold_front::cluster::{AuditEntry, ClusterStatus, Standing};
use leasehold_front::http::admin_routes;
use leasehold_front::leases::LeasesStatus;
use leasehold_front::top_keys::{TopKeysQuery, TopKeysStatus};
use leasehold_front::{
    Admin, AdminError, CheckError, Decider, DomainStatus, Readiness, ResetTarget, RulesStatus, Status,
};
use leasehold_limit::check::{Answer, Request as Checked};
use leasehold_limit::rules::RuleError;
use leasehold_model::{Nanos, RequestId, RulesVersion, ShardId, Stamp};
use serde_json::json;

use crate::double::{Reply, send};

/// A process with one domain, `api`, at version 3; what it is told to put in force ends as `put` says.
struct Operated {
    put: Result<RulesVersion, AdminError>,
    told: Mutex<Vec<(String, Option<RulesVersion>)>>,
    cluster: Result<ClusterStatus, AdminError>,
    operations: Mutex<Vec<String>>,
}

fn mistake() -> RuleError {
    RuleError {
        file: "api.yaml".into(),
        line: 4,
        column: 7,
        field: "limits[0].burst".into(),
        message: "it is 0".into(),
        fix: "leave it out".into(),
    }
}

impl Decider for Operated {
    async fn check(&self, _: &Checked<'_>, _: Option<Duration>) -> Result<Answer, CheckError> {
        std::future::ready(Err(CheckError::RequestIdReused)).await
    }

    async fn reset(&self, _: ResetTarget<'_>) -> Result<u32, CheckError> {
        std::future::ready(Ok(0)).await
    }

    fn request_id(&self, _: &str, _: &str) -> RequestId {
        RequestId { session: 0, seq: 0 }
    }

    fn readiness(&self) -> Readiness {
        Readiness::NotReady("starting".into())
    }
}

impl Admin for Operated {
    fn rules_get(&self, domain: &str) -> Option<(String, RulesVersion)> {
        (domain == "api").then(|| ("domain: api\n".to_owned(), RulesVersion(3)))
    }

    async fn rules_put(
        &self,
        text: &str,
        expected: Option<RulesVersion>,
        _: &str,
    ) -> Result<RulesVersion, AdminError> {
        self.told.lock().unwrap().push((text.to_owned(), expected));
        std::future::ready(self.put.clone()).await
    }

    async fn rules_remove(
        &self,
        domain: &str,
        expected: Option<RulesVersion>,
        by: &str,
    ) -> Result<RulesVersion, AdminError> {
        self.told.lock().unwrap().push((format!("{domain} removed by {by}"), expected));
        std::future::ready(self.put.clone()).await
    }

    fn rules_validate(&self, text: &str) -> Result<String, Vec<RuleError>> {
        text.strip_prefix("domain: ").map(|rest| rest.trim().to_owned()).ok_or_else(|| vec![mistake()])
    }

    fn rules_status(&self) -> RulesStatus {
        RulesStatus {
            version: RulesVersion(3),
            source: "api.yaml".into(),
            domains: vec![DomainStatus { name: "api".into(), rules: 2, overrides: 1 }],
            errors: vec![mistake()],
            reloads_accepted: 5,
            reloads_refused: 1,
        }
    }

    async fn status(&self) -> Status {
        Status {
            version: "0.1.0".into(),
            readiness: self.readiness(),
            uptime: Nanos(1_500_000_001),
            keys: 7,
            allowed: 8,
            over_limit: 9,
            unavailable: 10,
            state_hash: Some(0xabc),
            degraded: Some("no node".into()),
        }
    }

    async fn leases(&self, domain: Option<&str>, most: u32) -> Result<LeasesStatus, AdminError> {
        self.operations.lock().unwrap().push(format!("{most} leases of {domain:?}"));
        std::future::ready(Ok(usage::leases())).await
    }

    async fn top_keys<'a>(&'a self, query: TopKeysQuery<'a>) -> Result<TopKeysStatus, AdminError> {
        let TopKeysQuery { domain, most, show_values, this_node } = query;
        let told = format!("{most} keys of {domain:?}, {show_values}, {this_node}");
        self.operations.lock().unwrap().push(told);
        std::future::ready(Ok(usage::top_keys())).await
    }

    fn metrics(&self) -> String {
        "# EOF\n".into()
    }

    async fn cluster(&self, _: bool) -> Result<ClusterStatus, AdminError> {
        std::future::ready(self.cluster.clone()).await
    }

    fn audit(&self) -> Result<Vec<AuditEntry>, AdminError> {
        let entry =
            AuditEntry { at: Stamp(1_500_000_001), by: "ann".into(), what: "node 1 is draining".into() };
        self.cluster.clone().map(|_| vec![entry])
    }

    async fn move_leader(&self, shard: ShardId, to: &str) -> Result<(), AdminError> {
        self.operate(format!("shard {} to {to}", shard.0)).await
    }

    async fn set_standing(&self, member: &str, standing: Standing, by: &str) -> Result<(), AdminError> {
        self.operate(format!("{member} {} by {by}", standing.name())).await
    }

    async fn forget(&self, member: &str, by: &str) -> Result<(), AdminError> {
        self.operate(format!("{member} forgotten by {by}")).await
    }
}

impl Operated {
    async fn operate(&self, what: String) -> Result<(), AdminError> {
        self.operations.lock().unwrap().push(what);
        std::future::ready(self.cluster.clone().map(drop)).await
    }
}

fn routes(put: Result<RulesVersion, AdminError>) -> (Arc<Operated>, Router) {
    operated(put, Err(AdminError::Alone))
}

fn operated(
    put: Result<RulesVersion, AdminError>,
    cluster: Result<ClusterStatus, AdminError>,
) -> (Arc<Operated>, Router) {
    let admin = Arc::new(Operated { put, told: Mutex::default(), cluster, operations: Mutex::default() });
    (Arc::clone(&admin), admin_routes(admin))
}

async fn ask(router: &Router, method: Method, path: &str, body: &str) -> Reply {
    send(router, Request::builder().method(method).uri(path).body(Body::from(body.to_owned())).unwrap()).await
}

async fn get(path: &str) -> Reply {
    ask(&routes(Ok(RulesVersion(4))).1, Method::GET, path, "").await
}

#[tokio::test]
async fn metrics_are_openmetrics() {
    let reply = get("/metrics").await;
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!((reply.header("content-type"), reply.body.as_str()), (Some(content_type), "# EOF\n"));
}

#[tokio::test]
async fn rules_are_told_as_a_whole_and_by_domain() {
    assert_eq!(
        get("/v1/rules").await.json(),
        json!({
            "version": 3, "source": "api.yaml", "domains": [{ "name": "api", "rules": 2, "overrides": 1 }],
            "errors": [{
                "file": "api.yaml", "line": 4, "column": 7, "field": "limits[0].burst", "message": "it is 0",
                "fix": "leave it out",
            }],
            "reloads_accepted": 5, "reloads_refused": 1,
        })
    );
    let reply = get("/v1/rules/api").await;
    assert_eq!(
        (reply.header("etag"), reply.header("content-type")),
        (Some("\"3\""), Some("application/yaml"))
    );
    assert_eq!(reply.body, "domain: api\n");
    let unknown = get("/v1/rules/apu").await;
    unknown.is_problem(404, "");
    assert!(unknown.body.contains("there are: api"));
}

#[tokio::test]
async fn status_is_told_with_the_reason_for_being_away() {
    let status = get("/v1/status").await.json();
    assert_eq!((&status["ready"], &status["reason"]), (&json!(false), &json!("starting")));
    assert_eq!((&status["uptime_ms"], &status["keys"]), (&json!(1501), &json!(7)));
    let decided = ["allowed", "over_limit", "unavailable"].map(|verdict| &status[verdict]);
    assert_eq!(decided, [&json!(8), &json!(9), &json!(10)]);
    assert_eq!(status["state_hash"], "00000000000000000000000000000abc");
    assert_eq!(status["degraded"], "no node");
    assert_eq!(get("/readyz").await.status, 503);
    assert_eq!(get("/livez").await.status, 200);
    assert!(get("/").await.body.contains("/v1/rules:validate"));
}

#[tokio::test]
async fn rules_are_put_in_force_under_the_version_that_was_expected() {
    for (if_match, expected) in [
        (None, None),
        (Some("*"), None),
        (Some("\"3\""), Some(RulesVersion(3))),
        (Some("3"), Some(RulesVersion(3))),
    ] {
        let (admin, router) = routes(Ok(RulesVersion(4)));
        let mut request = Request::put("/v1/rules/api");
        if let Some(if_match) = if_match {
            request = request.header("if-match", if_match);
        }
        let reply = send(&router, request.body(Body::from("domain: api")).unwrap()).await;
        assert_eq!((reply.status.as_u16(), reply.header("etag")), (200, Some("\"4\"")));
        assert_eq!(reply.json(), json!({ "domain": "api", "version": 4 }));
        assert_eq!(*admin.told.lock().unwrap(), [("domain: api".to_owned(), expected)]);
    }
}

#[tokio::test]
async fn rules_that_cannot_be_put_in_force_say_why() {
    let conflict = AdminError::Conflict { expected: RulesVersion(2), current: RulesVersion(3) };
    for (error, status, field) in [
        (conflict, 412, ""),
        (AdminError::ReadOnly("the folder is read-only".into()), 403, ""),
        (AdminError::Failed("the disk is full".into()), 500, ""),
        (AdminError::Invalid(vec![mistake()]), 400, "limits[0].burst"),
    ] {
        let (_, router) = routes(Err(error));
        let reply = ask(&router, Method::PUT, "/v1/rules/api", "domain: api").await;
        assert_eq!(reply.status.as_u16(), status, "{}", reply.body);
        assert_eq!(reply.json()["field"].as_str().unwrap_or_default(), field);
    }
}

#[tokio::test]
async fn a_wrong_file_never_reaches_the_rules_in_force() {
    let (admin, router) = routes(Ok(RulesVersion(4)));
    ask(&router, Method::PUT, "/v1/rules/other", "domain: api").await.is_problem(400, "domain");
    let reply = ask(&router, Method::PUT, "/v1/rules/api", "limits: []").await;
    assert_eq!((reply.status.as_u16(), &reply.json()["errors"][0]["line"]), (400, &json!(4)));
    let large = "#".repeat(1024 * 1024 + 1);
    ask(&router, Method::PUT, "/v1/rules/api", &large).await.is_problem(413, "");
    let request = Request::put("/v1/rules/api").body(Body::from(vec![0xff])).unwrap();
    send(&router, request).await.is_problem(400, "body");
    let request = Request::put("/v1/rules/api").header("if-match", "\"x\"").body(Body::empty()).unwrap();
    send(&router, request).await.is_problem(400, "If-Match");
    ask(&router, Method::PUT, "/v1/rules/%ff", "domain: api").await.is_problem(400, "domain");
    assert!(admin.told.lock().unwrap().is_empty());
}

#[tokio::test]
async fn rules_can_be_validated_without_putting_them_in_force() {
    let (admin, router) = routes(Ok(RulesVersion(4)));
    let reply = ask(&router, Method::POST, "/v1/rules:validate", "domain: new").await;
    assert_eq!(reply.json(), json!({ "domain": "new", "valid": true }));
    let reply = ask(&router, Method::POST, "/v1/rules:validate", "x").await;
    assert_eq!((reply.status.as_u16(), &reply.json()["errors"][0]["fix"]), (400, &json!("leave it out")));
    assert!(admin.told.lock().unwrap().is_empty());
    let wrong = ask(&router, Method::POST, "/v1/rules/api", "").await;
    assert_eq!((wrong.status.as_u16(), wrong.header("allow")), (405, Some("GET, HEAD, PUT, DELETE")));
}

#[tokio::test]
async fn rules_are_removed_under_the_version_that_was_expected() {
    let (admin, router) = routes(Ok(RulesVersion(4)));
    let request = Request::delete("/v1/rules/api").header("if-match", "\"3\"").body(Body::empty()).unwrap();
    let reply = send(&router, request).await;
    assert_eq!((reply.status.as_u16(), reply.header("etag")), (200, Some("\"4\"")));
    assert_eq!(reply.json(), json!({ "domain": "api", "removed": true, "version": 4 }));
    let told = ("api removed by operator".to_owned(), Some(RulesVersion(3)));
    assert_eq!(*admin.told.lock().unwrap(), [told]);
    for (error, status) in [
        (AdminError::NotFound("no such domain".into()), 404),
        (AdminError::ReadOnly("the rules are built in".into()), 403),
        (AdminError::Conflict { expected: RulesVersion(3), current: RulesVersion(5) }, 412),
    ] {
        let reply = ask(&routes(Err(error)).1, Method::DELETE, "/v1/rules/api", "").await;
        assert_eq!(reply.status.as_u16(), status, "{}", reply.body);
    }
}
