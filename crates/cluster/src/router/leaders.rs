//! Who leads a shard, as far as this node knows: for those who choose a way by it, never for those who grant.

use leasehold_consensus::types::GroupId;
use leasehold_model::{NodeId, ShardId};

use super::Router;

impl Router {
    /// Whether this node answers for the shard itself now.
    pub(crate) fn leads(&self, shard: ShardId) -> bool {
        self.0.local.serves(GroupId::of_shard(shard))
    }

    /// The node that leads the shard most probably; `None` while none is known to.
    pub(crate) fn leader(&self, shard: ShardId) -> Option<NodeId> {
        let group = GroupId::of_shard(shard);
        if self.0.local.serves(group) { Some(self.0.local.node) } else { self.0.leaders.known(group) }
    }
}
