//! How a cluster comes to be, and how a node without one finds it.
//!
//! Each founder draws a node id when its directory is made and asks all seeds, itself among them. When all have answered and
//! agree, the node behind the smallest seed draws the cluster's id and secret and stores a *founding*: these and the records
//! of all founders. Whoever is asked by a founder named in a founding that it stored hands it out; so does the first one,
//! unasked, at once. Who has stored a founding belongs to that cluster: it starts its replica of the control group with the
//! founders as voters. Raft does the rest: the group has a leader as soon as a majority of the founders have stored.
//!
//! Invariant: no two foundings ever reach a majority of the founders, as long as a majority of them keep their disks. A node
//! stores one founding and never another, before it does anything that follows from it; so two of them with majorities
//! would need two nodes behind one seed, the later with an empty directory. The later one founds only after *every* seed
//! answered it that it knows of no founding, and those answers are younger than the loss of the earlier one's disk. A
//! founding of the earlier one that is stored by others only after that (it was still on its way) lacks the earlier one for
//! ever: with one disk lost, what is left of its founders is shared with the later founding, and each stores one of the two.
//!
//! Where a node ends between two steps: before it stored, it has promised nothing and asks again, and is handed the founding
//! if there is one; after it stored, it goes on as a member of it, and the others are handed it by whoever has it. A founder
//! that lost its disk isn't named by the founding any more: it joins as a new node.

pub(crate) mod agree;

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use leasehold_consensus::meta::MetaError;
use leasehold_consensus::transport::{Access, CallError, Incoming, Refusal, Transport};
use leasehold_control::{Cluster, ClusterId, NodeRecord};
use leasehold_model::NodeId;
use leasehold_wire::peer::{FormReply, FormRequest, FoundReply, Founding, JoinReply, JoinRequest};
use parking_lot::RwLock;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::calls::{FORM, FOUND, JOIN};
use crate::data::{DataDir, blocking};
use agree::{Heard, Step};

/// How long a seed may take to answer.
const ASK_MAX: Duration = Duration::from_secs(1);
/// How long the leader may take to let a node in: it asks a namesake's address first.
const JOIN_MAX: Duration = Duration::from_secs(8);
/// Pause before the seeds are asked again while something changes, and at most.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// What this node is to a cluster so far, and what it tells strangers of that.
#[derive(Debug)]
pub(crate) struct ClusterIdentity {
    data: Arc<DataDir>,
    /// What it asks seeds with.
    request: FormRequest,
    held: RwLock<Held>,
    /// Told when a founding was accepted.
    accepted: Notify,
}

#[derive(Debug, Default)]
struct Held {
    founding: Option<Founding>,
    cluster: Option<ClusterId>,
}

/// How a node came to its cluster.
#[derive(Debug)]
pub(crate) enum Way {
    /// It is one of the founders.
    Founder(Founding),
    /// It was let in.
    Joined {
        /// By this cluster.
        cluster: ClusterId,
        /// Whose nodes are there.
        peers: Vec<(NodeId, String)>,
    },
}

impl ClusterIdentity {
    /// The identity as it is stored.
    ///
    /// # Errors
    /// When they can't be read.
    pub(crate) fn read(data: Arc<DataDir>, request: FormRequest) -> Result<Self, MetaError> {
        let held = Held { founding: data.founding()?, cluster: data.cluster()? };
        Ok(Self { data, request, held: RwLock::new(held), accepted: Notify::new() })
    }

    /// The founding that this node has agreed to.
    pub(crate) fn founding(&self) -> Option<Founding> {
        self.held.read().founding.clone()
    }

    /// The founding of its own cluster. One that was agreed to while it was let in elsewhere counts no more.
    pub(crate) fn founded(&self) -> Option<Founding> {
        let held = self.held.read();
        held.founding.clone().filter(|founding| Some(founding.cluster.id) == held.cluster)
    }

    /// Its cluster, once it is a member.
    pub(crate) fn cluster(&self) -> Option<ClusterId> {
        self.held.read().cluster
    }

