//! One connection after the other: greeting, asks out, answers and rules in, until it ends.
//!
//! Invariant: nothing is sent before the node's welcome, and never more than it keeps. How a connection ends says nothing
//! about what became of the asks on it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use leasehold_wire::lease::{
    Answer, FEATURE_LEVEL, Hello, LeaseProtoError, LeaseRequest, LeaseResponse, NAME_BYTES_MAX, RuleSet,
    Welcome,
};
use leasehold_wire::proto::leasehold::v1 as proto;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use super::pause::Pauses;
use super::rules::{KnownRules, Parts, PartsError, publish};
use super::standing::count;
use super::{Address, Shared};

/// How long connecting and greeting may take in all.
const GREETING_MAX: Duration = Duration::from_secs(3);
/// An ask without an answer for so long ends its connection, and is sent again on the next: longer than a node tries.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// How long answers are waited for when the node stops, or this side does.
const LEAVING_MAX: Duration = Duration::from_secs(2);
/// Messages that wait to be written. With more, asks would go into small messages although the connection is busy.
const MESSAGES_WAITING_MAX: usize = 2;
/// Asks under way at most, whatever a node says it takes.
const ASKS_MAX: usize = 16 << 10;

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("connecting: {}", causes(.0))]
    Connect(#[from] tonic::transport::Error),
    #[error("the node took longer than {GREETING_MAX:?} to greet")]
    Greeting,
    #[error("the node said {}: {}", .0.code(), .0.message())]
    Status(Box<tonic::Status>),
    #[error("the node ended the stream")]
    Stream,
    #[error("the node is not understood: {0}")]
    NotUnderstood(#[from] LeaseProtoError),
    #[error("the node's rules are none: {0}")]
    Rules(#[from] PartsError),
    #[error("the node began with something else than its welcome")]
    NoWelcome,
    #[error("the node speaks feature level {0}, which was not offered")]
    Level(u32),
    #[error("the node answered nothing for {ANSWER_MAX:?}")]
    Silent,
    #[error("the node stops")]
    GoAway,
    #[error("this side stops")]
    Bye,
}

impl From<tonic::Status> for Ended {
    fn from(status: tonic::Status) -> Self {
        Self::Status(Box::new(status))
    }
}

fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// Connects again and again, until this side is closed.
pub(super) async fn run(shared: &Arc<Shared>) {
    let addresses = &shared.config.addresses;
    let mut pauses = Pauses::default();
    let mut turn = usize::from(rand::random::<u16>());
    loop {
        let address = &addresses[turn % addresses.len()];
        let Err(ended) = visit(shared, address, &mut pauses).await;
        shared.desk.lock().lost();
        shared.standing.gone(&ended.to_string());
        if matches!(ended, Ended::Bye) {
            return;
        }
        tracing::debug!(%address, reason = %ended, "no connection to a node");
        if shared.closing.is_cancelled() && shared.desk.lock().open() == 0 {
            return;
        }
        turn = turn.wrapping_add(1);
        sleep(pauses.next(rand::random())).await;
    }
}

/// One connection from its beginning to its end.
async fn visit(
    shared: &Arc<Shared>,
    address: &Address,
    pauses: &mut Pauses,
) -> Result<std::convert::Infallible, Ended> {
    let mut link = timeout(GREETING_MAX, greet(shared, address)).await.map_err(|_| Ended::Greeting)??;
    pauses.served();
    link.serve().await
}

/// A connection that was welcomed.
struct Link<'a> {
    shared: &'a Arc<Shared>,
    /// The node's.
    region: String,
    asks_max: usize,
    requests: mpsc::Sender<proto::LeaseRequest>,
    responses: Streaming<proto::LeaseResponse>,
    parts: Parts,
    /// Nothing more is sent; ends then at the latest.
    leaving: Option<(Instant, Ended)>,
}

async fn greet<'a>(shared: &'a Arc<Shared>, address: &Address) -> Result<Link<'a>, Ended> {
    let begun = Instant::now();
    let mut client = address.connect().await?;
    let (requests, sent) = mpsc::channel(MESSAGES_WAITING_MAX);
    let hello = LeaseRequest::Hello(hello(shared)).into();
    // There is room for the first.
    let _ = requests.try_send(hello);
    let mut responses = client.lease(ReceiverStream::new(sent)).await?.into_inner();
    let first = responses.message().await?.ok_or(Ended::Stream)?;
    let LeaseResponse::Welcome(welcome) = first.try_into()? else { return Err(Ended::NoWelcome) };
    if welcome.feature_level > FEATURE_LEVEL {
        return Err(Ended::Level(welcome.feature_level));
    }
    let asks_max = usize::try_from(welcome.asks_max).unwrap_or(usize::MAX).min(ASKS_MAX);
    let region = welcome.region.clone();
    welcomed(shared, address, welcome, begun.elapsed());
    Ok(Link { shared, region, asks_max, requests, responses, parts: Parts::default(), leaving: None })
}

