//! What one node asks all others for its operators, in words that this crate doesn't know: whoever runs the node answers.
//!
//! Invariant: it is a look from outside. Nothing waits for it, and who doesn't answer in time is told as silent.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use leasehold_consensus::transport::{Access, Incoming, Kind, Refusal, Transport};
use leasehold_consensus::types::GroupId;
use leasehold_model::NodeId;
use leasehold_placement::Standing;
use tokio::task::JoinSet;

use crate::calls;
use crate::coordinator::Parts;

/// Who doesn't answer within this is told as silent.
const WITHIN: Duration = Duration::from_secs(1);

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Who edges are.
    EdgeNames,
    /// Which keys a node is asked for most often.
    TopKeys,
}

/// What one other node says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The node.
    pub node: NodeId,
    /// Its name.
    pub name: Arc<str>,
    /// `None`: it said nothing in time, or nothing that this build understands.
    pub answer: Option<Bytes>,
}

impl Question {
    const fn kind(self) -> Kind {
        match self {
            Self::EdgeNames => calls::EDGE_NAMES,
            Self::TopKeys => calls::TOP_KEYS,
        }
    }
}

/// Has a question of other nodes answered. `None`: it isn't understood.
pub(crate) fn answer(
    transport: &Transport,
    question: Question,
    answer: impl Fn(Bytes) -> Option<Bytes> + Send + Sync + 'static,
) {
    let answer = move |call: Incoming| {
        let answered = answer(call.payload).ok_or(Refusal::Malformed);
        std::future::ready(answered)
    };
    transport.register(question.kind(), Access::Members, answer);
}

/// Asks all others that aren't given up.
pub(crate) async fn ask_all(parts: &Arc<Parts>, question: Question, payload: Bytes) -> Vec<Told> {
    let control = parts.control();
    let others = control.nodes().values().filter(|node| node.id != parts.node);
    let mut asked = JoinSet::new();
    for record in others.filter(|node| node.standing != Standing::Dead) {
        let (parts, payload) = (Arc::clone(parts), payload.clone());
        let (node, name) = (record.id, Arc::clone(&record.name));
        asked.spawn(async move {
            let call = parts.transport.call(node, question.kind(), GroupId::CONTROL, payload, WITHIN);
            Told { node, name, answer: call.await.ok() }
        });
    }
    let mut told = asked.join_all().await;
    told.sort_by(|a, b| a.name.cmp(&b.name));
    told
}
