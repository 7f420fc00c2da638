//! In which order the items of a batch begin, and where their results stand.

use std::cell::RefCell;
use std::time::Duration;

use super::*;

fn none_told(_: &usize) -> usize {
    0
}

#[tokio::test]
async fn items_begin_in_order_and_wait_at_the_same_time() {
    let begun = RefCell::new(Vec::new());
    let item = |place: usize| {
        let begun = &begun;
        async move {
            begun.borrow_mut().push(place);
            // The later it begins, the sooner it ends.
            tokio::time::sleep(Duration::from_millis(100 - u64::try_from(place).expect("small"))).await;
            place
        }
    };
    let start = tokio::time::Instant::now();
    let results = decide((0..50).map(item), none_told, || unreachable!("it is never full")).await;
    assert!(results.iter().copied().eq(0..50));
    assert!(begun.borrow().iter().copied().eq(0..50));
    // One after the other they would take almost four seconds.
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

/// How many wait now, and how many did at most.
#[derive(Default)]
struct Waiting(RefCell<(usize, usize)>);

impl Waiting {
    async fn wait(&self, place: usize) -> usize {
        let now = self.0.borrow().0 + 1;
        let most = self.0.borrow().1.max(now);
        *self.0.borrow_mut() = (now, most);
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.0.borrow_mut().0 -= 1;
        place
    }
}

async fn decide_in(places: &Semaphore, waiting: &Waiting) -> Vec<usize> {
    let items = (0..1_000).map(|place| waiting.wait(place));
    decide_within(places, items, none_told, || unreachable!("it is never full")).await
}

#[tokio::test]
async fn no_more_than_the_bound_wait_at_a_time() {
    let (places, waiting) = (Semaphore::new(UNDER_WAY_MAX * 2), Waiting::default());
    assert!(decide_in(&places, &waiting).await.into_iter().eq(0..1_000));
    assert_eq!(*waiting.0.borrow(), (0, UNDER_WAY_MAX));
}

#[tokio::test]
async fn batches_share_their_places_and_all_of_them_end() {
    let (places, waiting) = (Semaphore::new(30), Waiting::default());
    let batches = (0..5).map(|_| decide_in(&places, &waiting));
    for results in futures_util::future::join_all(batches).await {
        assert!(results.into_iter().eq(0..1_000));
    }
    assert_eq!(*waiting.0.borrow(), (0, 30));
}

#[tokio::test]
async fn an_item_that_waits_for_nothing_keeps_no_place() {
    let places = Semaphore::new(1);
    let results =
        decide_within(&places, (0..1_000).map(std::future::ready), none_told, || unreachable!()).await;
    assert!(results.into_iter().eq(0..1_000));
}

#[tokio::test]
async fn what_comes_after_a_full_answer_is_not_begun() {
    let begun = RefCell::new(0);
    let item = |_| {
        let begun = &begun;
        async move {
            *begun.borrow_mut() += 1;
            BATCH_LIMITS_TOLD_MAX / 2
        }
    };
    let results = decide((0..5).map(item), |told| *told, || 7).await;
    assert_eq!(results, [BATCH_LIMITS_TOLD_MAX / 2, BATCH_LIMITS_TOLD_MAX / 2, 7, 7, 7]);
    assert_eq!(*begun.borrow(), 2);
}
