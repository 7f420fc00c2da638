//! Lanes that carry to a place that tests open and close.

use leasehold_shard::Reset;
use parking_lot::Mutex;
use tokio::time::sleep;

use super::*;

/// Notes what it carries; answers once it may.
#[derive(Debug)]
struct Carrier {
    carried: Mutex<Vec<usize>>,
    may: Semaphore,
}

impl Carrier {
    fn new(may: usize) -> Arc<Self> {
        Arc::new(Self { carried: Mutex::default(), may: Semaphore::new(may) })
    }

    fn lane(self: &Arc<Self>) -> Lane {
        Lane::start(Arc::clone(self), IDLE_MAX, CancellationToken::new())
    }

    async fn carries(&self, messages: &[usize]) {
        while *self.carried.lock() != messages {
            sleep(Duration::from_millis(1)).await;
        }
    }
}

impl Carry for Carrier {
    const UNDER_WAY_MAX: usize = 2;

    async fn carry(&self, items: Vec<Item>) {
        self.carried.lock().push(items.len());
        self.may.acquire().await.unwrap().forget();
        let replies = items.iter().map(|item| vec![Reply::Reset(0); item.batch.commands.len()]).collect();
        answer_all(items, Ok(replies));
    }
}

fn batch(commands: usize) -> Arc<Batch> {
    let reset = Command::Reset(Reset { keys: Vec::new() });
    Arc::new(Batch { commands: vec![reset; commands], ..Batch::default() })
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

#[tokio::test]
async fn what_arrives_while_messages_are_under_way_goes_into_the_next_one() {
    let carrier = Carrier::new(0);
    let lane = carrier.lane();
    let mut answers = Vec::new();
    for messages in [vec![1], vec![1, 1]] {
        answers.push(lane.put(&batch(1), soon()).unwrap());
        carrier.carries(&messages).await;
    }
    answers.extend((0..50).map(|_| lane.put(&batch(1), soon()).unwrap()));
    sleep(Duration::from_millis(20)).await;
    carrier.carries(&[1, 1]).await;
    carrier.may.add_permits(3);
    for answer in answers {
        assert_eq!(answer.await.unwrap(), Ok(vec![Reply::Reset(0)]));
    }
    carrier.carries(&[1, 1, 50]).await;
}

#[tokio::test]
async fn a_message_has_no_more_commands_than_its_bound_and_none_is_lost_over_it() {
    let carrier = Carrier::new(1000);
    let lane = carrier.lane();
    let answers: Vec<_> = (0..10).map(|_| lane.put(&batch(300), soon()).unwrap()).collect();
    for answer in answers {
        assert_eq!(answer.await.unwrap().unwrap().len(), 300);
    }
    assert_eq!(*carrier.carried.lock(), [3, 3, 3, 1]);
}

#[tokio::test]
async fn beyond_the_bound_nothing_more_waits() {
    let carrier = Carrier::new(0);
    let lane = carrier.lane();
    let _waits = lane.put(&batch(COMMANDS_WAITING_MAX), soon()).unwrap();
    assert_eq!(lane.put(&batch(1), soon()).unwrap_err(), Refused::Full);
    carrier.may.add_permits(1);
    while lane.put(&batch(1), soon()).is_err() {
        sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn an_item_whose_deadline_has_passed_is_dropped_unanswered() {
    let carrier = Carrier::new(9);
    let lane = carrier.lane();
    let late = lane.put(&batch(1), Instant::now()).unwrap();
    let fine = lane.put(&batch(1), soon()).unwrap();
    assert!(late.await.is_err());
    assert!(fine.await.unwrap().is_ok());
}

#[tokio::test]
async fn an_idle_lane_ends() {
    let carrier = Carrier::new(9);
    let lane = Lane::start(Arc::clone(&carrier), Duration::from_millis(20), CancellationToken::new());
    assert!(lane.put(&batch(1), soon()).unwrap().await.unwrap().is_ok());
    while Arc::strong_count(&carrier) > 1 {
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(lane.put(&batch(1), soon()).unwrap_err(), Refused::Ended);
}

#[tokio::test]
async fn a_stopped_lane_leaves_nobody_waiting() {
    let (carrier, stop) = (Carrier::new(0), CancellationToken::new());
    let lane = Lane::start(Arc::clone(&carrier), IDLE_MAX, stop.clone());
    let answers: Vec<_> = (0..9).map(|_| lane.put(&batch(1), soon()).unwrap()).collect();
    carrier.carries(&[9]).await;
    let waiting = lane.put(&batch(1), soon()).unwrap();
    stop.cancel();
    for answer in answers.into_iter().chain([waiting]) {
        assert!(answer.await.is_err());
    }
}
