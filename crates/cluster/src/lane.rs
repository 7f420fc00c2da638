//! A queue that batches by back-pressure: one message is under way at a time, and what arrives meanwhile goes into the next
//! one; when that has grown long it doesn't wait either. Nobody waits for a timer but where there is much to do, and then no
//! longer than [`REST`].
//!
//! Invariant: what waits and what is under way is bounded. Each item is answered by its lane or dropped, which tells the
//! waiter the same as an unknown outcome; one whose deadline has passed is dropped before anything is done for it.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use leasehold_shard::{Batch, Command, Reply};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::attempt::AttemptError;

/// Commands that wait in one lane or are under way from it. At the bound further ones are refused as overloaded: that is
/// some 100 ms of work for one shard, and who waits longer has no use for the answer.
pub(crate) const COMMANDS_WAITING_MAX: usize = 8 << 10;
/// Commands of one message; further ones go into the next.
pub(crate) const COMMANDS_PER_MESSAGE_MAX: usize = 1 << 10;
/// So many commands don't wait for the message under way: they are worth one of their own. Fewer would only make both smaller,
/// and what a message costs hardly depends on how many commands it has.
const COMMANDS_WORTH_A_MESSAGE: usize = 1 << 8;
/// Messages under way at a time.
const UNDER_WAY_MAX: usize = 2;
/// A lane of a busy place rests so long after a message: those who were answered just now, here or on other nodes, ask again
/// in this time, and all of them share the next message. Else two halves of them would take turns.
const REST: Duration = Duration::from_millis(1);
/// The place is busy when a message of several items took this long: beside it a rest is short.
const BUSY: Duration = Duration::from_millis(2);
/// Parts of one message (see [`weight`]), at some 60 bytes each: half of what an entry may have.
const WEIGHT_PER_MESSAGE_MAX: usize = 32 << 10;
/// A lane that has had nothing to do for so long ends; the next item starts it anew.
pub(crate) const IDLE_MAX: Duration = Duration::from_secs(10);

/// What became of one attempt.
pub(crate) type Attempt = Result<Vec<Reply>, AttemptError>;

/// A batch on its way through a lane.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) batch: Arc<Batch>,
    pub(crate) deadline: Instant,
    /// Replies that need no message: one place a command. Empty: there are none.
    pub(crate) known: Vec<Option<Reply>>,
    answer: oneshot::Sender<Attempt>,
    _room: OwnedSemaphorePermit,
}

impl Item {
    /// Its waiter may be gone.
    pub(crate) fn answer(self, attempt: Attempt) {
        let _ = self.answer.send(attempt);
    }
}

/// Gives each item its own replies, or all of them the same refusal.
pub(crate) fn answer_all(items: Vec<Item>, outcome: Result<Vec<Vec<Reply>>, AttemptError>) {
    match outcome {
        Ok(replies) => items.into_iter().zip(replies).for_each(|(item, replies)| item.answer(Ok(replies))),
        Err(failed) => items.into_iter().for_each(|item| item.answer(Err(failed))),
    }
}

/// Carries what was taken together to where it is answered.
pub(crate) trait Carry: Send + Sync + 'static {
    /// Whether others that ask of the same place share its messages: then a busy lane rests between two.
    const RESTS: bool;

    /// Answers what needs no message, and returns the rest.
    fn sift(&self, items: Vec<Item>) -> Vec<Item> {
        items
    }

    /// Answers each item, or drops it. Ends by itself: a lane waits for it.
    fn carry(&self, items: Vec<Item>) -> impl Future<Output = ()> + Send;
}

/// The end that items are put in.
#[derive(Debug)]
pub(crate) struct Lane {
    items: mpsc::Sender<Item>,
    room: Arc<Semaphore>,
}

/// Why an item wasn't taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Too much waits.
    Full,
    /// The lane has ended: start another.
    Ended,
}

impl Lane {
    /// A lane that runs until nothing has come for `idle`, or `stop`.
    pub(crate) fn start<C: Carry>(carry: Arc<C>, idle: Duration, stop: CancellationToken) -> Self {
        let (items, taken) = mpsc::channel(COMMANDS_WAITING_MAX);
        tokio::spawn(async move { stop.run_until_cancelled(run(&*carry, taken, idle)).await });
        Self { items, room: Arc::new(Semaphore::new(COMMANDS_WAITING_MAX)) }
    }

