//! Frames: what travels on a connection after the hello.
//!
//! Invariant: any bytes decode to a frame, to "not all of it is here yet", or to an error; a length that a peer claims
//! reserves no memory. Payloads are opaque.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::{Kind, Refusal};
use crate::types::GroupId;

/// The longest frame, in bytes, its length field not counted. A longer one is not sent, and one that arrives ends its
/// connection. It holds the longest entry with room to spare; snapshots travel in chunks.
pub const FRAME_BYTES_MAX: usize = 8 << 20;

/// The most that a frame carries besides its payload.
pub(super) const HEADER_BYTES_MAX: usize = 1 + 8 + 2 + 4 + 4;

const LENGTH_BYTES: usize = 4;

const CALL: u8 = 1;
const REPLY: u8 = 2;
const PING: u8 = 3;
const PONG: u8 = 4;

/// One message of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    Call { id: u64, kind: Kind, group: GroupId, deadline_ms: u32, payload: Bytes },
    Reply { id: u64, outcome: Result<Bytes, Refusal> },
    Ping,
    Pong,
}

/// Bytes that are no frame: the connection ends, since nothing after them can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FrameError {
    #[error("a frame of {0} bytes, more than {FRAME_BYTES_MAX}")]
    TooLong(usize),
    #[error("a frame of an unknown type or shape")]
    Malformed,
}

impl Frame {
    /// Bytes that the frame takes on the connection, its length field included.
    pub(super) const fn len(&self) -> usize {
        let body = match self {
            Self::Call { payload, .. } => HEADER_BYTES_MAX + payload.len(),
            Self::Reply { outcome: Ok(payload), .. } => 1 + 8 + 1 + payload.len(),
            Self::Reply { outcome: Err(_), .. } => 1 + 8 + 1,
            Self::Ping | Self::Pong => 1,
        };
        LENGTH_BYTES + body
    }

    /// Appends the frame. Whoever made it has checked its length.
    pub(super) fn encode(&self, out: &mut BytesMut) {
        let body =
            u32::try_from(self.len() - LENGTH_BYTES).expect("lengths are checked where frames are made");
        out.reserve(self.len());
        out.put_u32_le(body);
        match self {
            Self::Call { id, kind, group, deadline_ms, payload } => {
                out.put_u8(CALL);
                out.put_u64_le(*id);
                out.put_u16_le(kind.0);
                out.put_u32_le(group.0);
                out.put_u32_le(*deadline_ms);
                out.put_slice(payload);
            }
            Self::Reply { id, outcome } => {
                out.put_u8(REPLY);
                out.put_u64_le(*id);
                match outcome {
                    Ok(payload) => {
                        out.put_u8(0);
                        out.put_slice(payload);
                    }
                    Err(refusal) => out.put_u8(refusal.code()),
                }
            }
            Self::Ping => out.put_u8(PING),
            Self::Pong => out.put_u8(PONG),
        }
    }

    /// Takes one frame from the front; none when not all of it has arrived.
    pub(super) fn decode(from: &mut BytesMut) -> Result<Option<Self>, FrameError> {
        let Some(length) = from.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        if length > FRAME_BYTES_MAX {
            return Err(FrameError::TooLong(length));
        }
        if from.len() - LENGTH_BYTES < length {
            return Ok(None);
        }
        from.advance(LENGTH_BYTES);
        Self::decode_body(from.split_to(length).freeze()).map(Some)
    }

    fn decode_body(mut body: Bytes) -> Result<Self, FrameError> {
        let short = |_| FrameError::Malformed;
        match body.try_get_u8().map_err(short)? {
            CALL => Ok(Self::Call {
                id: body.try_get_u64_le().map_err(short)?,
                kind: Kind(body.try_get_u16_le().map_err(short)?),
                group: GroupId(body.try_get_u32_le().map_err(short)?),
                deadline_ms: body.try_get_u32_le().map_err(short)?,
                payload: body,
            }),
            REPLY => {
                let id = body.try_get_u64_le().map_err(short)?;
                match body.try_get_u8().map_err(short)? {
                    0 => Ok(Self::Reply { id, outcome: Ok(body) }),
                    code => Ok(Self::Reply { id, outcome: Err(Refusal::from_code(code)) }),
                }
            }
            PING if body.is_empty() => Ok(Self::Ping),
            PONG if body.is_empty() => Ok(Self::Pong),
            _ => Err(FrameError::Malformed),
        }
    }
}

/// What arrived on a connection isn't frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoFrame(FrameError);

/// Takes whole frames from the front, as a connection does, and forgets them: how many there were. For trying bytes out.
///
/// # Errors
/// When the bytes are no frames.
pub fn skip_frames(from: &mut BytesMut) -> Result<usize, NoFrame> {
    let mut frames = 0;
    while Frame::decode(from).map_err(NoFrame)?.is_some() {
        frames += 1;
    }
    Ok(frames)
}
