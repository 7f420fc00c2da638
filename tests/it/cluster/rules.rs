//! Rules in a cluster: put in force through any node, on every node, in order and as a whole.

use bytes::Bytes;
use http::Method;
use leasehold_tests::cluster::{Status, TestCluster};

use super::{SETTLES_WITHIN, take, three};

async fn put(cluster: &TestCluster, node: usize, limit: u32, expected: Option<u64>) -> (u16, String) {
    let text = format!(
        "domain: shop\nlimits:\n  - {{ name: ten, per: [ten], limit: {limit}/8760h, algorithm: fixed_window, lease: never }}\n"
    );
    let expected = expected.map(|version| format!("\"{version}\""));
    let headers: Vec<_> = expected.iter().map(|expected| ("if-match", expected.as_str())).collect();
    let reply =
        cluster.admin_http(node).send(Method::PUT, "/v1/rules/shop", &headers, Bytes::from(text)).await;
    (reply.status.as_u16(), reply.text())
}

async fn wait_for_version(cluster: &TestCluster, version: u64) {
    let everywhere = |status: &Status| {
        let follows = |member: &leasehold_tests::cluster::Member| member.rules_version == Some(version);
        (status.rules_version == version && status.members.iter().all(follows)).then_some(())
    };
    cluster.wait_for("every node follows the rules", SETTLES_WITHIN, everywhere).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_put_through_any_node_hold_on_every_node_and_keep_what_was_used() {
    let mut cluster = three().await;
    for turn in 0..8 {
        assert!(take(&cluster, turn % 3, "ten", "a").await);
    }
    let version = cluster.status().await.expect("a cluster says how it is").rules_version;
    for (step, limit) in (1..).zip([12, 9, 15]) {
        let (status, text) = put(&cluster, usize::try_from(step % 3).expect("small"), limit, None).await;
        assert_eq!(status, 200, "{text}");
        wait_for_version(&cluster, version + step).await;
    }
    // Of 15, eight are used.
    let mut admitted = 0;
    for turn in 0..12 {
        admitted += u32::from(take(&cluster, turn % 3, "ten", "a").await);
    }
    assert_eq!(admitted, 7);
    let (status, text) = put(&cluster, 0, 20, Some(version)).await;
    assert_eq!(status, 412, "an old version was expected: {text}");
    let (status, text) = put(&cluster, 1, 20, Some(version + 3)).await;
    assert_eq!(status, 200, "{text}");
    // They outlive every node.
    for node in 0..3 {
        cluster.kill(node);
    }
    for node in 0..3 {
        cluster.restart(node);
    }
    cluster.wait_until_all_ready().await;
    wait_for_version(&cluster, version + 4).await;
    assert!(take(&cluster, 2, "ten", "a").await);
}
