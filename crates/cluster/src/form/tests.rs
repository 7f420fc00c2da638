//! What a node has agreed to, and what of that it goes by.

use leasehold_model::WallTime;

use super::agree::tests::request;
use super::*;

fn founding(id: u128) -> Founding {
    let cluster = leasehold_control::Cluster { id: ClusterId(id), secret: [3; 16], shards: 4, replicas: 3 };
    Founding { cluster, name: "main".to_owned(), founders: Vec::new() }
}

#[tokio::test]
async fn a_founding_counts_only_in_the_cluster_that_it_made() {
    for (belongs, counts) in [(1, true), (2, false)] {
        let dir = tempfile::tempdir().unwrap();
        let data = Arc::new(DataDir::open(dir.path(), "main", WallTime(1)).unwrap());
        let identity = ClusterIdentity::read(data, request(0, 1, 3)).unwrap();
        identity.agree(founding(1)).await.unwrap();
        assert_eq!(identity.founded(), None, "it belongs to nobody yet");
        identity.belong(ClusterId(belongs)).await.unwrap();
        assert_eq!(identity.founded(), counts.then(|| founding(1)));
        assert_eq!(identity.founding(), Some(founding(1)));
    }
}
