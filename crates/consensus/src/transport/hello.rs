//! The first words on a connection: who calls whom, confirmed by both.
//!
//! Invariant: after a hello both ends know that they are of one cluster and speak one protocol level, and the caller
//! knows that it reached the node it meant, whatever the address said. A stranger (a node without an id yet) is let
//! in as such and may ask only what is open to strangers.

use bytes::{Buf, BufMut};
use leasehold_model::NodeId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::stream::{ReadHalf, SecureStream, WriteHalf};
use super::{ClusterId, Identity, PROTOCOL_LEVEL};

/// Opens every hello, so that a port that speaks something else is told from a peer.
const MAGIC: u32 = u32::from_le_bytes(*b"LHPR");
const HELLO_BYTES: usize = 4 + 4 + 16 + 8 + 8;
const ANSWER_BYTES: usize = 4 + 4 + 1 + 16 + 8;
/// Stands for "not known yet" where a node id or cluster id is expected; no node and no cluster has it.
const NOBODY: u64 = 0;

/// Why two nodes don't talk.
#[derive(Debug, thiserror::Error)]
pub(super) enum HelloError {
    #[error("it is a node of another cluster")]
    OtherCluster,
    #[error("another node answers at this address")]
    OtherNode,
    #[error("it speaks another protocol level than {PROTOCOL_LEVEL}")]
    OtherLevel,
    #[error("it belongs to no cluster yet")]
    Unformed,
    #[error("what answers is no peer")]
    NoPeer,
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Verdict {
    Welcome = 0,
    OtherCluster = 1,
    OtherNode = 2,
    OtherLevel = 3,
    Unformed = 4,
}

impl Verdict {
    fn from_code(code: u8) -> Option<Self> {
        let all = [Self::Welcome, Self::OtherCluster, Self::OtherNode, Self::OtherLevel, Self::Unformed];
        all.into_iter().find(|verdict| *verdict as u8 == code)
    }

    fn check(self) -> Result<(), HelloError> {
        match self {
            Self::Welcome => Ok(()),
            Self::OtherCluster => Err(HelloError::OtherCluster),
            Self::OtherNode => Err(HelloError::OtherNode),
            Self::OtherLevel => Err(HelloError::OtherLevel),
            Self::Unformed => Err(HelloError::Unformed),
        }
    }
}

/// The caller's side, as a member that means one node. Fails unless that node answers.
pub(super) async fn greet(me: Identity, to: NodeId, stream: &mut SecureStream) -> Result<(), HelloError> {
    say(Some(me), to.0, &mut stream.writer).await?;
    let answer = hear_answer(&mut stream.reader).await?;
    if stream.proven.is_some_and(|proven| proven != to) {
        return Err(HelloError::OtherNode);
    }
    if answer != Some(Identity { cluster: me.cluster, node: to }) {
        return Err(HelloError::OtherNode);
    }
    Ok(())
}

/// The caller's side, as a stranger that takes whoever answers: their identity, if they have one.
pub(super) async fn greet_anyone(stream: &mut SecureStream) -> Result<Option<Identity>, HelloError> {
    say(None, NOBODY, &mut stream.writer).await?;
    hear_answer(&mut stream.reader).await
}

/// The answering side: the member that calls, or none for a stranger.
pub(super) async fn answer(
    me: Option<Identity>,
    stream: &mut SecureStream,
) -> Result<Option<NodeId>, HelloError> {
    let mut hello = [0; HELLO_BYTES];
    stream.reader.read_exact(&mut hello).await?;
    let mut hello = &hello[..];
    if hello.get_u32_le() != MAGIC {
        return Err(HelloError::NoPeer);
    }
    let (level, cluster) = (hello.get_u32_le(), ClusterId(hello.get_u128_le()));
    let (from, to) = (hello.get_u64_le(), hello.get_u64_le());
    let lies = from != NOBODY && stream.proven.is_some_and(|proven| proven.0 != from);
    let verdict = if lies { Verdict::OtherNode } else { judge(me, level, cluster, from, to) };
    let mut out = Vec::with_capacity(ANSWER_BYTES);
    out.put_u32_le(MAGIC);
    out.put_u32_le(PROTOCOL_LEVEL);
    out.put_u8(verdict as u8);
    put_identity(me, &mut out);
    stream.writer.write_all(&out).await?;
    stream.writer.flush().await?;
    verdict.check()?;
    Ok((from != NOBODY).then_some(NodeId(from)))
}

fn judge(me: Option<Identity>, level: u32, cluster: ClusterId, from: u64, to: u64) -> Verdict {
    if level != PROTOCOL_LEVEL {
        return Verdict::OtherLevel;
    }
    if from == NOBODY {
        return Verdict::Welcome;
    }
    match me {
        None => Verdict::Unformed,
        Some(me) if me.cluster != cluster => Verdict::OtherCluster,
        Some(me) if me.node.0 != to => Verdict::OtherNode,
        Some(_) => Verdict::Welcome,
    }
}

async fn say(me: Option<Identity>, to: u64, writer: &mut WriteHalf) -> Result<(), HelloError> {
    let mut out = Vec::with_capacity(HELLO_BYTES);
    out.put_u32_le(MAGIC);
    out.put_u32_le(PROTOCOL_LEVEL);
    put_identity(me, &mut out);
    out.put_u64_le(to);
    writer.write_all(&out).await?;
    Ok(writer.flush().await?)
}

async fn hear_answer(reader: &mut ReadHalf) -> Result<Option<Identity>, HelloError> {
    let mut answer = [0; ANSWER_BYTES];
    reader.read_exact(&mut answer).await?;
    let mut answer = &answer[..];
    if answer.get_u32_le() != MAGIC {
        return Err(HelloError::NoPeer);
    }
    if answer.get_u32_le() != PROTOCOL_LEVEL {
        return Err(HelloError::OtherLevel);
    }
    Verdict::from_code(answer.get_u8()).ok_or(HelloError::NoPeer)?.check()?;
    let (cluster, node) = (ClusterId(answer.get_u128_le()), NodeId(answer.get_u64_le()));
    Ok((node.0 != NOBODY).then_some(Identity { cluster, node }))
}

fn put_identity(me: Option<Identity>, out: &mut Vec<u8>) {
    out.put_u128_le(me.map_or(0, |me| me.cluster.0));
    out.put_u64_le(me.map_or(NOBODY, |me| me.node.0));
}
