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
    const RESTS: bool = true;

    /// What asks for nothing needs no message.
    fn sift(&self, items: Vec<Item>) -> Vec<Item> {
        let (open, known) = items.into_iter().partition(|item| !item.batch.commands.is_empty());
        let known: Vec<Item> = known;
        known.into_iter().for_each(|item| item.answer(Ok(Vec::new())));
        open
    }

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
async fn what_arrives_while_a_message_is_under_way_goes_into_the_next_one() {
    let carrier = Carrier::new(0);
    let lane = carrier.lane();
    let mut answers = vec![lane.put(&batch(1), soon()).unwrap()];
    carrier.carries(&[1]).await;
    answers.extend((0..50).map(|_| lane.put(&batch(1), soon()).unwrap()));
    sleep(Duration::from_millis(20)).await;
    carrier.carries(&[1]).await;
    carrier.may.add_permits(2);
    for answer in answers {
        assert_eq!(answer.await.unwrap(), Ok(vec![Reply::Reset(0)]));
    }
    carrier.carries(&[1, 50]).await;
}

#[tokio::test]
async fn what_is_worth_a_message_of_its_own_does_not_wait_for_the_one_under_way() {
    let carrier = Carrier::new(0);
    let lane = carrier.lane();
    let _first = lane.put(&batch(1), soon()).unwrap();
    carrier.carries(&[1]).await;
    let _some = lane.put(&batch(COMMANDS_WORTH_A_MESSAGE - 1), soon()).unwrap();
    sleep(Duration::from_millis(20)).await;
    carrier.carries(&[1]).await;
    let _one_more = lane.put(&batch(1), soon()).unwrap();
    carrier.carries(&[1, 2]).await;
    let _too_many = lane.put(&batch(COMMANDS_WORTH_A_MESSAGE), soon()).unwrap();
    sleep(Duration::from_millis(20)).await;
    carrier.carries(&[1, 2]).await;
}

#[tokio::test]
async fn what_is_put_in_by_many_at_once_leaves_together() {
    let carrier = Carrier::new(9);
    let lane = Arc::new(carrier.lane());
    let mut askers = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let lane = Arc::clone(&lane);
        askers.spawn(async move { lane.put(&batch(1), soon()).unwrap().await.unwrap() });
    }
    while let Some(answered) = askers.join_next().await {
        assert!(answered.unwrap().is_ok());
    }
    assert_eq!(*carrier.carried.lock(), [20]);
}

#[tokio::test]
async fn those_who_were_just_answered_by_a_busy_lane_share_the_next_message_with_those_who_wait() {
    let carrier = Carrier::new(0);
    let lane = carrier.lane();
    let first: Vec<_> = (0..2).map(|_| lane.put(&batch(1), soon()).unwrap()).collect();
    carrier.carries(&[2]).await;
    let _waits = lane.put(&batch(1), soon()).unwrap();
    sleep(BUSY).await;
    carrier.may.add_permits(1);
    for answer in first {
        answer.await.unwrap().unwrap();
    }
    let _asks_again = lane.put(&batch(1), soon()).unwrap();
    carrier.carries(&[2, 2]).await;
}

/// Whether a lane rests after a message of so many items that took so long.
fn check_rests(items: usize, took: Duration, expected: bool) {
    let now = Instant::now();
    let mut rest = Rest { left: now - took, items, until: now };
    rest.begin();
    assert_eq!(rest.until > Instant::now() + REST / 2, expected, "{items} items in {took:?}");
}

#[test]
fn a_lane_rests_only_where_there_is_much_to_do() {
    check_rests(2, BUSY, true);
    check_rests(1, BUSY, false);
    check_rests(2, Duration::ZERO, false);
}

#[tokio::test]
async fn what_needs_no_message_does_not_wait_for_the_one_under_way() {
    let carrier = Carrier::new(0);
    let lane = carrier.lane();
    let _under_way = lane.put(&batch(1), soon()).unwrap();
    carrier.carries(&[1]).await;
    assert_eq!(lane.put(&batch(0), soon()).unwrap().await.unwrap(), Ok(Vec::new()));
    carrier.carries(&[1]).await;
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
