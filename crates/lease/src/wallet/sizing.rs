//! How many units to hold, when to ask for more and when to hand some back: functions of demand, round trip and what is held.

use leasehold_model::{BootTime, Nanos};

use super::demand;
use crate::{LIFETIME_DEFAULT, MilliRate};

/// How a wallet behaves. The defaults are those that a simulation of three regions measured best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// For how long to ask for leases.
    pub lifetime: Nanos,
    /// Demand of so much time is held, besides that of a round trip.
    pub horizon: Nanos,
    /// After so long without a spend everything goes back.
    pub idle: Nanos,
    /// Round trip to assume until one was measured.
    pub round_trip: Nanos,
    /// By how much a sub-lease ends before the lease it is of.
    pub guard: Nanos,
    /// Keys held. At the bound a new key is [`Checked::NoRoom`](super::Checked::NoRoom) until another goes.
    pub keys_max: usize,
    /// Requests and children that wait, a key. At the bound the next is [`Checked::NoRoom`](super::Checked::NoRoom).
    pub waiters_max: usize,
    /// Sub-leases, a key. At the bound children get only what they need at once.
    pub sub_leases_max: usize,
    /// Answers remembered for children that ask again. At the bound the oldest goes; a child that asks for it again gets
    /// another, and what the first lent counts as spent.
    pub child_replies_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lifetime: LIFETIME_DEFAULT,
            horizon: Nanos::from_millis(500),
            idle: Nanos::from_millis(500),
            round_trip: Nanos::from_millis(5),
            guard: Nanos::from_millis(50),
            keys_max: 100_000,
            waiters_max: 4_096,
            sub_leases_max: 256,
            child_replies_max: 65_536,
        }
    }
}

/// Leases a key. At the bound a key asks only for what it needs at once, until one of them ends.
pub(super) const LEASES_MAX: usize = 8;
/// The longest time whose demand is held.
const HORIZON_MAX: Nanos = Nanos::from_secs(1);
/// An ask without an answer is sent again after so long at least, and twice as long each time.
const RESEND_MIN: Nanos = Nanos::from_millis(200);
/// Word of what was spent goes no more often than this, however near the owner is.
const REPORT_MIN: Nanos = Nanos::from_millis(50);
/// The longest time between two sendings of an ask.
const RESEND_MAX: Nanos = Nanos::from_secs(2);

impl Settings {
    /// How far to look ahead: at least two round trips, at most [`HORIZON_MAX`]. A broker holds for twice as long, since its
    /// children take what it holds in pieces as large as its own horizon.
    fn horizon(&self, round_trip: Nanos, broker: bool) -> Nanos {
        let own = self.horizon.0.max(round_trip.0.saturating_mul(2));
        Nanos(own.saturating_mul(if broker { 2 } else { 1 }).min(HORIZON_MAX.0))
    }

    /// What to hold right after an answer: the demand of the horizon and of a round trip.
    pub(super) fn target(&self, rate: MilliRate, round_trip: Nanos, broker: bool) -> u64 {
        let horizon = self.horizon(round_trip, broker);
        demand::units(rate, Nanos(horizon.0.saturating_add(round_trip.0)))
    }

    /// With so little left it is time to ask, or the next answer comes too late.
    pub(super) fn low_water(&self, rate: MilliRate, round_trip: Nanos) -> u64 {
        demand::units(rate, Nanos(round_trip.0.saturating_mul(5) / 2))
    }

    /// With more than this, what is above the target goes back.
    pub(super) fn excess_mark(&self, target: u64) -> u64 {
        target.saturating_add(target / 2).saturating_add(2)
    }

    /// How often to look at a key that holds something: often enough to see it idle.
    pub(super) fn look_every(&self) -> Nanos {
        Nanos((self.idle.0 / 2).max(1))
    }

    /// How long word of what was spent may wait for an ask to go along with. While units are short the owner lends again
    /// what it hears of, so it hears sooner: the sooner, the nearer it is.
    pub(super) fn report_every(&self, short: bool, round_trip: Nanos) -> Nanos {
        let half = |length: Nanos| (length.0 / 2).max(1);
        if !short {
            return Nanos(half(self.lifetime));
        }
        Nanos(round_trip.0.saturating_mul(4).max(REPORT_MIN.0).min(half(self.horizon)))
    }

    /// How long to keep from asking for units to hold after an answer that brought too few.
    pub(super) fn quiet(&self, round_trip: Nanos) -> Nanos {
        Nanos(round_trip.0.max(REPORT_MIN.0).min((self.horizon.0 / 2).max(1)))
    }
}

/// When an ask that was sent `tries` times, last at `sent`, is sent again.
pub(super) fn resend_at(sent: BootTime, tries: u32, round_trip: Nanos) -> BootTime {
    let first = round_trip.0.saturating_mul(4).max(RESEND_MIN.0);
    let wait = first.saturating_mul(1 << tries.min(16)).min(RESEND_MAX.0.max(first));
    BootTime(sent.0.saturating_add(wait))
}
