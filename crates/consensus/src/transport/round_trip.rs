//! How long a message takes to a peer and back, from pings and their answers.
//!
//! Invariant: one ping is measured at a time, and the answer that is counted as its own is: both sides keep their order, so
//! that the n-th answer belongs to the n-th ping. What a peer answers without being asked measures nothing.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Of a new measurement the share that counts, as TCP smooths its own (RFC 6298).
const SHARE: u32 = 8;

/// The pings of one connection.
#[derive(Debug, Default)]
pub(super) struct Pings(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    sent: u64,
    answered: u64,
    /// The number of the ping that is measured, and when it was sent.
    measured: Option<(u64, Instant)>,
    smoothed: Option<Duration>,
}

impl Pings {
    /// A ping is sent.
    pub(super) fn sent(&self, now: Instant) {
        let mut state = self.0.lock();
        state.sent += 1;
        let number = state.sent;
        state.measured.get_or_insert((number, now));
    }

    /// One is answered.
    pub(super) fn answered(&self, now: Instant) {
        let mut state = self.0.lock();
        if state.answered == state.sent {
            return;
        }
        state.answered += 1;
        let answered = state.answered;
        let Some((_, sent)) = state.measured.take_if(|(number, _)| *number == answered) else { return };
        let took = now.duration_since(sent);
        state.smoothed = Some(state.smoothed.map_or(took, |known| known - known / SHARE + took / SHARE));
    }

    /// The smoothed time; none before the first answer.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        self.0.lock().smoothed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_first_answer_is_taken_whole_and_later_ones_move_it_by_an_eighth() {
        let (pings, start) = (Pings::default(), Instant::now());
        assert_eq!(pings.round_trip(), None);
        pings.sent(start);
        pings.answered(start + 80 * MS);
        assert_eq!(pings.round_trip(), Some(80 * MS));
        pings.sent(start + 1_000 * MS);
        pings.answered(start + 1_160 * MS);
        assert_eq!(pings.round_trip(), Some(90 * MS));
    }

    #[test]
    fn an_answer_that_is_later_than_the_next_ping_measures_its_own() {
        let (pings, start) = (Pings::default(), Instant::now());
        pings.sent(start);
        pings.sent(start + 1_000 * MS);
        pings.answered(start + 1_500 * MS);
        assert_eq!(pings.round_trip(), Some(1_500 * MS));
        pings.answered(start + 1_600 * MS);
        assert_eq!(pings.round_trip(), Some(1_500 * MS));
    }

    #[test]
    fn answers_to_nothing_measure_nothing() {
        let (pings, start) = (Pings::default(), Instant::now());
        pings.answered(start);
        pings.sent(start + MS);
        pings.answered(start + 3 * MS);
        assert_eq!(pings.round_trip(), Some(2 * MS));
    }
}
