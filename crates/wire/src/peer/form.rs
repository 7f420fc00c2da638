//! Forming a cluster and joining one. Strangers send these: every list and text is bounded before it is taken over.

use std::collections::BTreeSet;

use bytes::{Buf, Bytes};
use leasehold_control::{Cluster, ClusterId, NodeRecord};
use leasehold_model::{Key, NodeId};
use prost::Message as _;

use super::{PeerError, cluster_id_from_proto, cluster_id_to_proto};
use crate::control::{cluster_from_proto, cluster_to_proto, node_from_proto, node_to_proto};
use crate::part::{PartError, Problem, each, required};
use crate::proto::leasehold::peer::v1 as proto;
use crate::proto::leasehold::storage::v1 as storage;

/// Seeds or founders in one message. A cluster is founded by a handful of nodes; beyond this the message is malformed.
pub const FORM_NODES_MAX: usize = 64;
/// Bytes of one name, address, zone or region. A host name has 253 at most; beyond this the message is malformed.
pub const FORM_TEXT_BYTES_MAX: usize = 300;

/// A node without a cluster asks a seed what it knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormRequest {
    /// The cluster's name.
    pub cluster: String,
    /// Peer addresses of the founders.
    pub seeds: BTreeSet<String>,
    /// How many shards it shall have.
    pub shards: u32,
    /// Replicas of each.
    pub replicas: u32,
    /// The asker, under the id that it will have.
    pub record: NodeRecord,
    /// Drawn by the asking process, so that it knows itself at another address.
    pub nonce: u128,
}

/// What a seed knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormReply {
    /// It belongs to this cluster: join through it.
    Formed(ClusterId),
    /// It has stored this founding, and waits for the others.
    Founding(Founding),
    /// It knows no more than the asker: this is what it would ask.
    Forming(FormRequest),
}

/// What founders agree on before there is a cluster. Its bytes are also what they keep on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Founding {
    /// The cluster's constants.
    pub cluster: Cluster,
    /// Its name.
    pub name: String,
    /// Its first nodes.
    pub founders: Vec<NodeRecord>,
}

/// What a founder answers when it is offered a founding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundReply {
    /// It is on its disk, and it takes no other.
    Stored,
    /// It has another one, or is a member already, of this cluster.
    Other(ClusterId),
    /// It isn't among the founders.
    NotMe,
}

/// A node asks to join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinRequest {
    /// The cluster's name.
    pub name: String,
    /// The asker, under the id that it will have.
    pub record: NodeRecord,
}

/// Whether it may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinReply {
    /// It is registered.
    Welcome {
        /// The cluster's id.
        cluster: ClusterId,
        /// Peer addresses of the nodes.
        peers: Vec<(NodeId, String)>,
    },
    /// Never so: the reason.
    Refused(String),
    /// Not now: the reason.
    Later(String),
}

impl FormRequest {
    /// Its bytes.
    #[must_use]
    pub fn encode(self) -> Bytes {
        self.into_proto().encode_to_vec().into()
    }

    /// The request that `from` holds.
    ///
    /// # Errors
    /// [`PeerError`] names what is wrong about it.
    pub fn decode(from: impl Buf) -> Result<Self, PeerError> {
        Ok(Self::from_proto(proto::FormRequest::decode(from)?)?)
    }

    fn into_proto(self) -> proto::FormRequest {
        let Key { high: nonce_high, low: nonce_low } = Key::from_u128(self.nonce);
        proto::FormRequest {
            cluster: self.cluster,
            seeds: self.seeds.into_iter().collect(),
            shards: self.shards,
            replicas: self.replicas,
            record: Some(node_to_proto(&self.record)),
            nonce_high,
            nonce_low,
        }
    }

    fn from_proto(proto: proto::FormRequest) -> Result<Self, PartError> {
        bounded_list(proto.seeds.len(), "seeds")?;
        Ok(Self {
            cluster: bounded_text(proto.cluster, "cluster")?,
            seeds: each(proto.seeds, "seeds", |seed| bounded_text(seed, "address"))?.into_iter().collect(),
            shards: proto.shards,
            replicas: proto.replicas,
            record: bounded_record(required(proto.record, "record")?)
                .map_err(|error| error.within("record"))?,
            nonce: Key { high: proto.nonce_high, low: proto.nonce_low }.to_u128(),
        })
    }
}

impl FormReply {
    /// Its bytes.
    #[must_use]
    pub fn encode(self) -> Bytes {
        use proto::form_reply::Answer;
        let answer = match self {
            Self::Formed(cluster) => Answer::Formed(cluster_id_to_proto(cluster)),
            Self::Founding(founding) => Answer::Founding(founding.into_proto()),
            Self::Forming(request) => Answer::Forming(request.into_proto()),
        };
        proto::FormReply { answer: Some(answer) }.encode_to_vec().into()
    }

    /// The reply that `from` holds.
    ///
    /// # Errors
    /// [`PeerError`] names what is wrong about it.
    pub fn decode(from: impl Buf) -> Result<Self, PeerError> {
        use proto::form_reply::Answer;
        let answer = required(proto::FormReply::decode(from)?.answer, "answer")?;
        Ok(match answer {
            Answer::Formed(cluster) => Self::Formed(cluster_id_from_proto(cluster)),
            Answer::Founding(founding) => {
                Self::Founding(Founding::from_proto(founding).map_err(|error| error.within("founding"))?)
            }
            Answer::Forming(request) => {
                Self::Forming(FormRequest::from_proto(request).map_err(|error| error.within("forming"))?)
            }
        })
    }
}

