//! Known bugs that are put back on purpose, to see whether the simulator and the chaos harness catch them.
//!
//! Invariant: without the feature `planted` nothing can be planted and [`is`] is a constant `false`, so that a site costs
//! nothing; with it the crate only builds where assertions are on, which releases never are.
//! Each site says which bug it is; none is more than the line or two that somebody could have written by mistake.

use std::fmt;
use std::str::FromStr;

#[cfg(all(feature = "planted", not(debug_assertions)))]
compile_error!(
    "the feature `planted` puts bugs back: build with the profile `planted` or `dev`, never `release`"
);

/// A bug that can be put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Bug {
    /// An edge counts a lease's life from the answer, not from when it asked.
    TtlFromReply = 1,
    /// An edge spends from a lease without looking whether it is over.
    NoExpiryCheck,
    /// An owner credits what nobody told of a lease when the lease ends.
    CreditAtExpiry,
    /// A snapshot leaves out the replies that are remembered for retries.
    ReplyCacheNotInSnapshot,
    /// Whoever asks again after an unknown outcome does so under a new id.
    RetryUnderNewId,
    /// A leader stamps what it decides with its wall clock.
    LeaderUsesWallClock,
    /// An entry is acknowledged before it is on disk.
    AckBeforeSync,
    /// A vote is given before it is on disk.
    VoteNotSynced,
    /// A replica that doesn't lead, or leads no longer, grants from its own state.
    FollowerGrants,
    /// The shard map changes and its epoch doesn't.
    EpochNotBumped,
    /// A rule set of an older version replaces a newer one.
    RulesOutOfOrder,
    /// A sweep drops counters that hold something.
    NonFreshEvicted,
    /// Whom gossip takes for a shard's leader decides for it.
    GossipPicksOwner,
    /// A part of what refills is dropped.
    RefillDropped,
    /// A bucket refills as if nothing of it were out on leases.
    UncoupledRefill,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::TtlFromReply,
        Self::NoExpiryCheck,
        Self::CreditAtExpiry,
        Self::ReplyCacheNotInSnapshot,
        Self::RetryUnderNewId,
        Self::LeaderUsesWallClock,
        Self::AckBeforeSync,
        Self::VoteNotSynced,
        Self::FollowerGrants,
        Self::EpochNotBumped,
        Self::RulesOutOfOrder,
        Self::NonFreshEvicted,
        Self::GossipPicksOwner,
        Self::RefillDropped,
        Self::UncoupledRefill,
    ];

    /// Its name on command lines and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TtlFromReply => "ttl-from-reply",
            Self::NoExpiryCheck => "no-expiry-check",
            Self::CreditAtExpiry => "credit-at-expiry",
            Self::ReplyCacheNotInSnapshot => "reply-cache-not-in-snapshot",
            Self::RetryUnderNewId => "retry-under-new-id",
            Self::LeaderUsesWallClock => "leader-uses-wall-clock",
            Self::AckBeforeSync => "ack-before-sync",
            Self::VoteNotSynced => "vote-not-synced",
            Self::FollowerGrants => "follower-grants",
            Self::EpochNotBumped => "epoch-not-bumped",
            Self::RulesOutOfOrder => "rules-out-of-order",
            Self::NonFreshEvicted => "non-fresh-evicted",
            Self::GossipPicksOwner => "gossip-picks-owner",
            Self::RefillDropped => "refill-dropped",
            Self::UncoupledRefill => "uncoupled-refill",
        }
    }
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No bug has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no bug is called `{0}`")]
pub struct UnknownBug(String);

impl FromStr for Bug {
    type Err = UnknownBug;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|bug| bug.name() == name).ok_or_else(|| UnknownBug(name.to_owned()))
    }
}

#[cfg(feature = "planted")]
mod site {
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::Bug;

    /// The one that is in, by number; 0: none.
    static PLANTED: AtomicU8 = AtomicU8::new(0);

    /// Puts `bug` into this process, in place of the one before; `None` takes it out.
    pub fn plant(bug: impl Into<Option<Bug>>) {
        PLANTED.store(bug.into().map_or(0, |bug| bug as u8), Ordering::Relaxed);
    }

    /// Whether `bug` is in.
    #[must_use]
    pub fn is(bug: Bug) -> bool {
        PLANTED.load(Ordering::Relaxed) == bug as u8
    }
}

#[cfg(not(feature = "planted"))]
mod site {
    use super::Bug;

    /// Whether `bug` is in: never, in a build that knows no bugs.
    #[must_use]
    pub const fn is(_: Bug) -> bool {
        false
    }
}

pub use site::is;
#[cfg(feature = "planted")]
pub use site::plant;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bug_is_found_by_its_name_alone() {
        for bug in Bug::ALL {
            assert_eq!(bug.name().parse(), Ok(bug));
        }
        assert_eq!("".parse::<Bug>(), Err(UnknownBug(String::new())));
    }

    #[cfg(not(feature = "planted"))]
    #[test]
    fn nothing_is_planted_in_a_build_without_the_feature() {
        assert!(!Bug::ALL.into_iter().any(is));
    }

    #[cfg(feature = "planted")]
    #[test]
    fn one_bug_is_in_at_a_time() {
        plant(Bug::RefillDropped);
        plant(Bug::AckBeforeSync);
        assert_eq!(Bug::ALL.into_iter().filter(|&bug| is(bug)).collect::<Vec<_>>(), [Bug::AckBeforeSync]);
        plant(None);
        assert!(!Bug::ALL.into_iter().any(is));
    }
}