    /// What it asks seeds with, and registers with.
    pub(crate) const fn request(&self) -> &FormRequest {
        &self.request
    }

    /// Becomes a member, durably.
    ///
    /// # Errors
    /// When it is another cluster's, or the disk fails.
    pub(crate) async fn belong(&self, cluster: ClusterId) -> Result<(), MetaError> {
        let name = self.request.cluster.clone();
        blocking(&self.data, move |data| data.set_cluster(cluster, &name)).await?;
        self.held.write().cluster = Some(cluster);
        Ok(())
    }

    async fn agree(&self, founding: Founding) -> Result<Founding, MetaError> {
        let holds = blocking(&self.data, move |data| data.agree(founding)).await?;
        self.held.write().founding = Some(holds.clone());
        self.accepted.notify_waiters();
        Ok(holds)
    }

    /// What a node without a cluster is told.
    fn answer(&self, asker: &FormRequest) -> FormReply {
        let held = self.held.read();
        agree::answer(&self.request, held.founding.as_ref(), held.cluster, asker)
    }

    async fn offered(&self, founding: Founding) -> Result<FoundReply, MetaError> {
        let offered = founding.cluster.id;
        if let Some(cluster) = self.cluster().filter(|cluster| *cluster != offered) {
            return Ok(FoundReply::Other(cluster));
        }
        if !agree::names(&founding, &self.request) {
            return Ok(FoundReply::NotMe);
        }
        let holds = self.agree(founding).await?.cluster.id;
        Ok(if holds == offered { FoundReply::Stored } else { FoundReply::Other(holds) })
    }
}

/// Has nodes without a cluster answered, as long as the identity lives.
pub(crate) fn serve(
    transport: &Transport,
    identity: &Arc<ClusterIdentity>,
    fatal: Arc<dyn Fn(&MetaError) + Send + Sync>,
) {
    let weak: Weak<ClusterIdentity> = Arc::downgrade(identity);
    transport.register(FORM, Access::Anyone, move |call: Incoming| {
        let identity = weak.upgrade();
        async move {
            let asker = FormRequest::decode(call.payload).map_err(|_| Refusal::Malformed)?;
            Ok(identity.ok_or(Refusal::NotServed)?.answer(&asker).encode())
        }
    });
    let weak: Weak<ClusterIdentity> = Arc::downgrade(identity);
    transport.register(FOUND, Access::Anyone, move |call: Incoming| {
        let (identity, fatal) = (weak.upgrade(), Arc::clone(&fatal));
        async move {
            let founding = Founding::decode(call.payload).map_err(|_| Refusal::Malformed)?;
            match identity.ok_or(Refusal::NotServed)?.offered(founding).await {
                Ok(reply) => Ok(reply.encode()),
                Err(error) => {
                    fatal(&error);
                    Err(Refusal::Failed)
                }
            }
        }
    });
}

/// Asks the seeds until this node belongs to a cluster; `waiting` is told for whom it waits whenever that changes.
///
/// # Errors
/// When the metadata can't be written: the node can't go on.
pub(crate) async fn form(
    identity: &Arc<ClusterIdentity>,
    transport: &Transport,
    waiting: impl Fn(&str),
) -> Result<Way, MetaError> {
    let mut pause = PAUSE_MIN;
    let mut said = String::new();
    loop {
        let accepted = identity.accepted.notified();
        if let Some(founding) = identity.founding() {
            return Ok(Way::Founder(founding));
        }
        let heard = ask_all(identity, transport).await;
        let text = match agree::next(&identity.request, &heard) {
            Step::Agree(founding) => return Ok(Way::Founder(identity.agree(founding).await?)),
            Step::Found(founders) => return found(identity, transport, founders).await.map(Way::Founder),
            Step::Join { seed, cluster } => match join(identity, transport, &seed, cluster).await {
                Ok(peers) => return Ok(Way::Joined { cluster, peers }),
                Err(text) => text,
            },
            Step::Wait(text) => text,
        };
        if text == said {
            pause = pause.saturating_mul(2).min(PAUSE_MAX);
        } else {
            waiting(&text);
            (said, pause) = (text, PAUSE_MIN);
        }
        // Whether it was told or the time is up: it looks again.
        let _ = timeout(pause, accepted).await;
    }
}

