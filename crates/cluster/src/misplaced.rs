//! Whether a data directory lies under a node of another cluster than its own, as one does that was put back from elsewhere.
//!
//! Invariant: whoever can be asked has a say, and silence accuses nobody. A directory is misplaced when most of the other
//! seeds answer for another cluster and nobody answers for its own; a member whose seeds are away is where it belongs.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use leasehold_consensus::transport::{Identity, Transport};
use leasehold_wire::peer::FormRequest;
use tokio::task::JoinSet;

use crate::calls::FORM;

/// How long each may take to answer. It delays the start of a node whose seeds swallow what is sent to them.
const ASK_MAX: Duration = Duration::from_secs(1);

/// Whom to ask.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    /// The node, and the cluster that its directory belongs to.
    pub(crate) me: Identity,
    /// What nodes are asked with.
    pub(crate) request: FormRequest,
    /// Where members of the directory's own cluster were last known to be.
    pub(crate) known: BTreeSet<String>,
}

/// What became of asking at one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The address.
    pub(crate) address: String,
    /// Whether that is a seed.
    pub(crate) seed: bool,
    /// The member that answered; none for silence and for nodes that belong to no cluster.
    pub(crate) by: Option<Identity>,
}

impl Question {
    /// Asks all at once. The seeds where another cluster answers, if that makes the directory misplaced.
    pub(crate) async fn ask(&self, transport: &Transport) -> Option<Vec<String>> {
        let mut asked = JoinSet::new();
        let payload = self.request.clone().encode();
        let seeds = &self.request.seeds;
        for address in seeds.union(&self.known).cloned() {
            let (transport, payload, seed) = (transport.clone(), payload.clone(), seeds.contains(&address));
            asked.spawn(async move {
                let answer = transport.call_address(&address, FORM, payload, ASK_MAX).await;
                Answer { seed, by: answer.ok().and_then(|(by, _)| by), address }
            });
        }
        judge(self.me, asked.join_all().await)
    }
}

/// The seeds where another cluster answers, if that makes the directory of `me` misplaced.
pub(crate) fn judge(me: Identity, answers: Vec<Answer>) -> Option<Vec<String>> {
    // What the node says of itself doesn't count.
    let others: Vec<_> = answers.into_iter().filter(|answer| answer.by != Some(me)).collect();
    if others.iter().filter_map(|answer| answer.by).any(|by| by.cluster == me.cluster) {
        return None;
    }
    let (strange, silent): (Vec<_>, Vec<_>) =
        others.into_iter().filter(|answer| answer.seed).partition(|answer| answer.by.is_some());
    let mut strangers: Vec<_> = strange.into_iter().map(|answer| answer.address).collect();
    strangers.sort();
    (strangers.len() > silent.len()).then_some(strangers)
}

/// What an operator is told.
pub(crate) fn in_words(data: &Path, name: &str, strangers: &[String]) -> String {
    format!(
        "the data directory {} belongs to another cluster than the nodes at {}, although both are named {name:?}: give this \
         node the directory that it had in their cluster, or an empty one, with which it joins as a new node; if the \
         directory is right, correct `cluster.seeds`",
        data.display(),
        strangers.join(", ")
    )
}

#[cfg(test)]
mod tests;
