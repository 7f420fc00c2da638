//! The items of a batch: begun in order, decided at the same time.
//!
//! Invariant: an item begins when every one before it has begun, so that asks of one counter keep their order; results
//! stand in the items' places. A decision that waits for nothing is taken before the next item begins, as on one node.
//! What waits is bounded, in one batch and in all of them: the rest of a batch hasn't begun, and its time doesn't run.

use std::future::Future;
use std::task::Poll;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Semaphore;

use crate::bounds::BATCH_LIMITS_TOLD_MAX;

/// Items of one batch that wait for their decision at a time; the next begins when one of them has it. Enough that a
/// batch lasts as long as a few commits, few enough that one caller can't fill a shard's queue.
const UNDER_WAY_MAX: usize = 256;
/// The same over all batches of a process, whose doors share the queues behind them. At the bound a batch goes on when an
/// item of another one has its decision. Begun all at once, the items of many large batches would be older than their
/// callers' patience before their turn came: they would be given up, asked again, and hardly one answered. Three nodes
/// on a crowded machine were seen to decide 2,500 a second.
const UNDER_WAY_IN_ALL_MAX: usize = 512;

static PLACES: Semaphore = Semaphore::const_new(UNDER_WAY_IN_ALL_MAX);

/// Decides items until the answer is full: `told` counts the limits that a result tells of, and what comes after
/// [`BATCH_LIMITS_TOLD_MAX`] of them is `full` instead. What is under way then is told as well.
pub(crate) async fn decide<T, F: Future<Output = T>>(
    items: impl ExactSizeIterator<Item = F>,
    told: impl Fn(&T) -> usize,
    full: impl Fn() -> T,
) -> Vec<T> {
    decide_within(&PLACES, items, told, full).await
}

async fn decide_within<T, F: Future<Output = T>>(
    places: &Semaphore,
    items: impl ExactSizeIterator<Item = F>,
    told: impl Fn(&T) -> usize,
    full: impl Fn() -> T,
) -> Vec<T> {
    let mut results: Vec<Option<T>> = Vec::with_capacity(items.len());
    let mut under_way = FuturesUnordered::new();
    let mut limits = 0;
    for (place, item) in items.enumerate() {
        let room = loop {
            if limits >= BATCH_LIMITS_TOLD_MAX {
                break None;
            }
            if under_way.len() < UNDER_WAY_MAX
                && let Ok(room) = places.try_acquire()
            {
                break Some(room);
            }
            match under_way.next().await {
                Some((place, result)) => {
                    limits += told(&result);
                    results[place] = Some(result);
                }
                None => break Some(places.acquire().await.expect("places are never closed")),
            }
        };
        let Some(room) = room else {
            results.push(Some(full()));
            continue;
        };
        let mut item = Box::pin(item);
        match futures_util::poll!(item.as_mut()) {
            Poll::Ready(result) => {
                limits += told(&result);
                results.push(Some(result));
            }
            Poll::Pending => {
                results.push(None);
                under_way.push(async move {
                    let _room = room;
                    (place, item.await)
                });
            }
        }
    }
    while let Some((place, result)) = under_way.next().await {
        results[place] = Some(result);
    }
    results.into_iter().map(|result| result.expect("every item has begun and ended")).collect()
}

#[cfg(test)]
mod tests;
