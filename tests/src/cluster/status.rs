//! What a cluster says about itself at `GET /v1/cluster`, with nodes named by their places in the test.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde::Deserialize;

use super::{BETWEEN_LOOKS, TestCluster};
use crate::clock::Deadline;

/// No node gathers its cluster's state for longer.
const STATUS_WITHIN: Duration = Duration::from_secs(3);

/// An answer of `GET /v1/cluster`. Nodes stand there by their ids; see [`Status::place`].
#[derive(Clone, Debug, Deserialize)]
pub struct Status {
    /// The map's version.
    pub epoch: u64,
    /// The rules'.
    pub rules_version: u64,
    /// Who leads the control group.
    pub control_leader: Option<u64>,
    /// All nodes, dead ones included.
    pub members: Vec<Member>,
    /// All shards.
    pub shards: Vec<ShardStatus>,
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
    /// By which rules it decides.
    pub rules_version: Option<u64>,
}

/// One shard.
#[derive(Clone, Debug, Deserialize)]
pub struct ShardStatus {
    /// Which.
    pub shard: u32,
    /// Who leads it.
    pub leader: Option<u64>,
    /// Its replicas.
    pub replicas: Vec<Replica>,
    /// The move under way, if any.
    #[serde(rename = "move")]
    pub moving: Option<serde_json::Value>,
}

/// One replica.
#[derive(Clone, Debug, Deserialize)]
pub struct Replica {
    /// Where.
    pub node: u64,
    /// Whether it votes.
    pub voter: bool,
    /// The last entry in its state.
    pub applied: Option<u64>,
    /// Counters held.
    pub keys: Option<u64>,
    /// The hash of its state.
    pub state_hash: Option<String>,
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
        let replicas = self.shards.iter().find(|status| status.shard == shard);
        replicas.into_iter().flat_map(|status| &status.replicas).filter_map(|r| self.place(r.node)).collect()
    }

    /// Shards whose replicas have not all applied the same, or have and differ.
    #[must_use]
    pub fn unequal(&self) -> Vec<u32> {
        let differs = |status: &&ShardStatus| {
            let states = status.replicas.iter().map(|replica| (replica.applied, &replica.state_hash));
            let mut states = states.collect::<Vec<_>>();
            states.dedup();
            states.len() > 1 || states.iter().any(|(_, hash)| hash.is_none())
        };
        self.shards.iter().filter(differs).map(|status| status.shard).collect()
    }
}

impl TestCluster {
    /// What a node says about its cluster; `None` while it can't.
    pub async fn status_by(&self, place: usize) -> Option<Status> {
        let http = self.admin_http(place);
        let ask = http.try_send(Method::GET, "/v1/cluster", &[], Bytes::new());
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
        let leader = status.shards.iter().find(|status| status.shard == shard)?.leader?;
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

    /// Waits until every shard has a leader that runs.
    pub async fn wait_until_led(&self, within: Duration) {
        let running = self.running();
        let led = |status: &Status| {
            let leader = |shard: &ShardStatus| shard.leader.and_then(|leader| status.place(leader));
            let runs = |place: usize| running.contains(&place);
            status.shards.iter().all(|shard| leader(shard).is_some_and(runs)).then_some(())
        };
        self.wait_for("every shard has a leader", within, led).await;
    }
}
