//! A queue that batches by back-pressure: a few messages are under way at a time, and what arrives meanwhile goes into the
//! next one. No timer makes anybody wait.
//!
//! Invariant: what waits and what is under way is bounded. Each item is answered by its lane or dropped, which tells the
//! waiter the same as an unknown outcome; one whose deadline has passed is dropped before anything is done for it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use leasehold_shard::{Batch, Command, Reply};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::attempt::AttemptError;

/// Commands that wait in one lane or are under way from it. At the bound further ones are refused as overloaded: that is
/// some 100 ms of work for one shard, and who waits longer has no use for the answer.
pub(crate) const COMMANDS_WAITING_MAX: usize = 8 << 10;
/// Commands of one message; further ones go into the next.
pub(crate) const COMMANDS_PER_MESSAGE_MAX: usize = 1 << 10;
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
    answer: oneshot::Sender<Attempt>,
    _room: OwnedSemaphorePermit,
}

impl Item {
    /// Its waiter may be gone.
    fn answer(self, attempt: Attempt) {
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
    /// Messages under way at a time.
    const UNDER_WAY_MAX: usize;

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
        tokio::spawn(async move { stop.clone().run_until_cancelled(run(carry, taken, idle, stop)).await });
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
        let item = Item { batch: Arc::clone(batch), deadline, answer, _room: room };
        match self.items.try_send(item) {
            Ok(()) => Ok(answered),
            Err(mpsc::error::TrySendError::Full(_)) => Err(Refused::Full),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(Refused::Ended),
        }
    }
}

async fn run<C: Carry>(
    carry: Arc<C>,
    mut items: mpsc::Receiver<Item>,
    idle: Duration,
    stop: CancellationToken,
) {
    let slots = Arc::new(Semaphore::new(C::UNDER_WAY_MAX));
    let mut held_over = None;
    loop {
        let slot = Arc::clone(&slots).acquire_owned().await.expect("nobody closes it");
        let first = match held_over.take() {
            Some(item) => item,
            None => match timeout(idle, items.recv()).await {
                Ok(Some(item)) => item,
                Ok(None) => return,
                // What was put in meanwhile is still received.
                Err(_) => {
                    items.close();
                    continue;
                }
            },
        };
        let taken = gather(first, &mut items, &mut held_over);
        let (carry, stop) = (Arc::clone(&carry), stop.clone());
        tokio::spawn(async move {
            let _slot = slot;
            stop.run_until_cancelled(carry.carry(taken)).await;
        });
    }
}

/// What waits, up to a message's bounds.
fn gather(first: Item, items: &mut mpsc::Receiver<Item>, held_over: &mut Option<Item>) -> Vec<Item> {
    let now = Instant::now();
    let (mut commands, mut weights) = (first.batch.commands.len(), weight(&first.batch));
    let mut taken = vec![first];
    while let Ok(item) = items.try_recv() {
        commands += item.batch.commands.len();
        weights += weight(&item.batch);
        if commands > COMMANDS_PER_MESSAGE_MAX || weights > WEIGHT_PER_MESSAGE_MAX {
            *held_over = Some(item);
            break;
        }
        taken.push(item);
    }
    taken.retain(|item| item.deadline > now);
    taken
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
