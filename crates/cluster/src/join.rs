//! How a node is let in: by the leader of the control group, whichever node it asks.
//!
//! Invariant: a node is registered under the id of its own data directory, and two living nodes never have one name. A node
//! that lost its data comes back under a new id; the old one is declared dead first, and only when something else than it
//! answers at its address, or nothing that could still be it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use leasehold_consensus::runner::Runner;
use leasehold_consensus::transport::{Access, Incoming, Refusal as Refused, Transport};
use leasehold_consensus::types::GroupId;
use leasehold_control::{ClusterId, Command, Control, NodeRecord, Reply};
use leasehold_model::NodeId;
use leasehold_placement::Standing;
use leasehold_wire::peer::{FormRequest, JoinReply, JoinRequest};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::calls::{FORM, JOIN};
use crate::router::Router;

/// How long whoever answers at a namesake's address may take.
const ASK_MAX: Duration = Duration::from_secs(1);
/// How long the control group may take for one command of a join.
const COMMAND_MAX: Duration = Duration::from_secs(3);
/// What is taken off the caller's patience, so that its answer still reaches it.
const MARGIN: Duration = Duration::from_millis(100);
/// The longest name a node may have, in bytes: gossip tells no longer ones.
const NAME_BYTES_MAX: usize = 64;

/// Lets nodes in.
#[derive(Debug)]
pub(crate) struct JoinHandler {
    /// The cluster's name.
    pub(crate) name: String,
    /// What this node asks others with.
    pub(crate) request: FormRequest,
    pub(crate) runner: Runner,
    pub(crate) transport: Transport,
    pub(crate) router: Router,
    pub(crate) control: watch::Receiver<Arc<Control>>,
}

/// What to do with a node that wants in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Register it.
    Register,
    /// Its name is another's: see who answers there first.
    Namesake(NodeRecord),
    /// Never so: the reason.
    Refuse(String),
}

/// What to do with the node that asks for `name` with `record`, in the cluster of `own`.
pub(crate) fn consider(own: &str, control: &Control, name: &str, record: &NodeRecord) -> Admission {
    if name != own {
        return Admission::Refuse(format!("this cluster is named {own:?}, not {name:?}"));
    }
    if record.name.is_empty()
        || record.name.len() > NAME_BYTES_MAX
        || record.name.chars().any(char::is_control)
    {
        return Admission::Refuse(format!(
            "node.name: use 1 to {NAME_BYTES_MAX} bytes without control characters"
        ));
    }
    let namesake = control
        .nodes()
        .values()
        .find(|known| known.name == record.name && known.id != record.id && known.standing != Standing::Dead);
    namesake.map_or(Admission::Register, |known| Admission::Namesake(known.clone()))
}

/// Has nodes let in, as long as the handler lives.
pub(crate) fn serve(joins: &Arc<JoinHandler>) {
    let weak: Weak<JoinHandler> = Arc::downgrade(joins);
    joins.transport.register(JOIN, Access::Anyone, move |call: Incoming| {
        let joins = weak.upgrade();
        async move {
            let joins = joins.ok_or(Refused::NotServed)?;
            let request = JoinRequest::decode(call.payload.clone()).map_err(|_| Refused::Malformed)?;
            if joins.runner.is_leader(GroupId::CONTROL) {
                return Ok(joins.admit(request).await.encode());
            }
            joins.forward(call).await
        }
    });
}

impl JoinHandler {
    /// Another leads: it is asked, once.
    async fn forward(&self, call: Incoming) -> Result<bytes::Bytes, Refused> {
        let later = |why: &str| Ok(JoinReply::Later(why.to_owned()).encode());
        let leader = self.runner.leader(GroupId::CONTROL).filter(|leader| Some(*leader) != self.own());
        let Some(leader) = leader.filter(|_| call.from.is_none()) else {
            return later("the control group has no leader now");
        };
        let within = call.deadline.saturating_duration_since(Instant::now()).saturating_sub(MARGIN);
        match self.transport.call(leader, JOIN, GroupId::CONTROL, call.payload, within).await {
            Ok(answer) => Ok(answer),
            Err(error) => {
                later(&format!("the control group's leader (node {leader}) gave no answer: {error}"))
            }
        }
    }

    async fn admit(&self, request: JoinRequest) -> JoinReply {
        let control = Arc::clone(&self.control.borrow());
        let Some(cluster) = control.cluster().map(|cluster| cluster.id) else {
            return JoinReply::Later("the cluster is just being made".to_owned());
        };
        let JoinRequest { name, record } = request;
        match consider(&self.name, &control, &name, &record) {
            Admission::Refuse(why) => JoinReply::Refused(why),
            Admission::Register => self.register(cluster, record).await,
            Admission::Namesake(known) => {
                if let Some(reply) = self.is_there(&known).await {
                    return reply;
                }
                let (node, by) = (known.id, format!("its successor {}", record.id).into());
                tracing::info!(node = node.0, successor = record.id.0, name = %record.name, "node replaced");
                match self.command(Command::SetStanding { node, standing: Standing::Dead, by }).await {
                    Ok(()) => self.register(cluster, record).await,
                    Err(reply) => reply,
                }
            }
        }
    }

    /// The answer to a node whose name another has, unless that other is gone.
    async fn is_there(&self, known: &NodeRecord) -> Option<JoinReply> {
        let taken = || {
            Some(JoinReply::Refused(format!(
                "another node, at {}, is named {:?} (id {}); names are unique",
                known.peer_address, known.name, known.id
            )))
        };
        if self.own() == Some(known.id) || self.transport.peers().contains(&(known.id, true)) {
            return taken();
        }
        let question = self.request.clone().encode();
        match self.transport.call_address(&known.peer_address, FORM, question, ASK_MAX).await {
            Ok((Some(answers), _)) if answers.node == known.id => taken(),
            Ok(_) => None,
            Err(_) => Some(JoinReply::Later(format!(
                "a node named {:?} (id {}) is known at {} and nothing answers there; it is replaced when it \
                 has been away for long enough, or at once when the new node takes over its address",
                known.name, known.id, known.peer_address
            ))),
        }
    }

    async fn register(&self, cluster: ClusterId, record: NodeRecord) -> JoinReply {
        let node = record.id;
        if let Err(reply) = self.command(Command::Register(record)).await {
            return reply;
        }
        let control = Arc::clone(&self.control.borrow());
        let others =
            control.nodes().values().filter(|known| known.id != node && known.standing != Standing::Dead);
        let peers = others.map(|known| (known.id, known.peer_address.to_string())).collect();
        JoinReply::Welcome { cluster, peers }
    }

    async fn command(&self, command: Command) -> Result<(), JoinReply> {
        match self.router.command(command, Instant::now() + COMMAND_MAX).await {
            Ok(Reply::Refused(why)) => Err(JoinReply::Refused(why.to_string())),
            Ok(Reply::Done | Reply::Rules(_) | Reply::Map(_)) => Ok(()),
            Err(error) => Err(JoinReply::Later(error.to_string())),
        }
    }

    fn own(&self) -> Option<NodeId> {
        self.transport.identity().map(|identity| identity.node)
    }
}

#[cfg(test)]
mod tests;
