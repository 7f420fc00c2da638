//! Counter states in two words, where they fit.
//!
//! Invariant: `unpack(pack(state)) == state`, and whether a state packs depends on nothing but the state. Not a storage
//! format: it never leaves the process.

use leasehold_limit::{BucketState, CounterState, LogState, QueueState, State, WindowState};
use leasehold_model::Stamp;

/// How two words are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Shape {
    /// Used parts, stamp.
    Bucket,
    /// Time ahead, stamp.
    Queue,
    /// First stamp, count.
    Window,
    /// Window, then previous and current count in one word.
    Counter,
    /// A log without entries.
    LogEmpty,
    /// A log of one entry: stamp, units. Most keys of a low limit are seen once a period.
    LogSingle,
}

/// Two words and their reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packed {
    pub(crate) words: [u64; 2],
    pub(crate) shape: Shape,
}

/// Packs `state` unless one of its numbers is too wide.
pub(crate) fn pack(state: &State) -> Option<Packed> {
    let packed = |shape, first, second| Some(Packed { words: [first, second], shape });
    match state {
        State::Bucket(bucket) => packed(Shape::Bucket, u64::try_from(bucket.used).ok()?, bucket.at.0),
        State::Queue(queue) => packed(Shape::Queue, u64::try_from(queue.ahead).ok()?, queue.at.0),
        State::Window(window) => packed(Shape::Window, window.start.0, window.count),
        State::Counter(counter) => {
            let previous = u32::try_from(counter.previous).ok()?;
            let current = u32::try_from(counter.current).ok()?;
            packed(Shape::Counter, counter.window, (u64::from(previous) << 32) | u64::from(current))
        }
        State::Log(log) => match (log.entries.len(), log.entries.front()) {
            (0, _) => packed(Shape::LogEmpty, 0, 0),
            (1, Some(&(at, units))) => packed(Shape::LogSingle, at.0, units),
            _ => None,
        },
    }
}

/// The state that was packed.
pub(crate) fn unpack(packed: Packed) -> State {
    let [first, second] = packed.words;
    match packed.shape {
        Shape::Bucket => State::Bucket(BucketState { used: u128::from(first), at: Stamp(second) }),
        Shape::Queue => State::Queue(QueueState { ahead: u128::from(first), at: Stamp(second) }),
        Shape::Window => State::Window(WindowState { start: Stamp(first), count: second }),
        Shape::Counter => State::Counter(CounterState {
            window: first,
            previous: second >> 32,
            current: second & u64::from(u32::MAX),
        }),
        Shape::LogEmpty => State::Log(LogState::default()),
        Shape::LogSingle => State::Log(LogState { entries: [(Stamp(first), second)].into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_narrow_state_survives_packing() {
        let log = |entries: &[(u64, u64)]| {
            State::Log(LogState { entries: entries.iter().map(|&(at, units)| (Stamp(at), units)).collect() })
        };
        for state in [
            State::Bucket(BucketState { used: u128::from(u64::MAX), at: Stamp(u64::MAX) }),
            State::Queue(QueueState { ahead: 7, at: Stamp(9) }),
            State::Window(WindowState { start: Stamp(3), count: u64::MAX }),
            State::Counter(CounterState {
                window: 5,
                previous: u64::from(u32::MAX),
                current: u64::from(u32::MAX) - 1,
            }),
            log(&[]),
            log(&[(4, u64::MAX)]),
        ] {
            assert_eq!(unpack(pack(&state).expect("narrow")), state);
        }
    }

    #[test]
    fn a_state_too_wide_for_two_words_does_not_pack() {
        let entries = [(Stamp(1), 1), (Stamp(2), 1)].into();
        for state in [
            State::Bucket(BucketState { used: 1 << 64, at: Stamp(0) }),
            State::Queue(QueueState { ahead: 1 << 64, at: Stamp(0) }),
            State::Counter(CounterState { window: 0, previous: 1 << 32, current: 0 }),
            State::Counter(CounterState { window: 0, previous: 0, current: 1 << 32 }),
            State::Log(LogState { entries }),
        ] {
            assert_eq!(pack(&state), None);
        }
    }
}
