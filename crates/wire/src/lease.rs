//! The stream between an edge and a node: what is said both ways, checked.
//!
//! Invariant: what a message may hold is bounded here, before anything is done for it; reading one never panics and
//! allocates in proportion to its bytes. Skipped: fields that this version doesn't know, and kinds of messages, asks and
//! answers that it doesn't know, which become the variant `Later`. Whether an ask may be asked is not checked here.

mod answer;
mod ask;
mod greeting;

use leasehold_limit::Limit;

use crate::limit::LimitProtoError;
use crate::part::{PartError, Problem};
use crate::proto::leasehold::v1 as proto;

pub use answer::{Answer, Outcome, Unanswered};
pub use ask::{Ask, AskedLease, AskedLimit, Asks, What};
pub use greeting::{Hello, RuleSet, Welcome};

/// The highest feature level that this version speaks. Both sides use what the lower one of theirs has.
pub const FEATURE_LEVEL: u32 = 1;

/// Asks in one message, and limits that they refer to. An edge with more to ask sends another message; a node refuses more
/// as malformed. As many as one entry of a shard's log may carry.
pub const ASKS_MAX: usize = 1 << 10;
/// Leases that one ask tells of: all that an edge may hold of one counter. More are refused as malformed.
pub const USAGE_MAX: usize = 256;
/// Demands, items or keys in one ask: the owner refuses more anyway.
pub const ITEMS_MAX: usize = 256;
/// Bytes of a message with asks, at which a node stops reading. A full one of the usual asks has a tenth of it.
pub const REQUEST_BYTES_MAX: usize = 1 << 20;
/// Bytes of a message from a node: a rule file of the largest size, with the rest of its message.
pub const RESPONSE_BYTES_MAX: usize = (1 << 20) + (256 << 10);
/// Bytes of rule files that a node puts into one message, unless one file alone has more; those that are left go into the
/// next.
pub const RULES_PER_MESSAGE_BYTES_MAX: usize = 256 << 10;
/// Rule files of one set, in however many messages: as many as a cluster has domains. More are refused as malformed.
pub const DOMAINS_MAX: usize = 1_000;
/// Shards that a node names as those at home. More are refused as malformed.
pub const SHARDS_MAX: usize = 1 << 16;
/// Bytes of a name or version. Longer ones are refused as malformed.
pub const NAME_BYTES_MAX: usize = 128;

/// What an edge says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseRequest {
    /// Who it is.
    Hello(Hello),
    /// What it asks.
    Asks(Asks),
    /// It is about to end.
    Bye,
    /// Something that a later version added: to be skipped.
    Later,
}

/// What a node says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseResponse {
    /// Who it is.
    Welcome(Welcome),
    /// By which rules to decide.
    Rules(RuleSet),
    /// What it was asked.
    Answers(Vec<Answer>),
    /// It stops: connect to another.
    GoAway,
    /// Something that a later version added: to be skipped.
    Later,
}

/// A message that isn't understood. Who sent it is broken, or an attacker: end the stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaseProtoError {
    /// A part of it can't be.
    #[error("{0}")]
    Part(#[from] PartError),
    /// A limit that is none.
    #[error("asks.limits[{index}].limit.{error}")]
    Limit {
        /// Its position.
        index: usize,
        /// What is wrong.
        error: LimitProtoError,
    },
}

impl LeaseProtoError {
    /// Which field, and what is wrong with it.
    #[must_use]
    pub fn parts(&self) -> (String, String) {
        match self {
            Self::Part(error) => (error.path.clone(), error.problem.to_string()),
            Self::Limit { index, error } => (format!("asks.limits[{index}].limit"), error.to_string()),
        }
    }
}

impl From<LeaseRequest> for proto::LeaseRequest {
    fn from(request: LeaseRequest) -> Self {
        use proto::lease_request::Message;
        let message = match request {
            LeaseRequest::Hello(hello) => Some(Message::Hello(hello.into())),
            LeaseRequest::Asks(asks) => Some(Message::Asks(asks.into())),
            LeaseRequest::Bye => Some(Message::Bye(proto::Bye {})),
            LeaseRequest::Later => None,
        };
        Self { message }
    }
}

impl TryFrom<proto::LeaseRequest> for LeaseRequest {
    type Error = LeaseProtoError;

    fn try_from(proto: proto::LeaseRequest) -> Result<Self, LeaseProtoError> {
        use proto::lease_request::Message;
        Ok(match proto.message {
            Some(Message::Hello(hello)) => Self::Hello(hello.try_into()?),
            Some(Message::Asks(asks)) => Self::Asks(asks.try_into()?),
            Some(Message::Bye(_)) => Self::Bye,
            None => Self::Later,
        })
    }
}

impl From<LeaseResponse> for proto::LeaseResponse {
    fn from(response: LeaseResponse) -> Self {
        use proto::lease_response::Message;
        let message = match response {
            LeaseResponse::Welcome(welcome) => Some(Message::Welcome(welcome.into())),
            LeaseResponse::Rules(rules) => Some(Message::Rules(rules.into())),
            LeaseResponse::Answers(answers) => {
                let answers = answers.into_iter().map(proto::LeaseAnswer::from).collect();
                Some(Message::Answers(proto::Answers { answers }))
            }
            LeaseResponse::GoAway => Some(Message::GoAway(proto::GoAway {})),
            LeaseResponse::Later => None,
        };
        Self { message }
    }
}

impl TryFrom<proto::LeaseResponse> for LeaseResponse {
    type Error = LeaseProtoError;

    fn try_from(proto: proto::LeaseResponse) -> Result<Self, LeaseProtoError> {
        use proto::lease_response::Message;
        Ok(match proto.message {
            Some(Message::Welcome(welcome)) => Self::Welcome(welcome.try_into()?),
            Some(Message::Rules(rules)) => Self::Rules(rules.try_into()?),
            Some(Message::Answers(answers)) => {
                Self::Answers(crate::part::each(answers.answers, "answers", Answer::try_from)?)
            }
            Some(Message::GoAway(_)) => Self::GoAway,
            None => Self::Later,
        })
    }
}

/// A list within its bound.
fn bounded<T>(list: &[T], max: usize, path: &str) -> Result<(), PartError> {
    if list.len() <= max {
        return Ok(());
    }
    Err(PartError { path: path.to_owned(), problem: Problem::TooMany { found: list.len(), max } })
}

/// A text within its bound.
fn short(text: String, path: &str) -> Result<String, PartError> {
    if text.len() <= NAME_BYTES_MAX {
        return Ok(text);
    }
    let problem = Problem::TooLong { found: text.len(), max: NAME_BYTES_MAX };
    Err(PartError { path: path.to_owned(), problem })
}

/// A number that may not be 0.
fn positive(number: u32, path: &str) -> Result<u32, PartError> {
    if number > 0 {
        return Ok(number);
    }
    Err(PartError { path: path.to_owned(), problem: Problem::Zero })
}

fn limit_from_proto(index: usize, proto: Option<&proto::Limit>) -> Result<Limit, LeaseProtoError> {
    let proto = proto.ok_or_else(|| PartError::absent(&format!("asks.limits[{index}].limit")))?;
    Limit::try_from(proto).map_err(|error| LeaseProtoError::Limit { index, error })
}

#[cfg(test)]
mod tests;
