//! Frames that are held back before they are written, as a long way would: clusters of several regions are tried out on one
//! machine with it.
//!
//! Invariant: frames keep their order, and all that the queue holds are on their way at a time, so that a delay costs time and
//! no throughput. Where nothing is held back nobody looks at a clock. Hellos, and calls of strangers, are never held back.

use std::sync::Arc;
use std::time::Duration;

use leasehold_model::NodeId;
use tokio::time::Instant;

/// How long what is sent to a node is held back.
pub type Delays = Arc<dyn Fn(NodeId) -> Duration + Send + Sync>;

/// The way to one node.
#[derive(Clone, Default)]
pub(super) struct Way(Option<(NodeId, Delays)>);

impl Way {
    pub(super) fn to(node: Option<NodeId>, delays: Option<Delays>) -> Self {
        Self(node.zip(delays))
    }

    /// When what is sent now may leave; none: at once.
    pub(super) fn due(&self) -> Option<Instant> {
        let (node, delays) = self.0.as_ref()?;
        let delay = delays(*node);
        (delay > Duration::ZERO).then(|| Instant::now() + delay)
    }
}
