//! What came of one event, as JSON with the field names that people's own tools can read.

use leasehold_limit::{Decision, RetryAfter};
use leasehold_model::Stamp;
use serde_json::{Map, Value, json};

/// One event and what came of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// When it arrived; it was decided then, or at the latest stamp before it.
    pub(crate) at: Stamp,
    /// What came of it.
    pub(crate) answer: Answer,
}

/// What came of one event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    /// The counter answered.
    Decided {
        /// Units asked; 0 only looked.
        cost: u64,
        /// The answer.
        decision: Decision,
        /// Whether a queue answered: then a wait belongs to the answer, even when there is none.
        shaper: bool,
    },
    /// A negative cost, or one beyond 2^64 - 1. Nothing changed, time included.
    InvalidCost {
        /// As given.
        cost: i128,
    },
    /// The limit has new numbers; what was used stays used.
    PolicySet,
}

impl Answer {
    /// Whether units were taken.
    pub(crate) fn taken(&self) -> Option<u64> {
        match self {
            Self::Decided { cost, decision, .. } if *cost > 0 && decision.allowed => Some(*cost),
            Self::Decided { .. } | Self::InvalidCost { .. } | Self::PolicySet => None,
        }
    }

    /// Whether units were refused.
    pub(crate) fn refused(&self) -> Option<u64> {
        match self {
            Self::Decided { cost, decision, .. } if *cost > 0 && !decision.allowed => Some(*cost),
            Self::Decided { .. } | Self::InvalidCost { .. } | Self::PolicySet => None,
        }
    }

    /// What the counter said, if it was asked.
    pub(crate) fn decision(&self) -> Option<&Decision> {
        match self {
            Self::Decided { decision, .. } => Some(decision),
            Self::InvalidCost { .. } | Self::PolicySet => None,
        }
    }
}

impl Step {
    /// As one JSON object. Times are integers in nanoseconds.
    pub(crate) fn to_json(self) -> Value {
        match self.answer {
            Answer::Decided { cost, decision, shaper } => self.decided(cost, &decision, shaper),
            Answer::InvalidCost { .. } => json!({ "t_ns": self.at.0, "error": "invalid_cost" }),
            Answer::PolicySet => json!({ "t_ns": self.at.0, "policy_set": true }),
        }
    }

    fn decided(self, cost: u64, decision: &Decision, shaper: bool) -> Value {
        let mut object = Map::new();
        object.insert("t_ns".into(), self.at.0.into());
        object.insert("cost".into(), cost.into());
        object.insert("allowed".into(), decision.allowed.into());
        object.insert("remaining".into(), decision.remaining.into());
        object.insert("retry_after_ns".into(), retry_after(decision.retry_after));
        object.insert("reset_after_ns".into(), decision.reset_after.0.into());
        if shaper {
            object.insert("wait_ns".into(), decision.wait.map(|wait| wait.0).into());
        }
        Value::Object(object)
    }
}

fn retry_after(retry: Option<RetryAfter>) -> Value {
    match retry {
        None => Value::Null,
        Some(RetryAfter::In(wait)) => wait.0.into(),
        Some(RetryAfter::Never) => "never".into(),
    }
}
