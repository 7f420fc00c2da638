//! One stream with an edge, from its greeting to its end.
//!
//! Invariant: what is under way for an edge is bounded, and it is told so; whoever goes beyond is cut. Answers are written as
//! they come, all that are there in one message. What ends the stream ends nothing that was asked on it: owners carry it out
//! and remember it for when it is asked again.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use leasehold_decide::ProposeError;
use leasehold_lease::EdgeId;
use leasehold_model::RulesVersion;
use leasehold_shard::Reply;
use leasehold_wire::lease::{
    Answer, Asks, FEATURE_LEVEL, Hello, LeaseProtoError, LeaseRequest, LeaseResponse, Outcome, Unanswered,
    Welcome, What,
};
use leasehold_wire::proto::leasehold::v1 as proto;
use leasehold_wire::status;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tonic::{Status, Streaming};

use super::handout::Handout;
use super::plan::{Sessions, Terms, Work, plan};
use super::{ASKS_MAX, Greeter, Lender, Owners, PATIENCE_MAX, Shared};

/// How long an edge may take to say who it is.
const HELLO_MAX: Duration = Duration::from_secs(5);
/// How long edges may take to leave a node that stops. What they asked is answered in that time.
const LEAVING_MAX: Duration = Duration::from_secs(2);
/// How long the last word of a stream may wait to be written.
const LAST_WORD_MAX: Duration = Duration::from_secs(1);
/// Decisions, units and the like in one message of answers: far below what an edge reads.
const PARTS_PER_MESSAGE_MAX: usize = 8 << 10;

type Requests = Streaming<proto::LeaseRequest>;
type Responses = mpsc::Sender<Result<proto::LeaseResponse, Status>>;
type UnderWay = Pin<Box<dyn Future<Output = Done> + Send>>;

/// What came of a piece of work, and the places that its asks took.
struct Done {
    answers: Vec<Answer>,
    _places: Arc<OwnedSemaphorePermit>,
}

/// See the module.
pub(super) struct Conversation<O, L> {
    shared: Arc<Shared<O, L>>,
    requests: Requests,
    responses: Responses,
}

impl<O: Owners, L: Lender> Conversation<O, L> {
    pub(super) const fn new(shared: Arc<Shared<O, L>>, requests: Requests, responses: Responses) -> Self {
        Self { shared, requests, responses }
    }

    /// Talks to the end; a failure is the stream's status.
    pub(super) async fn run(mut self) {
        let meters = Arc::clone(&self.shared.meters);
        meters.streams.inc();
        let ended = self.talk().await;
        meters.streams.dec();
        if let Err(status) = ended {
            if status.code() == tonic::Code::InvalidArgument {
                meters.malformed.inc();
            }
            tracing::debug!(code = ?status.code(), reason = status.message(), "a stream with an edge ended");
            // The edge may be gone, or not reading.
            let _ = timeout(LAST_WORD_MAX, self.responses.send(Err(status))).await;
        }
    }

    async fn talk(&mut self) -> Result<(), Status> {
        let first = timeout(HELLO_MAX, self.requests.message()).await;
        let first = first.map_err(|_| Status::deadline_exceeded("hello: it did not come in time"))??;
        let Some(first) = first else { return Ok(()) };
        let LeaseRequest::Hello(hello) = LeaseRequest::try_from(first).map_err(malformed)? else {
            return Err(status::invalid("hello", "a stream begins with it; say who you are first"));
        };
        let welcome = welcome(&self.shared.greeter, &hello);
        let _greeted = self.shared.names.greet(hello.edge, &hello.name);
        tracing::debug!(name = hello.name, version = hello.version, level = hello.feature_level, "an edge");
        if self.responses.send(Ok(LeaseResponse::Welcome(welcome).into())).await.is_err() {
            return Ok(());
        }
        let mut rules = self.shared.rules.changes();
        rules.mark_changed();
        let mut talk = Talk {
            shared: Arc::clone(&self.shared),
            edge: hello.edge,
            sessions: Sessions::default(),
            under_way: FuturesUnordered::new(),
            open: 0,
            answers: VecDeque::new(),
            rules: None,
            rules_due: false,
            go_away: false,
            asks_end: false,
            leaving: None,
        };
        talk.on(&mut self.requests, &self.responses, rules).await
    }
}

fn welcome(greeter: &Greeter, hello: &Hello) -> Welcome {
    Welcome {
        feature_level: hello.feature_level.min(FEATURE_LEVEL),
        node: greeter.id(),
        node_name: greeter.name.clone(),
        region: greeter.region.clone(),
        asks_max: u32::try_from(ASKS_MAX).unwrap_or(u32::MAX),
    }
}

