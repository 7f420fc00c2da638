//! Carries asks of a shard that this node leads into its log.
//!
//! Invariant: what is answered without an entry was read from the applied state, under a lease that still held afterwards. It
//! waits for no entry.
//! An acquire is one of many independent asks: when it is answered so, it may be decided as of before the others of its
//! batch. Refunds and resets, and what shares a batch with them, always go into the log.

use std::sync::{Arc, OnceLock};

use leasehold_consensus::types::GroupId;
use leasehold_model::Stamp;
use leasehold_shard::{Batch, Bounds, Command, Reply};
use leasehold_wire::entry;
use tokio::time::Instant;

use crate::attempt::AttemptError;
use crate::counts::Meters;
use crate::lane::{Carry, Item, answer_all};
use crate::local_groups::LocalGroups;
use crate::machine::ShardMachine;
use crate::merge::{Part, merge};
use crate::sessions::Session;

/// What one lane of a led shard needs.
#[derive(Debug)]
pub(crate) struct Proposer {
    pub(crate) group: GroupId,
    pub(crate) local: Arc<LocalGroups>,
    pub(crate) session: Arc<Session>,
    pub(crate) meters: Arc<Meters>,
    /// What this node's machines are bounded by, once one was looked at.
    pub(crate) bounds: OnceLock<Bounds>,
}

impl Carry for Proposer {
    const RESTS: bool = true;

    fn sift(&self, items: Vec<Item>) -> Vec<Item> {
        let Some(known) = self.look(&items) else {
            answer_all(items, Err(AttemptError::NotLeader));
            return Vec::new();
        };
        let mut open = Vec::with_capacity(items.len());
        for (mut item, known) in items.into_iter().zip(known) {
            match all(known) {
                Ok(replies) => item.answer(Ok(replies)),
                Err(known) => {
                    item.known = known;
                    open.push(item);
                }
            }
        }
        open
    }

    /// Puts into the log what has no reply yet.
    async fn carry(&self, mut items: Vec<Item>) {
        let Some(deadline) = items.iter().map(|item| item.deadline).max() else { return };
        let own = Batch { settled: self.session.settled().into_iter().collect(), ..Batch::default() };
        let known: Vec<_> = items.iter_mut().map(|item| std::mem::take(&mut item.known)).collect();
        let parts = items.iter().zip(known).map(|(item, known)| Part { batch: &item.batch, known });
        let (mut batch, cuts) = merge(parts.chain([Part::unknown(&own)]));
        batch.bounds = self.bounds.get().copied();
        let outcome = self.propose(&batch, deadline).await;
        let answers = outcome.and_then(|replies| {
            cuts.cut(replies).ok_or_else(|| {
                tracing::error!(
                    group = self.group.0,
                    "an entry has another number of answers than of commands"
                );
                AttemptError::Unknown
            })
        });
        answer_all(items, answers);
    }
}

impl Proposer {
    /// For each item, the replies that need no entry. None when this replica doesn't serve.
    fn look(&self, items: &[Item]) -> Option<Vec<Vec<Option<Reply>>>> {
        let at = self.local.stamp(self.group)?;
        let known = self.local.runner.with_machine(self.group, |machine: &ShardMachine| {
            self.bounds.get_or_init(|| machine.bounds());
            items.iter().map(|item| settled(machine, &item.batch, at)).collect()
        });
        let known: Vec<Vec<Option<Reply>>> = known.filter(|_| self.local.serves(self.group))?;
        Meters::count_all(&self.meters.unlogged, known.iter().flatten().flatten().count());
        Some(known)
    }

    async fn propose(&self, batch: &Batch, deadline: Instant) -> Result<Vec<Reply>, AttemptError> {
        let at = self.local.stamp(self.group).ok_or(AttemptError::NotLeader)?;
        let entry = entry::encode_entry(at, batch);
        let replies: Vec<Reply> = self.local.propose(self.group, entry, deadline).await?;
        Meters::count(&self.meters.entries);
        Meters::count_all(&self.meters.commands, batch.commands.len());
        Ok(replies)
    }
}

/// All replies, if every command has one. A tick has none, and needs its entry.
fn all(known: Vec<Option<Reply>>) -> Result<Vec<Reply>, Vec<Option<Reply>>> {
    if known.is_empty() || known.iter().any(Option::is_none) {
        return Err(known);
    }
    Ok(known.into_iter().flatten().collect())
}

fn settled(machine: &ShardMachine, batch: &Batch, at: Stamp) -> Vec<Option<Reply>> {
    let asks = |command: &Command| matches!(command, Command::Acquire(_) | Command::Lease(_));
    if !batch.commands.iter().all(asks) {
        return vec![None; batch.commands.len()];
    }
    let settled = batch.commands.iter().map(|command| match command {
        Command::Acquire(acquire) => machine.shard.settled(&batch.limits, acquire, at),
        Command::Lease(lease) => machine.shard.settled_lease(&batch.limits, lease, at),
        Command::Refund(_) | Command::Reset(_) => None,
    });
    settled.collect()
}
