//! How long to wait before the next attempt to connect. Chance is an argument.

use std::time::Duration;

/// Before the attempt after a connection that served: all edges of a node lose it at one moment.
const FIRST: Duration = Duration::from_millis(50);
/// The longest pause: a node that comes back has all its edges within this.
const LONGEST: Duration = Duration::from_secs(2);

/// Pauses that double with each attempt in vain.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    in_vain: u32,
}

impl Pauses {
    /// A connection served: what comes next is a first attempt again.
    pub(super) fn served(&mut self) {
        self.in_vain = 0;
    }

    /// The next one: between half of what is due and all of it, by `chance` out of 256.
    pub(super) fn next(&mut self, chance: u8) -> Duration {
        let due = FIRST.saturating_mul(1 << self.in_vain.min(16)).min(LONGEST);
        self.in_vain = self.in_vain.saturating_add(1);
        due / 2 + due / 2 * u32::from(chance) / 255
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_to_the_longest_and_begin_anew_after_service() {
        let mut pauses = Pauses::default();
        let millis: Vec<_> = (0..8).map(|_| pauses.next(255).as_millis()).collect();
        assert_eq!(millis, [50, 100, 200, 400, 800, 1_600, 2_000, 2_000]);
        pauses.served();
        assert_eq!(pauses.next(255), FIRST);
    }

    #[test]
    fn chance_spreads_a_pause_over_its_second_half() {
        assert_eq!(Pauses::default().next(0), FIRST / 2);
        assert_eq!(Pauses::default().next(255), FIRST);
    }
}
