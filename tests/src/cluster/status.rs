//! What a cluster says about itself at `GET /v1/cluster`, with nodes named by their places in the test.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde::Deserialize;
use serde_json::Value;

use super::{BETWEEN_LOOKS, TestCluster};
use crate::clock::Deadline;

/// No node gathers its cluster's state for longer.
const STATUS_WITHIN: Duration = Duration::from_secs(10);

/// An answer of `GET /v1/cluster`. Nodes stand there by their ids; see [`Status::place`].
#[derive(Clone, Debug, Deserialize)]
pub struct Status {
    /// The map's version.
    pub epoch: u64,
    /// The rules'.
    pub rules_version: u64,
    /// All nodes, dead ones included.
    pub members: Vec<Member>,
    /// All shards.
    pub shards: Vec<ShardStatus>,
    /// The control group.
    pub control: GroupStatus,
}

/// One node.
#[derive(Clone, Debug, Deserialize)]
pub struct Member {
    /// Its id.
    pub id: u64,
    /// Its name: `n` and its place.
    pub name: String,
    /// `active`, `draining` or `dead`.
    pub standing: String,
    /// Whether it answered whoever gathered this.
    pub answers: bool,
    /// Whether gossip hears it.
    pub live: bool,
    /// Whether it votes in the control group.
    pub votes: bool,
    /// Replicas that the map gives it.
    pub replicas: u64,
    /// Shards that it leads.
    pub leads: u64,
    /// By which rules it decides.
    pub rules_version: Option<u64>,
}

/// One shard.
#[derive(Clone, Debug, Deserialize)]
pub struct ShardStatus {
    /// Which.
    pub shard: u32,
    /// Its group.
    #[serde(flatten)]
    pub group: GroupStatus,
}

/// One group.
#[derive(Clone, Debug, Deserialize)]
pub struct GroupStatus {
    /// Who leads it.
    pub leader: Option<u64>,
    /// Counters that its leader holds.
    pub keys: Option<u64>,
    /// Its replicas.
    pub replicas: Vec<Replica>,
    /// The move under way, if any.
    #[serde(rename = "move")]
    pub moving: Option<Value>,
}

/// One replica. What isn't known is absent.
#[derive(Clone, Debug, Deserialize)]
pub struct Replica {
    /// Where.
    pub node: u64,
    /// `learner`, `follower`, `candidate` or `leader`.
    pub role: Option<String>,
    /// The last entry in its state.
    pub applied: Option<u64>,
    /// Of its state, when it was asked for.
    pub hash: Option<StateHash>,
}

/// The hash of a replica's state.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct StateHash {
    /// The last entry in it.
    pub applied: Option<u64>,
    /// 16 hexadecimal digits.
    pub hash: String,
}

impl Status {
    /// The place of a node, if it is one of the test's.
    #[must_use]
    pub fn place(&self, id: u64) -> Option<usize> {
        let member = self.members.iter().find(|member| member.id == id)?;
        member.name.strip_prefix('n')?.parse().ok()
    }

    /// Places of the nodes that hold a shard.
    #[must_use]
    pub fn replicas_of(&self, shard: u32) -> Vec<usize> {
        let shard = self.shards.iter().find(|status| status.shard == shard);
        let replicas = shard.into_iter().flat_map(|status| &status.group.replicas);
        replicas.filter_map(|replica| self.place(replica.node)).collect()
    }

    /// Shards whose replicas didn't all say the same hash of the same place in the log. Asked under load a replica may just
    /// be behind; of idle shards only the equal ones are right.
    #[must_use]
    pub fn unequal(&self) -> Vec<u32> {
        let equal = |status: &ShardStatus| {
            let mut hashes = status.group.replicas.iter().map(|replica| &replica.hash);
            let first = hashes.next().and_then(Option::as_ref);
            first.is_some() && hashes.all(|hash| hash.as_ref() == first)
        };
        self.shards.iter().filter(|status| !equal(status)).map(|status| status.shard).collect()
    }
}

impl TestCluster {
    /// What a node says about its cluster; `None` while it can't.
    pub async fn status_by(&self, place: usize) -> Option<Status> {
        self.ask_status(place, "/v1/cluster").await
    }

    /// The same with the hashes of all states.
    pub async fn hashes_by(&self, place: usize) -> Option<Status> {
        self.ask_status(place, "/v1/cluster?hashes=true").await
    }

    async fn ask_status(&self, place: usize, path: &str) -> Option<Status> {
        let http = self.admin_http(place);
        let ask = http.try_send(Method::GET, path, &[], Bytes::new());
        let reply = tokio::time::timeout(STATUS_WITHIN, ask).await.ok()?.ok()?;
        (reply.status == 200).then(|| {
            serde_json::from_slice(&reply.body).unwrap_or_else(|error| panic!("{error}: {}", reply.text()))
        })
    }

    /// What the first running node that can say says about the cluster.
    pub async fn status(&self) -> Option<Status> {
        for place in self.running() {
            if let Some(status) = self.status_by(place).await {
                return Some(status);
            }
        }
        None
    }

    /// The place of the node that leads a shard, as somebody in the cluster knows.
    pub async fn leader_of(&self, shard: u32) -> Option<usize> {
        let status = self.status().await?;
        let leader = status.shards.iter().find(|status| status.shard == shard)?.group.leader?;
        status.place(leader)
    }

    /// Waits until the cluster says what is asked for, and returns that.
    ///
    /// # Panics
    /// When it doesn't in time: with `what` was waited for.
    pub async fn wait_for<T>(
        &self,
        what: &str,
        within: Duration,
        wanted: impl Fn(&Status) -> Option<T>,
    ) -> T {
        let deadline = Deadline::after(within);
        loop {
            let status = self.status().await;
            if let Some(found) = status.as_ref().and_then(&wanted) {
                return found;
            }
            assert!(!deadline.passed(), "{what}: not within {within:?}; {status:#?}");
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    }

    /// Waits until all replicas of every shard have the same state. Only while no load runs.
    pub async fn wait_until_equal(&self, within: Duration) {
        let deadline = Deadline::after(within);
        loop {
            let asked = self.running().first().copied().expect("a node runs");
            let unequal = self.hashes_by(asked).await.map(|status| status.unequal());
            if unequal.as_ref().is_some_and(Vec::is_empty) {
                return;
            }
            assert!(!deadline.passed(), "replicas of shards {unequal:?} differ after {within:?}");
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    }

    /// Waits until every shard has a leader that runs.
    pub async fn wait_until_led(&self, within: Duration) {
        let running = self.running();
        let led = |status: &Status| {
            let leader = |shard: &ShardStatus| shard.group.leader.and_then(|leader| status.place(leader));
            let runs = |place: usize| running.contains(&place);
            status.shards.iter().all(|shard| leader(shard).is_some_and(runs)).then_some(())
        };
        self.wait_for("every shard has a leader", within, led).await;
    }
}
