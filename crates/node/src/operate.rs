//! What an operator can ask of the cluster through this node.

mod report;

use std::sync::Arc;
use std::time::Duration;

use leasehold_cluster::{Cluster, Phase, Unanswered};
use leasehold_control::{Command, Control, Refusal, Reply};
use leasehold_front::AdminError;
use leasehold_front::cluster::{AuditEntry, ClusterStatus, Standing};
use leasehold_model::{NodeId, ShardId};
use leasehold_placement as placement;
use tokio::time::Instant;

/// How long the control group may take to carry out a command. Beyond, the operator is told that the outcome isn't known.
const CARRIED_OUT_WITHIN: Duration = Duration::from_secs(5);

/// The control group's state as this node has it.
fn control(cluster: &Cluster) -> Result<Arc<Control>, AdminError> {
    match &*cluster.phase().borrow() {
        Phase::Member(control) => Ok(Arc::clone(control)),
        Phase::Waiting(why) => Err(AdminError::Unavailable(why.clone())),
    }
}

/// Members and shards, gathered from the nodes that answer.
pub(crate) async fn status(cluster: &Cluster, hashes: bool) -> Result<ClusterStatus, AdminError> {
    // Says what the node waits for, where it does.
    control(cluster)?;
    let report = cluster.report(hashes).await.map_err(unanswered)?;
    Ok(report::status(report, cluster.node()))
}

/// Who changed what and when, oldest first.
pub(crate) fn audit(cluster: &Cluster) -> Result<Vec<AuditEntry>, AdminError> {
    let control = control(cluster)?;
    let entries = control.audit().map(|entry| AuditEntry {
        at: entry.at,
        by: Arc::clone(&entry.by),
        what: Arc::clone(&entry.what),
    });
    Ok(entries.collect())
}

/// Has another replica lead a shard.
pub(crate) async fn move_leader(cluster: &Cluster, shard: ShardId, to: &str) -> Result<(), AdminError> {
    let to = {
        let control = control(cluster)?;
        let shards = control.map().shards.len();
        if usize::try_from(shard.0).map_or(true, |shard| shard >= shards) {
            let last = shards.saturating_sub(1);
            return Err(AdminError::NotFound(format!(
                "there is no shard {}; there are 0 to {last}",
                shard.0
            )));
        }
        node(&control, to)?
    };
    cluster.move_leader(shard, to).await.map_err(AdminError::Refused)
}

/// Drains a node, brings it back, or declares it dead.
pub(crate) async fn set_standing(
    cluster: &Cluster,
    member: &str,
    standing: Standing,
    by: &str,
) -> Result<(), AdminError> {
    let node = node(&*control(cluster)?, member)?;
    let standing = match standing {
        Standing::Active => placement::Standing::Active,
        Standing::Draining => placement::Standing::Draining,
        Standing::Dead => placement::Standing::Dead,
    };
    command(cluster, Command::SetStanding { node, standing, by: by.into() }).await
}

/// Forgets a node that holds nothing any more.
pub(crate) async fn forget(cluster: &Cluster, member: &str, by: &str) -> Result<(), AdminError> {
    let node = node(&*control(cluster)?, member)?;
    command(cluster, Command::Forget { node, by: by.into() }).await
}

async fn command(cluster: &Cluster, command: Command) -> Result<(), AdminError> {
    let answered = cluster.command(command, Instant::now() + CARRIED_OUT_WITHIN).await;
    match answered.map_err(unanswered)? {
        Reply::Done => Ok(()),
        reply @ (Reply::Rules(_) | Reply::Map(_) | Reply::Refused(_)) => Err(not_done(reply)),
    }
}

/// The node that an operator means: by its id, or by its name, which only those that aren't dead have to themselves.
fn node(control: &Control, named: &str) -> Result<NodeId, AdminError> {
    let by_id = named.parse().map(NodeId).ok().filter(|id| control.nodes().contains_key(id));
    let mut namesakes: Vec<_> = control.nodes().values().filter(|node| *node.name == *named).collect();
    namesakes.sort_by_key(|node| node.standing == placement::Standing::Dead);
    by_id.or_else(|| namesakes.first().map(|node| node.id)).ok_or_else(|| {
        let names: Vec<_> = control.nodes().values().map(|node| &*node.name).collect();
        AdminError::NotFound(format!("there is no node {named:?}; there are: {}", names.join(", ")))
    })
}

/// Why a command has no answer, for an operator.
pub(crate) fn unanswered(unanswered: Unanswered) -> AdminError {
    AdminError::Unavailable(match unanswered {
        Unanswered::Deadline => {
            "the control group has not answered in time: look whether it was carried out before trying again"
                .to_owned()
        }
        Unanswered::Unreached | Unanswered::Overloaded | Unanswered::Forming | Unanswered::Stopping => {
            format!("{unanswered}; nothing was changed")
        }
    })
}

/// Why a command was not carried out, for an operator.
pub(crate) fn not_done(reply: Reply) -> AdminError {
    match reply {
        Reply::Refused(refusal @ Refusal::NoSuchNode(_)) => AdminError::NotFound(refusal.to_string()),
        Reply::Refused(refusal) => AdminError::Refused(refusal.to_string()),
        Reply::Done | Reply::Rules(_) | Reply::Map(_) => {
            AdminError::Failed(format!("the control group answered {reply:?}: please report it"))
        }
    }
}

#[cfg(test)]
mod tests {
    use leasehold_control::{ClusterId, NodeRecord};
    use leasehold_model::Stamp;

    use super::*;

    fn record(id: u64, name: &str, standing: placement::Standing) -> NodeRecord {
        NodeRecord {
            id: NodeId(id),
            name: name.into(),
            peer_address: "127.0.0.1:1".into(),
            gossip_address: "127.0.0.1:2".into(),
            client_address: "127.0.0.1:3".into(),
            zone: "".into(),
            region: "".into(),
            weight: 100,
            standing,
        }
    }

    /// Which node is meant, or what is said instead.
    fn check(named: &str, expected: Result<u64, &str>) {
        use placement::Standing::{Active, Dead};
        let cluster =
            leasehold_control::Cluster { id: ClusterId(1), secret: [1; 16], shards: 1, replicas: 1 };
        let nodes = vec![record(1, "a", Dead), record(2, "a", Active), record(3, "b", Dead)];
        let mut control = Control::new();
        let map = placement::ShardMap::default();
        control.apply(Command::Create { cluster, nodes, map }, Stamp(1));
        match (node(&control, named), expected) {
            (Ok(NodeId(id)), Ok(expected)) => assert_eq!(id, expected),
            (Err(AdminError::NotFound(said)), Err(expected)) => assert!(said.contains(expected), "{said}"),
            (answer, _) => panic!("{named}: {answer:?}"),
        }
    }

    #[test]
    fn a_node_is_meant_by_its_id_or_by_its_name_and_the_living_before_the_dead() {
        check("a", Ok(2));
        check("1", Ok(1));
        check("b", Ok(3));
        check("4", Err("there are: a, a, b"));
        check("", Err("there is no node"));
    }
}
