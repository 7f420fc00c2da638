//! Rendezvous scores: for each shard its own order of nodes, so that a change of nodes moves only what it must.

use std::hash::{Hash, Hasher};

use leasehold_model::{NodeId, ShardId};
use siphasher::sip::SipHasher13;

/// How much `shard` would like to live on `node`; higher is better. Uniform over pairs.
///
/// Weights act through quotas, not through scores: a score only breaks ties among places that are equally fair.
pub(crate) fn score(shard: ShardId, node: NodeId) -> u64 {
    let mut hasher = SipHasher13::new();
    (shard.0, node.0).hash(&mut hasher);
    hasher.finish()
}
