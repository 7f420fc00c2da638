//! The items of a batch: begun in order, decided at the same time.
//!
//! Invariant: an item begins when every one before it has begun, so that asks of one counter keep their order; results
//! stand in the items' places. A decision that waits for nothing is taken before the next item begins, as on one node.

use std::future::Future;
use std::task::Poll;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use crate::bounds::BATCH_LIMITS_TOLD_MAX;

/// Items of one batch that wait for their decision at a time; the next begins when one of them has it. Enough that a
/// batch lasts as long as a few commits, few enough that one caller can't fill a shard's queue.
const UNDER_WAY_MAX: usize = 256;

/// Decides items until the answer is full: `told` counts the limits that a result tells of, and what comes after
/// [`BATCH_LIMITS_TOLD_MAX`] of them is `full` instead. What is under way then is told as well.
pub(crate) async fn decide<T, F: Future<Output = T>>(
    items: impl ExactSizeIterator<Item = F>,
    told: impl Fn(&T) -> usize,
    full: impl Fn() -> T,
) -> Vec<T> {
    let mut results: Vec<Option<T>> = Vec::with_capacity(items.len());
    let mut under_way = FuturesUnordered::new();
    let mut limits = 0;
    for (place, item) in items.enumerate() {
        while under_way.len() >= UNDER_WAY_MAX
            && let Some((place, result)) = under_way.next().await
        {
            limits += told(&result);
            results[place] = Some(result);
        }
        if limits >= BATCH_LIMITS_TOLD_MAX {
            results.push(Some(full()));
            continue;
        }
        let mut item = Box::pin(item);
        match futures_util::poll!(item.as_mut()) {
            Poll::Ready(result) => {
                limits += told(&result);
                results.push(Some(result));
            }
            Poll::Pending => {
                results.push(None);
                under_way.push(async move { (place, item.await) });
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
