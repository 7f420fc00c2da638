//! States that a sweep must have visited: where it hasn't been, it has no result.

use std::fmt;

/// A state worth visiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// The owner was killed after an entry was committed and before anybody was answered; the retry was answered from the
    /// reply cache.
    KilledBeforeReply,
    /// The same, by a replica that had the reply from a snapshot.
    KilledBeforeReplyThenSnapshot,
    /// An edge went on after a suspend, holding units whose time had passed meanwhile.
    ResumedPastExpiry,
    /// A leader that was deposed without knowing it was asked.
    DeposedAsked,
    /// A limit was lowered below what was used of it.
    LoweredBelowUsage,
    /// What nobody had been told of turned out to be committed.
    UnknownCommitted,
    /// And turned out not to be.
    UnknownAbsent,
    /// A write was torn, and the log cut there.
    TornTail,
    /// A replica that lagged started from another's snapshot.
    SnapshotInstalled,
    /// A request over several shards was refused by a later one, and what it took came back.
    ReturnedAcrossShards,
    /// A tenant had as many counters as it may.
    TenantFull,
    /// A sub-lease was spent after its broker had died.
    OutlivedBroker,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::KilledBeforeReply,
        Self::KilledBeforeReplyThenSnapshot,
        Self::ResumedPastExpiry,
        Self::DeposedAsked,
        Self::LoweredBelowUsage,
        Self::UnknownCommitted,
        Self::UnknownAbsent,
        Self::TornTail,
        Self::SnapshotInstalled,
        Self::ReturnedAcrossShards,
        Self::TenantFull,
        Self::OutlivedBroker,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::KilledBeforeReply => {
                "owner killed between commit and reply, retry answered from the reply cache"
            }
            Self::KilledBeforeReplyThenSnapshot => "the same, from a reply cache that came with a snapshot",
            Self::ResumedPastExpiry => "an edge resumed past expiry, holding tokens",
            Self::DeposedAsked => "a deposed leader asked",
            Self::LoweredBelowUsage => "a limit lowered with usage above it",
            Self::UnknownCommitted => "an unknown outcome found committed",
            Self::UnknownAbsent => "an unknown outcome found absent",
            Self::TornTail => "a torn write cut",
            Self::SnapshotInstalled => "a lagging replica started from another's snapshot",
            Self::ReturnedAcrossShards => "what a refused request took on another shard came back",
            Self::TenantFull => "a tenant's bound of counters reached",
            Self::OutlivedBroker => "a sub-lease spent after its broker died",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How often each was visited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reached([u64; State::ALL.len()]);

impl Reached {
    /// Once more.
    pub const fn note(&mut self, state: State) {
        self.0[state as usize] += 1;
    }

    /// How often.
    #[must_use]
    pub const fn times(&self, state: State) -> u64 {
        self.0[state as usize]
    }

    /// Worlds in which each was visited, one more world counted in.
    pub fn add_world(&mut self, world: &Self) {
        for (sum, times) in self.0.iter_mut().zip(world.0) {
            *sum += u64::from(times > 0);
        }
    }
}