async fn ask_all(identity: &Arc<ClusterIdentity>, transport: &Transport) -> BTreeMap<String, Heard> {
    let question = identity.request.clone().encode();
    let mut asked = JoinSet::new();
    for seed in identity.request.seeds.iter().cloned() {
        let (transport, question) = (transport.clone(), question.clone());
        asked.spawn(async move {
            let heard = ask(&transport, &seed, question).await;
            (seed, heard)
        });
    }
    asked.join_all().await.into_iter().collect()
}

async fn ask(transport: &Transport, seed: &str, question: Bytes) -> Heard {
    match transport.call_address(seed, FORM, question, ASK_MAX).await {
        Ok((_, answer)) => FormReply::decode(answer)
            .map_or_else(|_| Heard::Nothing("said nothing that makes sense".to_owned()), Heard::Said),
        Err(error) => Heard::Nothing(in_words(error).to_owned()),
    }
}

fn in_words(error: CallError) -> &'static str {
    match error {
        CallError::UnknownPeer | CallError::Unreachable | CallError::Lost => "unreachable",
        CallError::Deadline => "doesn't answer",
        CallError::Overloaded | CallError::Refused(Refusal::Busy) => "is overloaded",
        CallError::Refused(Refusal::NotServed) => "is starting or stopping",
        CallError::TooLarge
        | CallError::Refused(Refusal::NotAllowed | Refusal::Malformed | Refusal::Failed) => {
            "didn't understand the question"
        }
    }
}

/// Founds the cluster: the founding is stored before anybody hears of it.
async fn found(
    identity: &Arc<ClusterIdentity>,
    transport: &Transport,
    founders: Vec<NodeRecord>,
) -> Result<Founding, MetaError> {
    let request = &identity.request;
    let failed = |error| MetaError::Io(std::io::Error::other(error));
    let (mut id, mut secret) = ([0; 16], [0; 16]);
    getrandom::fill(&mut id).map_err(failed)?;
    getrandom::fill(&mut secret).map_err(failed)?;
    let cluster = Cluster {
        id: ClusterId(u128::from_be_bytes(id).max(1)),
        secret,
        shards: request.shards,
        replicas: request.replicas,
    };
    let founding = identity.agree(Founding { cluster, name: request.cluster.clone(), founders }).await?;
    tracing::info!(cluster = %founding.cluster.id, founders = founding.founders.len(), "cluster founded");
    for founder in founding.founders.iter().filter(|founder| founder.id != request.record.id) {
        let (transport, address) = (transport.clone(), Arc::clone(&founder.peer_address));
        let offer = founding.clone().encode();
        // Who misses it asks.
        tokio::spawn(async move { transport.call_address(&address, FOUND, offer, ASK_MAX).await });
    }
    Ok(founding)
}

/// Asks to be let in; the peers to talk to, or for what it waits.
async fn join(
    identity: &ClusterIdentity,
    transport: &Transport,
    seed: &str,
    cluster: ClusterId,
) -> Result<Vec<(NodeId, String)>, String> {
    let request =
        JoinRequest { name: identity.request.cluster.clone(), record: identity.request.record.clone() };
    let answer = transport.call_address(seed, JOIN, request.encode(), JOIN_MAX).await;
    let waits = |why: &str| format!("waiting to join through {seed}: {why}");
    let (_, answer) = answer.map_err(|error| waits(in_words(error)))?;
    match JoinReply::decode(answer).map_err(|_| waits("said nothing that makes sense"))? {
        JoinReply::Welcome { cluster: welcome, peers } if welcome == cluster => Ok(peers),
        JoinReply::Welcome { .. } => Err(waits("it belongs to another cluster meanwhile")),
        JoinReply::Later(why) => Err(waits(&why)),
        JoinReply::Refused(why) => Err(format!("waiting to join, refused by {seed}: {why}")),
    }
}

#[cfg(test)]
mod tests;
