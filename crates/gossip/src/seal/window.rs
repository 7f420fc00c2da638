//! Which of one boot's counters have been heard.

/// Counters behind the highest that may still arrive late. A datagram further behind is refused as if it were a
/// replay; gossip says everything again.
const WIDTH: u64 = 128;

/// A sliding window over counters: each is admitted once.
#[derive(Debug)]
pub(super) struct Window {
    highest: u64,
    /// Bit `i`: whether `highest - i` was heard.
    heard: u128,
}

impl Window {
    /// A window in which `counter` is the first that was heard.
    pub(super) const fn starting_at(counter: u64) -> Self {
        Self { highest: counter, heard: 1 }
    }

    /// Whether `counter` may be heard; if so, it may not be again.
    pub(super) fn admit(&mut self, counter: u64) -> bool {
        if let Some(ahead) = counter.checked_sub(self.highest).filter(|ahead| *ahead > 0) {
            self.heard = if ahead < WIDTH { (self.heard << ahead) | 1 } else { 1 };
            self.highest = counter;
            return true;
        }
        let behind = self.highest - counter;
        if behind >= WIDTH || self.heard & (1 << behind) != 0 {
            return false;
        }
        self.heard |= 1 << behind;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn check(counters: &[u64], admitted: &[bool]) {
        let mut window = Window::starting_at(counters[0]);
        let got: Vec<bool> = counters[1..].iter().map(|counter| window.admit(*counter)).collect();
        assert_eq!(got, admitted, "{counters:?}");
    }

    #[test]
    fn a_late_counter_is_admitted_once() {
        check(&[10, 12, 11, 11, 12, 10], &[true, true, false, false, false]);
    }

    #[test]
    fn what_is_too_far_behind_is_refused() {
        check(&[200, 73, 72, 72], &[true, false, false]);
    }

    #[test]
    fn a_leap_forgets_what_was_before() {
        check(&[1, u64::MAX, u64::MAX, 1, u64::MAX - 127], &[true, false, false, true]);
    }

    proptest! {
        #[test]
        fn no_counter_is_admitted_twice(counters in prop::collection::vec(0_u64..400, 1..300)) {
            let mut window = Window::starting_at(counters[0]);
            let mut admitted = BTreeSet::from([counters[0]]);
            for counter in &counters[1..] {
                let highest = *admitted.last().expect("holds the first");
                let fresh = !admitted.contains(counter);
                let near = counter + WIDTH > highest;
                prop_assert_eq!(window.admit(*counter), fresh && near);
                if fresh && near {
                    admitted.insert(*counter);
                }
            }
        }
    }
}
