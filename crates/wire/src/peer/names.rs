//! Who edges are, for operators: what they called themselves when they greeted a node.

use bytes::{Buf, Bytes};
use leasehold_lease::EdgeId;
use leasehold_model::Key;
use prost::Message as _;

use super::PeerError;
use crate::proto::leasehold::peer::v1 as proto;

/// Asks for the names of edges that are connected to the receiver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EdgeNamesRequest(pub Vec<EdgeId>);

/// Those of them that are, with their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EdgeNamesReply(pub Vec<(EdgeId, String)>);

impl EdgeNamesRequest {
    /// Its bytes.
    #[must_use]
    pub fn encode(self) -> Bytes {
        let edges = self.0.into_iter().map(|edge| to_proto(edge, String::new())).collect();
        proto::EdgeNamesRequest { edges }.encode_to_vec().into()
    }

    /// The request that `from` holds.
    ///
    /// # Errors
    /// [`PeerError`] names what is wrong about it.
    pub fn decode(from: impl Buf) -> Result<Self, PeerError> {
        let proto::EdgeNamesRequest { edges } = proto::EdgeNamesRequest::decode(from)?;
        Ok(Self(edges.iter().map(edge).collect()))
    }
}

impl EdgeNamesReply {
    /// Its bytes.
    #[must_use]
    pub fn encode(self) -> Bytes {
        let edges = self.0.into_iter().map(|(edge, name)| to_proto(edge, name)).collect();
        proto::EdgeNamesReply { edges }.encode_to_vec().into()
    }

    /// The reply that `from` holds.
    ///
    /// # Errors
    /// [`PeerError`] names what is wrong about it.
    pub fn decode(from: impl Buf) -> Result<Self, PeerError> {
        let proto::EdgeNamesReply { edges } = proto::EdgeNamesReply::decode(from)?;
        Ok(Self(edges.into_iter().map(|named| (edge(&named), named.name)).collect()))
    }
}

fn to_proto(edge: EdgeId, name: String) -> proto::EdgeName {
    let Key { high, low } = Key::from_u128(edge.0);
    proto::EdgeName { high, low, name }
}

fn edge(proto: &proto::EdgeName) -> EdgeId {
    EdgeId(Key { high: proto.high, low: proto.low }.to_u128())
}
