//! The routes about what is used.

use leasehold_front::leases::{LeaseStatus, LeaseTotals};
use leasehold_front::top_keys::TopKey;
use leasehold_model::Key;

use super::*;

pub(super) fn leases() -> LeasesStatus {
    let lease = LeaseStatus {
        key: Key { high: 1, low: 2 },
        domain: Some("api".into()),
        shard: ShardId(3),
        edge: 0xff,
        edge_name: None,
        granted: 200,
        spent: 120,
        returned: 5,
        expires_in: Nanos(4_199_000_001),
    };
    let totals = LeaseTotals { leases: 1, out: 75, grants: 2, granted: 300, ..LeaseTotals::default() };
    LeasesStatus { leases: vec![lease], more: true, totals, shards_unanswered: 4 }
}

pub(super) fn top_keys() -> TopKeysStatus {
    let key = TopKey {
        domain: "api".into(),
        rule: "per-user".into(),
        key: Key { high: 1, low: 2 },
        values: vec![("user".into(), "ann".into())],
        requests: 640,
        error: 64,
        refused: 128,
        rule_requests: 1_280,
        unlisted_max: 64,
    };
    let (window, nodes_unanswered) = (Nanos::from_secs(90), vec!["us-2".into()]);
    TopKeysStatus { keys: vec![key], window, sampled_one_in: 64, nodes: 2, nodes_unanswered }
}

#[tokio::test]
async fn leases_are_told_in_the_shape_that_is_documented() {
    let (admin, router) = routes(Ok(RulesVersion(4)));
    let told = ask(&router, Method::GET, "/v1/leases", "").await.json();
    assert_eq!(
        told,
        json!({
            "leases": [{
                "key": "00000000000000010000000000000002", "domain": "api", "shard": 3,
                "edge": "000000000000000000000000000000ff", "edge_name": null, "granted": 200, "spent": 120,
                "returned": 5, "out": 75, "expires_in_ms": 4200,
            }],
            "more": true,
            "totals": {
                "leases": 1, "out": 75, "grants": 2, "granted": 300, "spent": 0, "returned": 0, "lapsed": 0,
                "gates": 0, "violations": 0,
            },
            "shards_unanswered": 4,
        })
    );
    ask(&router, Method::GET, "/v1/leases?domain=api&limit=7", "").await.json();
    let told = admin.operations.lock().unwrap().clone();
    assert_eq!(told, ["50 leases of None", r#"7 leases of Some("api")"#]);
}

#[tokio::test]
async fn top_keys_are_told_with_values_only_where_those_are_asked_for() {
    let (admin, router) = routes(Ok(RulesVersion(4)));
    let told = ask(&router, Method::GET, "/v1/keys/top?limit=3", "").await.json();
    assert_eq!(
        told,
        json!({
            "keys": [{
                "domain": "api", "rule": "per-user", "key": "00000000000000010000000000000002", "values": null,
                "requests": 640, "error": 64, "refused": 128, "rule_requests": 1280, "unlisted_max": 64,
            }],
            "window_ms": 90_000, "sampled_one_in": 64, "nodes": 2, "nodes_unanswered": ["us-2"],
        })
    );
    let told =
        ask(&router, Method::GET, "/v1/keys/top?domain=api&show_values=true&this_node=true", "").await.json();
    assert_eq!(told["keys"][0]["values"], json!({ "user": "ann" }));
    let told = admin.operations.lock().unwrap().clone();
    assert_eq!(told, ["3 keys of None, false, false", r#"20 keys of Some("api"), true, true"#]);
}

#[tokio::test]
async fn what_is_asked_for_beyond_its_bounds_is_refused() {
    let (admin, router) = routes(Ok(RulesVersion(4)));
    for (path, field) in [
        ("/v1/leases?limit=0", "limit"),
        ("/v1/leases?limit=1001", "limit"),
        ("/v1/keys/top?limit=many", "query"),
        ("/v1/keys/top?values=true", "query"),
    ] {
        ask(&router, Method::GET, path, "").await.is_problem(400, field);
    }
    assert!(admin.operations.lock().unwrap().is_empty());
}