    /// Puts a batch in; its answer arrives there. An answer that never arrives is an unknown outcome.
    pub(crate) fn put(
        &self,
        batch: &Arc<Batch>,
        deadline: Instant,
    ) -> Result<oneshot::Receiver<Attempt>, Refused> {
        let commands = u32::try_from(batch.commands.len().max(1)).map_err(|_| Refused::Full)?;
        let room = Arc::clone(&self.room).try_acquire_many_owned(commands).map_err(|_| Refused::Full)?;
        let (answer, answered) = oneshot::channel();
        let item = Item { batch: Arc::clone(batch), deadline, known: Vec::new(), answer, _room: room };
        match self.items.try_send(item) {
            Ok(()) => Ok(answered),
            Err(mpsc::error::TrySendError::Full(_)) => Err(Refused::Full),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(Refused::Ended),
        }
    }
}

async fn run<C: Carry>(carry: &C, mut items: mpsc::Receiver<Item>, idle: Duration) {
    let mut under_way = FuturesUnordered::new();
    let mut waiting = Waiting::default();
    let mut arrived = Vec::new();
    let mut open = true;
    let mut rest = Rest::new();
    loop {
        let at_rest = under_way.is_empty() && waiting.items.is_empty();
        tokio::select! {
            biased;
            Some(()) = under_way.next() => {
                if C::RESTS {
                    rest.begin();
                }
            }
            () = sleep_until(rest.until), if under_way.is_empty() && !waiting.items.is_empty() => {}
            count = items.recv_many(&mut arrived, COMMANDS_WAITING_MAX), if open => open = count > 0,
            // What was put in meanwhile is still received.
            () = sleep(idle), if open && at_rest => items.close(),
            else => return,
        }
        // Others that are about to put something in do so now.
        tokio::task::yield_now().await;
        while let Ok(item) = items.try_recv() {
            arrived.push(item);
        }
        if !arrived.is_empty() {
            waiting.add(carry.sift(std::mem::take(&mut arrived)));
        }
        while waiting.may_leave(under_way.len(), rest.is_on()) {
            let message = waiting.gather();
            rest.message(message.len());
            under_way.push(carry.carry(message));
        }
    }
}

/// The pause after a message.
struct Rest {
    /// When the newest message left, and with how many items.
    left: Instant,
    items: usize,
    until: Instant,
}

impl Rest {
    fn new() -> Self {
        let now = Instant::now();
        Self { left: now, items: 0, until: now }
    }

    fn message(&mut self, items: usize) {
        (self.left, self.items) = (Instant::now(), items);
    }

    /// A message was answered.
    fn begin(&mut self) {
        let now = Instant::now();
        if self.items > 1 && now - self.left >= BUSY {
            self.until = now + REST;
        }
    }

    fn is_on(&self) -> bool {
        Instant::now() < self.until
    }
}

/// What waits for its message.
#[derive(Default)]
struct Waiting {
    items: VecDeque<Item>,
    commands: usize,
}

impl Waiting {
    fn add(&mut self, items: Vec<Item>) {
        self.commands += items.iter().map(|item| item.batch.commands.len()).sum::<usize>();
        self.items.extend(items);
    }

    fn may_leave(&self, under_way: usize, resting: bool) -> bool {
        match under_way {
            0 if !resting => !self.items.is_empty(),
            _ => under_way < UNDER_WAY_MAX && self.commands >= COMMANDS_WORTH_A_MESSAGE,
        }
    }

    /// The first of them, up to a message's bounds. Those whose deadline has passed are dropped.
    fn gather(&mut self) -> Vec<Item> {
        let now = Instant::now();
        let (mut taken, mut commands, mut weights) = (Vec::new(), 0, 0);
        while let Some(item) = self.items.front() {
            let (more, weight) = (item.batch.commands.len(), weight(&item.batch));
            let full =
                commands + more > COMMANDS_PER_MESSAGE_MAX || weights + weight > WEIGHT_PER_MESSAGE_MAX;
            if full && !taken.is_empty() {
                break;
            }
            self.commands -= more;
            let item = self.items.pop_front().expect("it is the one looked at");
            if item.deadline > now {
                commands += more;
                weights += weight;
                taken.push(item);
            }
        }
        taken
    }
}

/// Whether a batch fits into a message at all.
pub(crate) fn fits(batch: &Batch) -> bool {
    batch.commands.len() <= COMMANDS_WAITING_MAX && weight(batch) <= WEIGHT_PER_MESSAGE_MAX
}

/// In parts of similar size: commands, what they name, and limits.
fn weight(batch: &Batch) -> usize {
    let named = |command: &Command| match command {
        Command::Acquire(acquire) => acquire.demands.len(),
        Command::Refund(refund) => refund.items.len(),
        Command::Reset(reset) => reset.keys.len(),
        Command::Lease(lease) => lease.ask.usage.len() + 1,
    };
    let limits = batch.limits.len() * 2;
    batch.commands.iter().map(|command| named(command) + 1).sum::<usize>() + limits + batch.settled.len()
}

#[cfg(test)]
mod tests;