fn hello(shared: &Shared) -> Hello {
    let mut name = shared.config.name.clone();
    let fits = (0..=NAME_BYTES_MAX.min(name.len())).rev().find(|&at| name.is_char_boundary(at));
    name.truncate(fits.unwrap_or(0));
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Hello { edge: shared.edge, feature_level: FEATURE_LEVEL, name, version }
}

fn welcomed(shared: &Shared, address: &Address, welcome: Welcome, took: Duration) {
    let node = &welcome.node_name;
    tracing::info!(%address, node, level = welcome.feature_level, ?took, "connected to a node");
    shared.standing.there(address, welcome);
}

impl Link<'_> {
    async fn serve(&mut self) -> Result<std::convert::Infallible, Ended> {
        let requests = self.requests.clone();
        loop {
            if let ControlFlow::Break(ended) = self.look() {
                return Err(ended);
            }
            let sendable = self.leaving.is_none() && self.shared.desk.lock().has_unsent(self.asks_max);
            let closing = self.shared.closing.clone();
            let closes = closing.is_cancelled();
            let patience_ends = self.patience_ends();
            tokio::select! {
                response = self.responses.message() => {
                    let response = response?.ok_or(Ended::Stream)?;
                    self.take(response.try_into()?)?;
                }
                permit = requests.reserve(), if sendable => {
                    // The other end goes with the stream, which says why.
                    let Ok(permit) = permit else { continue };
                    if let Some(request) = self.shared.next_message(self.asks_max) {
                        permit.send(request);
                    }
                }
                () = self.shared.wake.notified() => {}
                () = closing.cancelled(), if !closes => {}
                () = sleep_until(patience_ends) => {}
            }
        }
    }

    /// Whether it is over.
    fn look(&mut self) -> ControlFlow<Ended> {
        let now = Instant::now();
        let (open, quiet, oldest) = {
            let desk = self.shared.desk.lock();
            (desk.open(), desk.is_quiet(), desk.oldest_under_way())
        };
        if oldest.is_some_and(|oldest| now >= oldest + ANSWER_MAX) {
            return ControlFlow::Break(Ended::Silent);
        }
        if self.leaving.is_none() && self.shared.closing.is_cancelled() && open == 0 {
            // Whether it is heard makes no difference to what is held.
            let _ = self.requests.try_send(LeaseRequest::Bye.into());
            self.leaving = Some((now + LEAVING_MAX, Ended::Bye));
        }
        // After goodbye the node ends the stream, when it has read it.
        let is_over =
            |(until, ended): &mut (Instant, Ended)| now >= *until || quiet && matches!(ended, Ended::GoAway);
        match self.leaving.take_if(is_over) {
            Some((_, ended)) => ControlFlow::Break(ended),
            None => ControlFlow::Continue(()),
        }
    }

    /// When to look again although nothing happens.
    fn patience_ends(&self) -> Instant {
        let now = Instant::now();
        let answer = self.shared.desk.lock().oldest_under_way().unwrap_or(now) + ANSWER_MAX;
        self.leaving.as_ref().map_or(answer, |(until, _)| answer.min(*until))
    }

    fn take(&mut self, response: LeaseResponse) -> Result<(), Ended> {
        match response {
            LeaseResponse::Answers(answers) => self.answered(answers),
            LeaseResponse::Rules(part) => {
                if let Some(set) = self.parts.add(part)? {
                    self.adopt(set);
                }
            }
            LeaseResponse::GoAway => {
                self.leaving.get_or_insert((Instant::now() + LEAVING_MAX, Ended::GoAway));
            }
            // A second welcome changes nothing.
            LeaseResponse::Welcome(_) | LeaseResponse::Later => {}
        }
        Ok(())
    }

    fn answered(&self, answers: Vec<Answer>) {
        let now = Instant::now();
        for answer in answers {
            let due = self.shared.desk.lock().answered(answer, now);
            if let Some((due, took)) = due {
                self.shared.note_round_trip(took);
                count(&self.shared.standing.meters.answers, 1);
                due.asker.tell(due.outcome);
            }
        }
    }

    /// Puts rules in force, off this task: reading them takes its time.
    fn adopt(&self, set: RuleSet) {
        let shared = Arc::clone(self.shared);
        let region = self.region.clone();
        tokio::task::spawn_blocking(move || match KnownRules::read(&set, &region) {
            Ok(known) => {
                if publish(&shared.rules, known) {
                    tracing::info!(version = %set.version, "the node's rules are in force");
                }
            }
            Err(mistakes) => {
                count(&shared.standing.meters.rules_refused, 1);
                let first = mistakes.first().map(ToString::to_string).unwrap_or_default();
                tracing::warn!(
                    version = %set.version, mistakes = mistakes.len(), first,
                    "the node's rules are not understood: the old ones stay in force; upgrade this side"
                );
            }
        });
    }
}

impl Shared {
    fn next_message(&self, asks_max: usize) -> Option<proto::LeaseRequest> {
        let asks = self.desk.lock().fill(asks_max, Instant::now())?;
        count(&self.standing.meters.messages, 1);
        count(&self.standing.meters.asks, asks.asks.len());
        Some(LeaseRequest::Asks(asks).into())
    }
}
