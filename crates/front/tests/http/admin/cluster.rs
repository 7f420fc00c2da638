//! The routes of a cluster.

use leasehold_front::cluster::{GroupStatus, MemberStatus, MoveStatus, ReplicaStatus, Role, StateHash};
use leasehold_model::{Epoch, NodeId};

use super::*;
use crate::double::json_request;

/// One node, one shard, one move.
fn status() -> ClusterStatus {
    let member = MemberStatus {
        id: NodeId(81_985_529_216_486),
        name: "a".into(),
        peer_address: "10.0.0.1:7601".into(),
        client_address: "10.0.0.1:7600".into(),
        zone: "z".into(),
        region: String::new(),
        weight: 100,
        standing: Standing::Draining,
        answers: true,
        live: true,
        votes: false,
        replicas: 1,
        leads: 1,
        keys: Some(7),
        rules_version: None,
        round_trip: Some(Duration::from_micros(310)),
    };
    let hash = Some(StateHash { applied: Some(9), hash: 0xabc });
    let role = Some(Role::Leader);
    let replica = ReplicaStatus { node: member.id, role, applied: Some(9), behind: None, hash };
    let shard = GroupStatus {
        leader: Some(member.id),
        preferred: None,
        home: Some("eu".to_owned()),
        keys: Some(5),
        replicas: vec![replica],
        moving: Some(MoveStatus { to: Some(NodeId(2)), from: None, phase: "learning" }),
    };
    ClusterStatus {
        id: 0xff,
        name: "example".into(),
        node: member.id,
        epoch: Epoch(3),
        rules_version: RulesVersion(2),
        replicas: 3,
        control: GroupStatus::default(),
        members: vec![member],
        shards: vec![shard],
    }
}

fn post(path: &str, body: &'static str) -> Request<Body> {
    json_request(path, body)
}

/// What a cluster that answers `cluster` makes of a request: the status, and what the operator was understood to want.
async fn operate(cluster: Result<ClusterStatus, AdminError>, request: Request<Body>) -> (u16, Vec<String>) {
    let (admin, router) = operated(Ok(RulesVersion(4)), cluster);
    let status = send(&router, request).await.status.as_u16();
    let told = admin.operations.lock().unwrap().clone();
    (status, told)
}

#[tokio::test]
async fn members_and_shards_are_told_in_the_shape_that_is_documented() {
    let (_, router) = operated(Ok(RulesVersion(4)), Ok(status()));
    let told = ask(&router, Method::GET, "/v1/cluster", "").await.json();
    let id = 81_985_529_216_486_u64;
    assert_eq!(
        told,
        json!({
            "id": "000000000000000000000000000000ff", "name": "example", "node": id, "epoch": 3, "rules_version": 2,
            "replicas": 3,
            "control": { "leader": null, "preferred": null, "home": null, "keys": null, "replicas": [], "move": null },
            "members": [{
                "id": id, "name": "a", "peer_address": "10.0.0.1:7601", "client_address": "10.0.0.1:7600", "zone": "z",
                "region": "", "weight": 100, "standing": "draining", "answers": true, "live": true, "votes": false,
                "replicas": 1, "leads": 1, "keys": 7, "rules_version": null, "round_trip_us": 310,
            }],
            "shards": [{
                "shard": 0, "leader": id, "preferred": null, "home": "eu", "keys": 5,
                "replicas": [{
                    "node": id, "role": "leader", "applied": 9, "behind": null,
                    "hash": { "applied": 9, "hash": "0000000000000abc" },
                }],
                "move": { "to": 2, "from": null, "phase": "learning" },
            }],
        })
    );
    let told = ask(&router, Method::GET, "/v1/audit", "").await.json();
    let entry = json!({ "at_unix_ms": 1500, "by": "ann", "what": "node 1 is draining" });
    assert_eq!(told, json!({ "entries": [entry] }));
}

#[tokio::test]
async fn an_operator_moves_leaders_and_drains_and_forgets_nodes() {
    for (request, told) in [
        (post("/v1/shards/3/leader", r#"{"to": "b"}"#), "shard 3 to b"),
        (post("/v1/shards/3/leader", r#"{"to": 17}"#), "shard 3 to 17"),
        (post("/v1/members/b", r#"{"standing": "draining"}"#), "b draining by operator"),
        (post("/v1/members/17", r#"{"standing": "dead"}"#), "17 dead by operator"),
        (Request::delete("/v1/members/b").body(Body::empty()).unwrap(), "b forgotten by operator"),
    ] {
        assert_eq!(operate(Ok(status()), request).await, (200, vec![told.to_owned()]));
    }
}

#[tokio::test]
async fn what_is_asked_wrongly_reaches_no_cluster() {
    for (request, status) in [
        (post("/v1/shards/three/leader", r#"{"to": "b"}"#), 400),
        (post("/v1/shards/3/leader", "{}"), 400),
        (post("/v1/members/b", r#"{"standing": "gone"}"#), 400),
        (Request::post("/v1/members/b").body(Body::from(r#"{"standing": "dead"}"#)).unwrap(), 415),
        (Request::get("/v1/members/b").body(Body::empty()).unwrap(), 405),
    ] {
        assert_eq!(operate(Ok(self::status()), request).await, (status, vec![]));
    }
}

#[tokio::test]
async fn each_way_not_to_be_carried_out_has_its_status() {
    for (error, status) in [
        (AdminError::Alone, 404),
        (AdminError::NotFound("no such node".into()), 404),
        (AdminError::Refused("it still holds replicas".into()), 409),
        (AdminError::Unavailable("no leader answered in time".into()), 503),
    ] {
        let request = || Request::delete("/v1/members/b").body(Body::empty()).unwrap();
        assert_eq!(operate(Err(error.clone()), request()).await.0, status);
    }
    let (_, router) = routes(Ok(RulesVersion(4)));
    for path in ["/v1/cluster", "/v1/audit"] {
        let reply = ask(&router, Method::GET, path, "").await;
        assert!(reply.status == 404 && reply.body.contains("runs alone"), "{}", reply.body);
    }
}

#[tokio::test]
async fn the_page_of_another_site_operates_nothing() {
    let (admin, _) = operated(Ok(RulesVersion(4)), Ok(status()));
    let router = leasehold_front::admin_router(Arc::clone(&admin));
    let request = Request::delete("/v1/members/b").header("host", "127.0.0.1:7602");
    let request = request.header("origin", "http://evil.example").body(Body::empty()).unwrap();
    assert_eq!(send(&router, request).await.status, 403);
    assert!(admin.operations.lock().unwrap().is_empty());
}