fn malformed(error: LeaseProtoError) -> Status {
    let (field, problem) = error.parts();
    status::invalid(&field, &problem)
}

/// A stream after its greeting.
struct Talk<O, L> {
    shared: Arc<Shared<O, L>>,
    edge: EdgeId,
    sessions: Sessions,
    under_way: FuturesUnordered<UnderWay>,
    /// Asks whose answer isn't written yet.
    open: usize,
    /// To be written.
    answers: VecDeque<Answer>,
    /// To be written: what is left of a rule set.
    rules: Option<Handout>,
    /// There are newer rules than those written, or being written.
    rules_due: bool,
    /// To be written: that the node stops.
    go_away: bool,
    /// The edge asks nothing more.
    asks_end: bool,
    /// The node stops: then at the latest.
    leaving: Option<Instant>,
}

impl<O: Owners, L: Lender> Talk<O, L> {
    async fn on(
        &mut self,
        requests: &mut Requests,
        responses: &Responses,
        mut rules: watch::Receiver<RulesVersion>,
    ) -> Result<(), Status> {
        let draining = self.shared.draining.clone();
        while !self.is_over() {
            let writes = self.has_something_to_say();
            let leaving = self.leaving;
            let left = async {
                match leaving {
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                request = requests.message(), if !self.asks_end => match request? {
                    Some(request) => self.hear(request.try_into().map_err(malformed)?)?,
                    None => self.asks_end = true,
                },
                Some(done) = self.under_way.next(), if !self.under_way.is_empty() => self.finish(done),
                permit = responses.reserve(), if writes => match (permit, self.next_message()) {
                    (Ok(permit), Some(message)) => permit.send(Ok(message.into())),
                    (Ok(_), None) => {}
                    // The edge is gone.
                    (Err(_), _) => return Ok(()),
                },
                Ok(()) = rules.changed() => {
                    rules.mark_unchanged();
                    self.rules_due = true;
                }
                () = draining.cancelled(), if leaving.is_none() => {
                    self.go_away = true;
                    self.leaving = Some(Instant::now() + LEAVING_MAX);
                }
                () = left => return Err(Status::unavailable("the node stops; try another one")),
                // The edge may go while nothing is to be said.
                () = responses.closed() => return Ok(()),
            }
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.asks_end && self.under_way.is_empty() && self.answers.is_empty()
    }

    fn hear(&mut self, request: LeaseRequest) -> Result<(), Status> {
        match request {
            LeaseRequest::Asks(asks) => self.ask(asks),
            LeaseRequest::Bye => {
                self.asks_end = true;
                Ok(())
            }
            LeaseRequest::Hello(_) => Err(status::invalid("hello", "it was said already")),
            LeaseRequest::Later => Ok(()),
        }
    }

    fn ask(&mut self, asks: Asks) -> Result<(), Status> {
        for settled in &asks.settled {
            self.sessions.note(*settled);
            self.shared.lender.settled(*settled);
        }
        let many = asks.asks.len();
        if self.open + many > ASKS_MAX {
            let text = format!("asks: more than {ASKS_MAX} are unanswered; wait for answers");
            return Err(Status::resource_exhausted(text));
        }
        self.open += many;
        self.count(&asks);
        let places = u32::try_from(many).unwrap_or(u32::MAX);
        let Ok(places) = Arc::clone(&self.shared.asks).try_acquire_many_owned(places) else {
            let overloaded = |tag| unanswered(tag, Unanswered::Overloaded);
            self.answer(asks.asks.iter().map(|ask| overloaded(ask.tag)).collect());
            return Ok(());
        };
        self.begin(asks, Arc::new(places));
        Ok(())
    }

    fn begin(&mut self, asks: Asks, places: Arc<OwnedSemaphorePermit>) {
        let shared = Arc::clone(&self.shared);
        let terms = Terms {
            edge: self.edge,
            shards: shared.owners.shards(),
            reset: shared.greeter.reset,
            patience: PATIENCE_MAX,
            lends: &|key, scope| shared.lender.lends(key, scope),
        };
        let (work, answers) = plan(asks, &self.sessions, &terms);
        self.answer(answers);
        for piece in work {
            let (shared, places) = (Arc::clone(&self.shared), Arc::clone(&places));
            self.under_way.push(Box::pin(async move {
                Done { answers: carry_out(&shared, piece).await, _places: places }
            }));
        }
    }

    /// Takes what is done, with all that is done by now: it goes into one message.
    fn finish(&mut self, done: Done) {
        self.answer(done.answers);
        while let Some(Some(done)) = self.under_way.next().now_or_never() {
            self.answer(done.answers);
        }
    }

    fn answer(&mut self, answers: Vec<Answer>) {
        let meters = &self.shared.meters;
        for answer in answers {
            match &answer.outcome {
                Outcome::Leased { leased, .. } => {
                    meters.grants.inc_by(leased.lease.is_some().into());
                    meters.granted_units.inc_by(leased.granted);
                    meters.sync_units.inc_by(leased.sync);
                }
                Outcome::Unanswered(_) => drop(meters.unanswered.inc()),
                Outcome::Acquired(_) | Outcome::Refunded(_) | Outcome::Reset(_) | Outcome::Refused(_) => {}
            }
            self.answers.push_back(answer);
        }
    }

    fn count(&self, asks: &Asks) {
        let leases = asks.asks.iter().filter(|ask| matches!(ask.what, What::Lease(_))).count();
        let count = |many: usize| u64::try_from(many).unwrap_or(u64::MAX);
        self.shared.meters.asks.inc_by(count(leases));
        self.shared.meters.exact.inc_by(count(asks.asks.len() - leases));
    }

    fn has_something_to_say(&self) -> bool {
        !self.answers.is_empty() || self.go_away || self.rules_due || self.rules.is_some()
    }

    /// Answers first: somebody waits for them.
    fn next_message(&mut self) -> Option<LeaseResponse> {
        if !self.answers.is_empty() {
            return Some(LeaseResponse::Answers(self.next_answers()));
        }
        if std::mem::take(&mut self.go_away) {
            return Some(LeaseResponse::GoAway);
        }
        if self.rules.is_none() && std::mem::take(&mut self.rules_due) {
            let home = self.shared.owners.home();
            self.rules = self.shared.rules.active().map(|active| Handout::new(active, home));
        }
        let message = self.rules.as_mut().map(Handout::next);
        self.rules.take_if(|handout| handout.is_over());
        message
    }

    /// As many as one message takes.
    fn next_answers(&mut self) -> Vec<Answer> {
        let (mut parts, mut many) = (0, 0);
        for answer in &self.answers {
            parts += weight(&answer.outcome);
            if many > 0 && parts > PARTS_PER_MESSAGE_MAX {
                break;
            }
            many += 1;
        }
        self.open -= many;
        self.answers.drain(..many).collect()
    }
}

fn weight(outcome: &Outcome) -> usize {
    1 + match outcome {
        Outcome::Acquired(acquired) => acquired.decisions.len(),
        Outcome::Refunded(units) => units.len(),
        Outcome::Leased { .. } | Outcome::Reset(_) | Outcome::Refused(_) | Outcome::Unanswered(_) => 0,
    }
}

async fn carry_out<O: Owners, L: Lender>(shared: &Shared<O, L>, work: Work) -> Vec<Answer> {
    let now = Instant::now();
    match work {
        Work::Apply { tags, batch, within } => {
            let replies = shared.owners.apply(batch, now + within).await;
            answers(&tags, replies)
        }
        Work::Look { tag, limits, acquire, within } => {
            let reply = shared.owners.look(limits, acquire, now + within).await;
            answers(&[tag], reply.map(|reply| vec![reply]))
        }
        Work::Lend { tag, ask, within } => {
            vec![Answer { tag, outcome: shared.lender.lend(ask, now + within).await }]
        }
    }
}

fn answers(tags: &[u64], replies: Result<Vec<Reply>, ProposeError>) -> Vec<Answer> {
    match replies {
        Ok(replies) if replies.len() == tags.len() => {
            let told = tags.iter().zip(replies);
            told.map(|(&tag, reply)| Answer { tag, outcome: outcome(reply) }).collect()
        }
        Ok(_) | Err(ProposeError::Unreachable) => {
            tags.iter().map(|&tag| unanswered(tag, Unanswered::Unreachable)).collect()
        }
        Err(ProposeError::Overloaded(_)) => {
            tags.iter().map(|&tag| unanswered(tag, Unanswered::Overloaded)).collect()
        }
    }
}

fn outcome(reply: Reply) -> Outcome {
    match reply {
        Reply::Leased(leased) => Outcome::Leased { leased, slot_parts: 1 },
        Reply::Acquired(acquired) => Outcome::Acquired(acquired),
        Reply::Refunded(units) => Outcome::Refunded(units),
        Reply::Reset(held) => Outcome::Reset(held),
        Reply::Refused(refusal) => Outcome::Refused(refusal),
    }
}

const fn unanswered(tag: u64, why: Unanswered) -> Answer {
    Answer { tag, outcome: Outcome::Unanswered(why) }
}
