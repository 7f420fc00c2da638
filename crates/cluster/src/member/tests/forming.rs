//! Clusters that come to be, and those that don't.

use std::time::Duration;

use tokio::time::sleep;

use super::support::{healthy, member, spots, stop_all, turn};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_founders_form_one_cluster_in_whatever_order_they_start() {
    for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
        let _turn = turn().await;
        let spots = spots(3, 0);
        let mut nodes = Vec::new();
        for place in order {
            nodes.push(spots[place].start().await);
            sleep(Duration::from_millis(50)).await;
        }
        let mut ids = Vec::new();
        for node in &nodes {
            let control = member(node, "a cluster with rules", |control| control.rules().len() == 1).await;
            ids.push(control.cluster().unwrap().id);
            assert_eq!(control.nodes().len(), 3);
        }
        assert!(ids.iter().all(|id| *id == ids[0]));
        healthy(&nodes).await;
        stop_all(&nodes).await;
    }
}
