//! What people call nodes: their names, with the id beside it where a name says too little.

use std::collections::BTreeMap;

use leasehold_wire::proto::leasehold::v1 as pb;

/// Names by id.
pub(super) struct Names(BTreeMap<u64, String>);

impl Names {
    /// Of the nodes of a cluster. Names of the dead may be used again, so that they show their ids.
    pub(super) fn of(cluster: &pb::ClusterResponse) -> Self {
        let name = |member: &pb::Member| match member.standing() {
            pb::Standing::Dead => format!("{} ({})", member.name, member.id),
            pb::Standing::Unspecified | pb::Standing::Active | pb::Standing::Draining => member.name.clone(),
        };
        Self(cluster.members.iter().map(|member| (member.id, name(member))).collect())
    }

    /// The name of a node; its id where it is not known. 0 is no node.
    pub(super) fn get(&self, id: u64) -> Option<String> {
        (id != 0).then(|| self.0.get(&id).cloned().unwrap_or_else(|| id.to_string()))
    }

    /// The name, or a dash.
    pub(super) fn or_dash(&self, id: u64) -> String {
        self.get(id).unwrap_or_else(|| "-".to_owned())
    }
}
