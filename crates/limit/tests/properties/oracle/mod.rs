//! A slow second opinion, written from the contract alone: exact rationals, whole histories, answers by search.
//!
//! An algorithm here says only three things: whether a cost fits at a time, whether it equals a fresh one at a time,
//! and (shaper) when one would have its turn. Every other field of an answer is found by searching for the smallest or
//! largest number that fits its definition. Nothing is shared with the code under test but the types of its interface.

mod smooth;
mod windowed;

use leasehold_limit::{Algorithm, Ask, Decision, Limit, RetryAfter};
use leasehold_model::Nanos;
use num_bigint::BigInt;
use num_rational::BigRational;

use self::smooth::{Meter, Shaper, Tokens};
use self::windowed::{Estimate, Log, Windows};

/// Times here are wider than stamps, so that no answer is cut off at the end of the time line.
pub(crate) type Time = u128;

/// Past this a search gives up: far beyond every wait that 64 bits can tell.
const SEARCH_MAX: u128 = 1 << 70;

/// One counter by its definition.
pub(crate) trait Oracle {
    /// Whether `cost` units would be admitted at `at`, if nothing else was taken in between.
    fn fits(&self, at: Time, cost: u64) -> bool;
    /// Takes units that fit.
    fn take(&mut self, at: Time, cost: u64);
    /// Whether it differs in nothing from a counter that was never used.
    fn is_fresh(&self, at: Time) -> bool;
    /// When a request at `at` would have its turn; `None` where there are no turns.
    fn turn(&self, _at: Time) -> Option<Time> {
        None
    }
    /// Other numbers of the same algorithm from `at` on.
    fn change(&mut self, at: Time, limit: &Limit);
    /// Undoes a charge of the past as if it had been smaller by `cost`; for algorithms where history can be rewritten.
    fn forget(&mut self, charged_at: Time, cost: u64);
}

/// The oracle of a limit.
pub(crate) fn oracle(limit: &Limit) -> Box<dyn Oracle> {
    match limit.algorithm() {
        Algorithm::TokenBucket { burst } => Box::new(Tokens::new(limit, *burst)),
        Algorithm::LeakyBucket { burst } => Box::new(Meter::new(limit, *burst)),
        Algorithm::Shaper { queue } => Box::new(Shaper::new(limit, *queue)),
        Algorithm::FixedWindow(window) => Box::new(Windows::new(limit, window.clone())),
        Algorithm::SlidingLog => Box::new(Log::new(limit)),
        Algorithm::SlidingCounter => Box::new(Estimate::new(limit)),
    }
}

/// What the contract says to `ask`, and the units taken accordingly.
///
/// `guess` is what the code under test says. A number in it that meets its definition is the one that a search would
/// find, so the search is only done where it doesn't: to tell what is right.
pub(crate) fn answer(oracle: &mut dyn Oracle, cap: u64, at: u64, ask: Ask, guess: &Decision) -> Decision {
    let at = Time::from(at);
    let least = if ask.is_peek() { 1 } else { ask.min.max(1) };
    let left = largest_that_fits(oracle, cap, at, guess.remaining.saturating_add(guess.granted));
    let allowed = least <= left;
    let granted = if allowed && !ask.is_peek() { ask.max.max(least).min(left) } else { 0 };
    let retry_after = (!allowed).then(|| retry(oracle, cap, at, least, guess));
    let wait = allowed.then(|| oracle.turn(at)).flatten().map(|turn| nanos(turn - at));
    if granted > 0 {
        oracle.take(at, granted);
    }
    let reset_after = first(guess.reset_after, |wait| oracle.is_fresh(at + wait));
    Decision {
        allowed,
        granted,
        remaining: largest_that_fits(oracle, cap, at, guess.remaining),
        retry_after,
        reset_after: nanos(reset_after.expect("every counter is fresh some day")),
        next_unit_after: first(guess.next_unit_after, |wait| oracle.fits(at + wait, 1))
            .map_or(Nanos::MAX, nanos),
        wait,
    }
}

fn retry(oracle: &dyn Oracle, cap: u64, at: Time, cost: u64, guess: &Decision) -> RetryAfter {
    let guess = match guess.retry_after {
        Some(RetryAfter::In(wait)) => wait,
        Some(RetryAfter::Never) | None => Nanos::MAX,
    };
    match first(guess, |wait| oracle.fits(at + wait, cost)) {
        Some(wait) if cost <= cap => RetryAfter::In(nanos(wait)),
        None if cost > cap => RetryAfter::Never,
        found => panic!("a cost of {cost} with a cap of {cap} fits after {found:?}"),
    }
}

/// The largest cost that fits; costs above the cap are taken to be refused, which `retry` proves of those it meets.
fn largest_that_fits(oracle: &dyn Oracle, cap: u64, at: Time, guess: u64) -> u64 {
    let fits = |cost: u64| cost == 0 || (cost <= cap && oracle.fits(at, cost));
    if fits(guess) && !guess.checked_add(1).is_some_and(fits) {
        return guess;
    }
    let (mut most, mut too_many) = (0_u128, u128::from(cap) + 1);
    while too_many - most > 1 {
        let middle = u128::midpoint(most, too_many);
        if fits(u64::try_from(middle).expect("at most the cap")) {
            most = middle;
        } else {
            too_many = middle;
        }
    }
    u64::try_from(most).expect("at most the cap")
}

/// The first wait that `holds`, given that whatever holds once holds from then on.
fn first(guess: Nanos, holds: impl Fn(u128) -> bool) -> Option<u128> {
    let guess = u128::from(guess.0);
    if holds(guess) && !guess.checked_sub(1).is_some_and(&holds) {
        return Some(guess);
    }
    if !holds(SEARCH_MAX) {
        return None;
    }
    let (mut least, mut most) = (0, SEARCH_MAX);
    while least < most {
        let middle = u128::midpoint(least, most);
        if holds(middle) {
            most = middle;
        } else {
            least = middle + 1;
        }
    }
    Some(least)
}

fn nanos(wait: u128) -> Nanos {
    Nanos(u64::try_from(wait).unwrap_or(u64::MAX))
}

fn whole(number: impl Into<BigInt>) -> BigRational {
    BigRational::from_integer(number.into())
}
