//! Many batches become one, and its replies go back to where their commands came from. Pure.
//!
//! Invariant: commands keep their order and mean what they meant; each reply returns to its own batch, in its own place. A
//! command that was answered before isn't in the merged batch at all.

use std::collections::BTreeMap;

use leasehold_shard::{Batch, Command, LimitSpec, Reply, Settled};

/// One batch to be merged, and the replies that are known already: one place for each command.
#[derive(Debug)]
pub(crate) struct Part<'a> {
    pub(crate) batch: &'a Batch,
    pub(crate) known: Vec<Option<Reply>>,
}

/// Where the replies to a merged batch belong.
#[derive(Debug)]
pub(crate) struct Cuts {
    left: usize,
    known: Vec<Vec<Option<Reply>>>,
}

impl<'a> Part<'a> {
    /// A batch of which nothing is known yet.
    pub(crate) fn unknown(batch: &'a Batch) -> Self {
        Self { batch, known: vec![None; batch.commands.len()] }
    }
}

/// One batch of all commands that have no reply, with each distinct limit once, and the furthest that each session has
/// settled.
pub(crate) fn merge<'a>(parts: impl IntoIterator<Item = Part<'a>>) -> (Batch, Cuts) {
    let mut merging = Merging::default();
    let mut known = Vec::new();
    for part in parts {
        merging.add(part.batch, &part.known);
        known.push(part.known);
    }
    let settled = merging.settled.into_iter().map(|(session, below)| Settled { session, below });
    let batch = Batch {
        limits: merging.limits,
        commands: merging.commands,
        settled: settled.collect(),
        bounds: None,
    };
    let left = batch.commands.len();
    (batch, Cuts { left, known })
}

impl Cuts {
    /// The replies of each part, when `replies` are one for each command that was left. None when they aren't.
    pub(crate) fn cut(self, replies: Vec<Reply>) -> Option<Vec<Vec<Reply>>> {
        if replies.len() != self.left {
            return None;
        }
        let mut replies = replies.into_iter();
        let mut whole = |part: Vec<Option<Reply>>| {
            part.into_iter().map(|known| known.or_else(|| replies.next())).collect::<Option<Vec<_>>>()
        };
        self.known.into_iter().map(&mut whole).collect()
    }
}

#[derive(Default)]
struct Merging<'a> {
    limits: Vec<LimitSpec>,
    places: BTreeMap<&'a LimitSpec, u32>,
    commands: Vec<Command>,
    settled: BTreeMap<u128, u64>,
}

impl<'a> Merging<'a> {
    fn add(&mut self, batch: &'a Batch, known: &[Option<Reply>]) {
        for settled in &batch.settled {
            let below = self.settled.entry(settled.session).or_default();
            *below = settled.below.max(*below);
        }
        let mut places = vec![None; batch.limits.len()];
        for (command, known) in batch.commands.iter().zip(known) {
            if known.is_some() {
                continue;
            }
            let mut command = command.clone();
            match &mut command {
                Command::Acquire(acquire) => {
                    for demand in &mut acquire.demands {
                        demand.limit = self.place(batch, demand.limit, &mut places);
                    }
                }
                Command::Lease(lease) => lease.limit = self.place(batch, lease.limit, &mut places),
                Command::Refund(_) | Command::Reset(_) => {}
            }
            self.commands.push(command);
        }
    }

    /// Where a limit of `batch` stands in the merged batch. What points nowhere goes on pointing nowhere.
    fn place(&mut self, batch: &'a Batch, limit: u32, places: &mut [Option<u32>]) -> u32 {
        let Some(limit) = usize::try_from(limit).ok().filter(|&at| at < batch.limits.len()) else {
            return u32::MAX;
        };
        *places[limit].get_or_insert_with(|| {
            let spec = &batch.limits[limit];
            *self.places.entry(spec).or_insert_with(|| {
                self.limits.push(spec.clone());
                u32::try_from(self.limits.len() - 1).unwrap_or(u32::MAX)
            })
        })
    }
}

#[cfg(test)]
mod tests;
