//! Counters of a snapshot.

use leasehold_limit::{BucketState, CounterState, QueueState, State, WindowState};
use leasehold_model::{Key, Stamp};
use leasehold_shard::SnapshotCounter;

use super::SnapshotError;
use crate::proto::leasehold::storage::v1 as storage;
use storage::counter::State as Proto;

pub(super) fn to_proto(counter: &SnapshotCounter) -> storage::Counter {
    storage::Counter {
        key_high: counter.key.high,
        key_low: counter.key.low,
        limit: counter.limit,
        state: Some(state_to_proto(&counter.state)),
    }
}

pub(super) fn from_proto(index: usize, proto: storage::Counter) -> Result<SnapshotCounter, SnapshotError> {
    let state = proto.state.ok_or(SnapshotError::Absent { list: "counters", index, field: "state" })?;
    Ok(SnapshotCounter {
        key: Key { high: proto.key_high, low: proto.key_low },
        limit: proto.limit,
        state: state_from_proto(index, state)?,
    })
}

fn state_to_proto(state: &State) -> Proto {
    match state {
        State::Bucket(bucket) => {
            let (used_high, used_low) = halves(bucket.used);
            Proto::Bucket(storage::Bucket { used_low, used_high, at: bucket.at.0 })
        }
        State::Queue(queue) => {
            let (ahead_high, ahead_low) = halves(queue.ahead);
            Proto::Queue(storage::Queue { ahead_low, ahead_high, at: queue.at.0 })
        }
        State::Window(window) => {
            Proto::Window(storage::Window { start: window.start.0, count: window.count })
        }
        State::Log(log) => {
            let (at, units) = log.entries().iter().map(|&(at, units)| (at.0, units)).unzip();
            Proto::Log(storage::Log { at, units })
        }
        State::Counter(counter) => Proto::SlidingCounter(storage::SlidingCounter {
            window: counter.window,
            previous: counter.previous,
            current: counter.current,
        }),
    }
}

fn state_from_proto(index: usize, proto: Proto) -> Result<State, SnapshotError> {
    Ok(match proto {
        Proto::Bucket(bucket) => {
            State::Bucket(BucketState { used: join(bucket.used_high, bucket.used_low), at: Stamp(bucket.at) })
        }
        Proto::Queue(queue) => {
            State::Queue(QueueState { ahead: join(queue.ahead_high, queue.ahead_low), at: Stamp(queue.at) })
        }
        Proto::Window(window) => {
            State::Window(WindowState { start: Stamp(window.start), count: window.count })
        }
        Proto::Log(log) => {
            let (stamps, units) = (log.at.len(), log.units.len());
            if stamps != units {
                return Err(SnapshotError::LogColumns { index, stamps, units });
            }
            State::Log(log.at.into_iter().map(Stamp).zip(log.units).collect())
        }
        Proto::SlidingCounter(counter) => State::Counter(CounterState {
            window: counter.window,
            previous: counter.previous,
            current: counter.current,
        }),
    })
}

pub(super) fn halves(number: u128) -> (u64, u64) {
    let Key { high, low } = Key::from_u128(number);
    (high, low)
}

pub(super) fn join(high: u64, low: u64) -> u128 {
    Key { high, low }.to_u128()
}
