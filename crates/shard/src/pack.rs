//! Counter states in two words and three bytes, where they fit.
//!
//! Invariant: `unpack(pack(state)) == state`, and whether a state packs depends on nothing but the state. Not a storage
//! format: it never leaves the process.

use leasehold_limit::{BucketState, CounterState, LogState, QueueState, State, WindowState};
use leasehold_model::Stamp;

/// How the words are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Shape {
    /// Used parts (with `high`), stamp.
    Bucket,
    /// Time ahead (with `high`), stamp.
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

/// The words and their reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packed {
    pub(crate) words: [u64; 2],
    /// Bits above the first word: 2^88 parts of a bucket are 100 billion units a month.
    pub(crate) high: [u8; 3],
    pub(crate) shape: Shape,
}

/// Packs `state` unless one of its numbers is too wide.
pub(crate) fn pack(state: &State) -> Option<Packed> {
    let packed = |shape, first, second| Some(Packed { words: [first, second], high: [0; 3], shape });
    let long = |shape, first: u128, second| {
        let (low, high) = split(first)?;
        Some(Packed { words: [low, second], high, shape })
    };
    match state {
        State::Bucket(bucket) => long(Shape::Bucket, bucket.used, bucket.at.0),
        State::Queue(queue) => long(Shape::Queue, queue.ahead, queue.at.0),
        State::Window(window) => packed(Shape::Window, window.start.0, window.count),
        State::Counter(counter) => {
            let previous = u32::try_from(counter.previous).ok()?;
            let current = u32::try_from(counter.current).ok()?;
            packed(Shape::Counter, counter.window, (u64::from(previous) << 32) | u64::from(current))
        }
        State::Log(log) => match (log.entries().len(), log.entries().front()) {
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
        Shape::Bucket => State::Bucket(BucketState { used: join(first, packed.high), at: Stamp(second) }),
        Shape::Queue => State::Queue(QueueState { ahead: join(first, packed.high), at: Stamp(second) }),
        Shape::Window => State::Window(WindowState { start: Stamp(first), count: second }),
        Shape::Counter => State::Counter(CounterState {
            window: first,
            previous: second >> 32,
            current: second & u64::from(u32::MAX),
        }),
        Shape::LogEmpty => State::Log(LogState::default()),
        Shape::LogSingle => State::Log([(Stamp(first), second)].into_iter().collect()),
    }
}

/// A number's lower 64 and next 24 bits, if it has no more.
fn split(number: u128) -> Option<(u64, [u8; 3])> {
    let [low @ .., h0, h1, h2, 0, 0, 0, 0, 0] = number.to_le_bytes() else { return None };
    Some((u64::from_le_bytes(low), [h0, h1, h2]))
}

fn join(low: u64, [h0, h1, h2]: [u8; 3]) -> u128 {
    let high = u32::from_le_bytes([h0, h1, h2, 0]);
    (u128::from(high) << 64) | u128::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_narrow_state_survives_packing() {
        let log = |entries: &[(u64, u64)]| {
            State::Log(entries.iter().map(|&(at, units)| (Stamp(at), units)).collect())
        };
        for state in [
            State::Bucket(BucketState { used: (1 << 88) - 1, at: Stamp(u64::MAX) }),
            State::Bucket(BucketState { used: 0x12_3456_789a_bcde_f012_3456, at: Stamp(3) }),
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
    fn a_state_too_wide_does_not_pack() {
        let log: LogState = [(Stamp(1), 1), (Stamp(2), 1)].into_iter().collect();
        for state in [
            State::Bucket(BucketState { used: 1 << 88, at: Stamp(0) }),
            State::Queue(QueueState { ahead: 1 << 88, at: Stamp(0) }),
            State::Counter(CounterState { window: 0, previous: 1 << 32, current: 0 }),
            State::Counter(CounterState { window: 0, previous: 0, current: 1 << 32 }),
            State::Log(log),
        ] {
            assert_eq!(pack(&state), None);
        }
    }
}
