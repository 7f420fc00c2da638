//! Who asks for what when: open loop, a request at a time, nobody comes back after a refusal.
//!
//! A key's part of all requests falls with its rank (zipf, exponent 1). Of a key's requests six tenths come from one region,
//! three from another, one from the third; which is drawn by key. Within a region edges share evenly.
//! With bursts, each key is asked for 2.5 times as fast, everywhere at once, for half a second out of every 2.5; when, is drawn
//! by key.

use super::chance::{Chance, mix};
use super::net::{EDGES_PER_REGION, REGIONS};

/// At most one request falls into a slot, so that arrivals are near to Poisson without a logarithm.
const SLOT_NANOS: u64 = 10_000;
const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// Tenths of the even rate during a burst, and otherwise.
const BURST: u64 = 25;
const CALM: u64 = 10;
const BURST_NANOS: u64 = 500_000_000;
const BURST_EVERY_NANOS: u64 = 2_500_000_000;
/// Tenths of a key's requests by region, before they are turned by key.
const REGION_TENTHS: [u64; REGIONS] = [6, 3, 1];
const WEIGHT: u64 = 1 << 32;

/// What to simulate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workload {
    /// Counters.
    pub(crate) keys: usize,
    /// Requests a second of all edges together, outside of bursts.
    pub(crate) per_second: u64,
    /// Each counter's limit: a token bucket of so many a second.
    pub(crate) limit_per_second: u64,
    /// Its burst.
    pub(crate) limit_burst: u64,
    /// Whether demand bursts.
    pub(crate) bursts: bool,
    /// How long.
    pub(crate) seconds: u64,
    /// Same seed, same run.
    pub(crate) seed: u64,
}

/// One request for one unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) at: u64,
    pub(crate) edge: usize,
    pub(crate) key: usize,
}

/// The requests of a workload, in order.
pub(crate) struct Traffic {
    workload: Workload,
    chance: Chance,
    /// Sums of weights up to and with each (key, edge).
    sums: Vec<(u64, usize, usize)>,
    slot: u64,
}

impl Traffic {
    pub(crate) fn new(workload: Workload) -> Self {
        let mut sum = 0;
        let mut sums = Vec::new();
        for key in 0..workload.keys {
            let rank = u64::try_from(key + 1).expect("few keys");
            for edge in 0..REGIONS * EDGES_PER_REGION {
                let turned = (edge / EDGES_PER_REGION + key) % REGIONS;
                sum += WEIGHT / rank * REGION_TENTHS[turned];
                sums.push((sum, key, edge));
            }
        }
        Self { chance: Chance::new(workload.seed), workload, sums, slot: 0 }
    }

    /// Tenths of the even rate at which a key is asked for at `at`.
    fn pace(&self, key: usize, at: u64) -> u64 {
        let (turn, within) = (at / BURST_EVERY_NANOS, at % BURST_EVERY_NANOS);
        let key = u64::try_from(key).expect("few");
        let begins = mix(mix(key ^ self.workload.seed) ^ turn) % (BURST_EVERY_NANOS - BURST_NANOS);
        if (begins..begins + BURST_NANOS).contains(&within) { BURST } else { CALM }
    }
}

impl Iterator for Traffic {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let most = if self.workload.bursts { BURST } else { CALM };
        let end = self.workload.seconds * NANOS_PER_SECOND / SLOT_NANOS;
        while self.slot < end {
            self.slot += 1;
            let peak = self.workload.per_second * most / CALM;
            if self.chance.below(NANOS_PER_SECOND / SLOT_NANOS) >= peak {
                continue;
            }
            let drawn = self.chance.below(self.sums.last().expect("a key").0);
            let (_, key, edge) = self.sums[self.sums.partition_point(|&(sum, ..)| sum <= drawn)];
            let at = self.slot * SLOT_NANOS;
            if !self.workload.bursts || self.chance.below(most) < self.pace(key, at) {
                return Some(Arrival { at, edge, key });
            }
        }
        None
    }
}
