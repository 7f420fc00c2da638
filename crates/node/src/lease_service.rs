//! `leasehold.v1.LeaseService`: what edges ask, passed on to the owners of counters, and the rules that they decide by.
//!
//! Invariant: a stream has its own bounds and its own failures: what one edge sends or doesn't read costs no other. Each ask
//! is answered once, in the order in which owners answer; nothing is done for an ask beyond the bounds. The node adds
//! nothing of its own to what an owner grants; what it lends itself it holds by an owner's grant.

mod broker;
mod conversation;
mod handout;
mod lender;
mod meters;
mod names;
mod owners;
mod plan;

use std::sync::Arc;
use std::time::Duration;

use leasehold_model::NodeId;
use leasehold_wire::proto::leasehold::v1 as proto;
use leasehold_wire::proto::leasehold::v1::lease_service_server;
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use crate::rules::RulesInForce;
pub(crate) use broker::Broker;
use conversation::Conversation;
pub(crate) use lender::{ChildAsk, Lender, NoLender};
pub(crate) use meters::LeaseMeters;
pub(crate) use names::{EdgeNames, printable};
pub(crate) use owners::{Home, Owners};

/// Streams at once. Beyond, an edge is told to try another node. Each costs some 50 KB while nothing is asked.
const STREAMS_MAX: usize = 4 << 10;
/// Asks of one stream that are unanswered at a time: what the edge is told it may have. An edge that has more is cut.
const ASKS_MAX: usize = 4 << 10;
/// Asks of all streams that are unanswered at a time. Beyond, asks are answered as overload at once: some 100 ms of work.
const ASKS_OF_ALL_MAX: usize = 64 << 10;
/// Messages that wait for an edge to read them. Beyond, answers wait to be sent together; they are bounded by the asks.
const MESSAGES_WAITING_MAX: usize = 4;
/// How long asks are worth answering that don't say: longer than another leader takes to be elected.
const PATIENCE_MAX: Duration = Duration::from_secs(2);

/// The node, as it greets edges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Greeter {
    /// Its id; 0 when it runs alone.
    pub(crate) node: u64,
    /// For people.
    pub(crate) name: String,
    /// Empty where regions aren't named.
    pub(crate) region: String,
    /// Whether edges may make counters fresh.
    pub(crate) reset: bool,
}

impl Greeter {
    const fn id(&self) -> NodeId {
        NodeId(self.node)
    }
}

/// See the module. Clones are handles to the same one.
#[derive(Debug)]
pub(crate) struct LeaseService<O, L>(Arc<Shared<O, L>>);

impl<O, L> Clone for LeaseService<O, L> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// What streams share.
#[derive(Debug)]
struct Shared<O, L> {
    greeter: Greeter,
    owners: Arc<O>,
    lender: L,
    rules: Arc<RulesInForce>,
    meters: Arc<LeaseMeters>,
    names: Arc<EdgeNames>,
    streams: Arc<Semaphore>,
    asks: Arc<Semaphore>,
    /// The node stops: edges are sent away.
    draining: CancellationToken,
}

impl<O: Owners, L: Lender> LeaseService<O, L> {
    /// A service that asks `owners`, but for what `lender` lends; what it counts, and who is connected, it notes in `known`.
    /// Once `draining` is cancelled, edges are sent away.
    pub(crate) fn new(
        greeter: Greeter,
        owners: Arc<O>,
        lender: L,
        rules: Arc<RulesInForce>,
        known: (Arc<LeaseMeters>, Arc<EdgeNames>),
        draining: CancellationToken,
    ) -> Self {
        let (meters, names) = known;
        Self(Arc::new(Shared {
            greeter,
            owners,
            lender,
            rules,
            meters,
            names,
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            asks: Arc::new(Semaphore::new(ASKS_OF_ALL_MAX)),
            draining,
        }))
    }
}

#[tonic::async_trait]
impl<O: Owners, L: Lender> lease_service_server::LeaseService for LeaseService<O, L> {
    type LeaseStream = ReceiverStream<Result<proto::LeaseResponse, Status>>;

    async fn lease(
        &self,
        request: Request<Streaming<proto::LeaseRequest>>,
    ) -> Result<Response<Self::LeaseStream>, Status> {
        if self.0.draining.is_cancelled() {
            return Err(Status::unavailable("the node stops; try another one"));
        }
        let Ok(place) = Arc::clone(&self.0.streams).try_acquire_owned() else {
            self.0.meters.refused.inc();
            return Err(Status::unavailable("the node has as many edges as it may; try another one"));
        };
        let (responses, received) = mpsc::channel(MESSAGES_WAITING_MAX);
        let conversation = Conversation::new(Arc::clone(&self.0), request.into_inner(), responses);
        tokio::spawn(async move {
            conversation.run().await;
            drop(place);
        });
        Ok(Response::new(ReceiverStream::new(received)))
    }
}
