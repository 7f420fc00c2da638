//! `--regions` and `--rtt`: the regions of a cluster in this process, and how far they are from each other.
//!
//! Invariant: every pair of regions has one round trip, whichever of the two is named first; what isn't named is no way at all.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::anyhow;

use crate::failure::Failure;
use crate::remote::parse_duration;

/// Regions of one process. Further ones are refused: the nodes would only wait for each other's turn on the processor.
const REGIONS_MAX: usize = 5;
/// The longest round trip. The control group's leader, whose voters are in all regions, keeps its lease up to that.
const ROUND_TRIP_MAX: Duration = Duration::from_millis(400);
/// Bytes of a region's name, which is also the beginning of its nodes' names.
const NAME_BYTES_MAX: usize = 32;

/// See the module.
#[derive(Debug)]
pub(super) struct Regions {
    names: Vec<String>,
    /// By pair, in the order of `names`.
    round_trips: BTreeMap<(usize, usize), Duration>,
}

impl Regions {
    /// Reads both flags. `None`: there are no regions.
    ///
    /// # Errors
    /// Names the flag and what to write instead.
    pub(super) fn read(names: &[String], rtt: &[String]) -> Result<Option<Self>, Failure> {
        if names.is_empty() {
            return match rtt.first() {
                None => Ok(None),
                Some(_) => Err(wrong("--rtt: there are no regions", "add --regions eu,us,ap")),
            };
        }
        check_names(names)?;
        let mut regions = Self { names: names.to_vec(), round_trips: BTreeMap::new() };
        for item in rtt {
            regions.add(item)?;
        }
        Ok(Some(regions))
    }

    fn add(&mut self, item: &str) -> Result<(), Failure> {
        let example = self.example();
        let (pair, time) = item
            .split_once('=')
            .ok_or_else(|| wrong(format!("--rtt: {item:?} has no time"), format!("write --rtt {example}")))?;
        let places = self.pair(pair)?;
        let time = parse_duration(time).map_err(|fix| wrong(format!("--rtt: {item:?}"), fix))?;
        if time > ROUND_TRIP_MAX {
            let most = format!("write {} ms or less", ROUND_TRIP_MAX.as_millis());
            return Err(wrong(format!("--rtt: {item:?} is too far for one cluster"), most));
        }
        if self.round_trips.insert(places, time).is_some() {
            return Err(wrong(
                format!("--rtt: {pair} is named twice"),
                "name each pair once, in either order",
            ));
        }
        Ok(())
    }

    /// Where the two regions of `a-b` stand. Names may have dashes too.
    fn pair(&self, pair: &str) -> Result<(usize, usize), Failure> {
        let place = |name: &str| self.names.iter().position(|known| known == name);
        let splits = pair.match_indices('-').map(|(at, dash)| (&pair[..at], &pair[at + dash.len()..]));
        let known = splits.filter_map(|(a, b)| Some((place(a)?, place(b)?))).next();
        match known {
            Some((a, b)) if a == b => {
                let fix = "leave it out: nodes of one region are next to each other";
                Err(wrong(format!("--rtt: {pair} is one region"), fix))
            }
            Some((a, b)) => Ok((a.min(b), a.max(b))),
            None => {
                let fix = format!("name two of {}, for example {}", self.names.join(", "), self.example());
                Err(wrong(format!("--rtt: {pair:?} is no pair of --regions"), fix))
            }
        }
    }

    fn example(&self) -> String {
        format!("{}-{}=80ms", self.names[0], self.names[1])
    }

    /// Their names, as they were given.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// How long what a region's node sends is held back on its way to each other region: half of the round trip.
    pub(super) fn delays(&self, from: &str) -> BTreeMap<String, Duration> {
        let mut delays = BTreeMap::new();
        for ((a, b), round_trip) in &self.round_trips {
            for (own, other) in [(a, b), (b, a)] {
                if self.names[*own] == from {
                    delays.insert(self.names[*other].clone(), *round_trip / 2);
                }
            }
        }
        delays
    }

    /// Every pair with its round trip, as a line.
    pub(super) fn describe(&self) -> String {
        let count = self.names.len();
        let pairs = (0..count).flat_map(|a| (a + 1..count).map(move |b| (a, b)));
        let described: Vec<_> = pairs
            .map(|(a, b)| {
                let time = self.round_trips.get(&(a, b)).copied().unwrap_or_default();
                format!("{}-{} {} ms", self.names[a], self.names[b], time.as_millis())
            })
            .collect();
        described.join(", ")
    }
}

fn check_names(names: &[String]) -> Result<(), Failure> {
    let example = "for example --regions eu,us,ap";
    if names.len() < 2 || names.len() > REGIONS_MAX {
        let message = format!("--regions: {} named", crate::output::plural(names.len(), "region"));
        return Err(wrong(message, format!("name 2 to {REGIONS_MAX}, {example}")));
    }
    let good = |name: &str| {
        let starts = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        starts
            && name.len() <= NAME_BYTES_MAX
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    if let Some(bad) = names.iter().find(|name| !good(name)) {
        let fix = format!("use letters, digits, - and _, at most {NAME_BYTES_MAX}, {example}");
        return Err(wrong(format!("--regions: {bad:?} is no name of a region"), fix));
    }
    let mut seen = BTreeSet::new();
    match names.iter().find(|name| !seen.insert(*name)) {
        Some(twice) => Err(wrong(format!("--regions: {twice} is named twice"), "name each region once")),
        None => Ok(()),
    }
}

fn wrong(message: impl Into<String>, fix: impl Into<String>) -> Failure {
    Failure::usage(anyhow!(message.into())).next(fix)
}

#[cfg(test)]
mod tests;