impl Founding {
    /// Its bytes.
    #[must_use]
    pub fn encode(self) -> Bytes {
        self.into_proto().encode_to_vec().into()
    }

    /// The founding that `from` holds.
    ///
    /// # Errors
    /// [`PeerError`] names what is wrong about it.
    pub fn decode(from: impl Buf) -> Result<Self, PeerError> {
        Ok(Self::from_proto(proto::Founding::decode(from)?)?)
    }

    fn into_proto(self) -> proto::Founding {
        proto::Founding {
            cluster: Some(cluster_to_proto(&self.cluster)),
            name: self.name,
            founders: self.founders.iter().map(node_to_proto).collect(),
        }
    }

    fn from_proto(proto: proto::Founding) -> Result<Self, PartError> {
        bounded_list(proto.founders.len(), "founders")?;
        let cluster = required(proto.cluster, "cluster")?;
        Ok(Self {
            cluster: cluster_from_proto(&cluster).map_err(|error| error.within("cluster"))?,
            name: bounded_text(proto.name, "name")?,
            founders: each(proto.founders, "founders", bounded_record)?,
        })
    }
}

impl FoundReply {
    /// Its bytes.
    #[must_use]
    pub fn encode(self) -> Bytes {
        use proto::found_reply::Answer;
        let answer = match self {
            Self::Stored => Answer::Stored(proto::Nothing {}),
            Self::Other(cluster) => Answer::Other(cluster_id_to_proto(cluster)),
            Self::NotMe => Answer::NotMe(proto::Nothing {}),
        };
        proto::FoundReply { answer: Some(answer) }.encode_to_vec().into()
    }

    /// The reply that `from` holds.
    ///
    /// # Errors
    /// [`PeerError`] names what is wrong about it.
    pub fn decode(from: impl Buf) -> Result<Self, PeerError> {
        use proto::found_reply::Answer;
        Ok(match required(proto::FoundReply::decode(from)?.answer, "answer")? {
            Answer::Stored(_) => Self::Stored,
            Answer::Other(cluster) => Self::Other(cluster_id_from_proto(cluster)),
            Answer::NotMe(_) => Self::NotMe,
        })
    }
}

impl JoinRequest {
    /// Its bytes.
    #[must_use]
    pub fn encode(self) -> Bytes {
        proto::JoinRequest { name: self.name, record: Some(node_to_proto(&self.record)) }
            .encode_to_vec()
            .into()
    }

    /// The request that `from` holds.
    ///
    /// # Errors
    /// [`PeerError`] names what is wrong about it.
    pub fn decode(from: impl Buf) -> Result<Self, PeerError> {
        let proto = proto::JoinRequest::decode(from)?;
        let record = required(proto.record, "record")?;
        Ok(Self {
            name: bounded_text(proto.name, "name")?,
            record: bounded_record(record).map_err(|error| error.within("record"))?,
        })
    }
}

impl JoinReply {
    /// Its bytes.
    #[must_use]
    pub fn encode(self) -> Bytes {
        use proto::join_reply::Answer;
        let answer = match self {
            Self::Welcome { cluster, peers } => {
                let peers = peers.into_iter().map(|(node, address)| proto::Peer { node: node.0, address });
                Answer::Welcome(proto::Welcome {
                    cluster: Some(cluster_id_to_proto(cluster)),
                    peers: peers.collect(),
                })
            }
            Self::Refused(reason) => Answer::Refused(reason),
            Self::Later(reason) => Answer::Later(reason),
        };
        proto::JoinReply { answer: Some(answer) }.encode_to_vec().into()
    }

    /// The reply that `from` holds.
    ///
    /// # Errors
    /// [`PeerError`] names what is wrong about it.
    pub fn decode(from: impl Buf) -> Result<Self, PeerError> {
        use proto::join_reply::Answer;
        Ok(match required(proto::JoinReply::decode(from)?.answer, "answer")? {
            Answer::Welcome(welcome) => Self::Welcome {
                cluster: cluster_id_from_proto(required(welcome.cluster, "welcome.cluster")?),
                peers: welcome.peers.into_iter().map(|peer| (NodeId(peer.node), peer.address)).collect(),
            },
            Answer::Refused(reason) => Self::Refused(reason),
            Answer::Later(reason) => Self::Later(reason),
        })
    }
}

fn bounded_list(found: usize, path: &str) -> Result<(), PartError> {
    if found > FORM_NODES_MAX {
        let problem = Problem::TooMany { found, max: FORM_NODES_MAX };
        return Err(PartError { path: path.to_owned(), problem });
    }
    Ok(())
}

fn bounded_text(text: String, path: &str) -> Result<String, PartError> {
    check_text(&text, path).map(|()| text)
}

fn check_text(text: &str, path: &str) -> Result<(), PartError> {
    if text.len() > FORM_TEXT_BYTES_MAX {
        let problem = Problem::TooLong { found: text.len(), max: FORM_TEXT_BYTES_MAX };
        return Err(PartError { path: path.to_owned(), problem });
    }
    Ok(())
}

fn bounded_record(proto: storage::NodeRecord) -> Result<NodeRecord, PartError> {
    let texts = [
        (&proto.name, "name"),
        (&proto.peer_address, "peer_address"),
        (&proto.gossip_address, "gossip_address"),
        (&proto.client_address, "client_address"),
        (&proto.zone, "zone"),
        (&proto.region, "region"),
    ];
    for (text, path) in texts {
        check_text(text, path)?;
    }
    node_from_proto(proto)
}
