//! Parts of a limit.
//!
//! Invariant: the parts of a limit never add up to more than the whole: a rate is divided exactly or rounded down, and so
//! are bursts and counts.

use leasehold_model::Nanos;

use crate::{Algorithm, Limit};

const MILLION: u64 = 1_000_000;

/// A part of a limit, as an exact fraction that is at most one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Share {
    parts: u64,
    of: u64,
}

impl Share {
    /// Everything.
    pub const WHOLE: Self = Self { parts: 1, of: 1 };

    /// `ppm` millionths of a limit, for each of `edges` alike. Above the whole: the whole; for no edge: nothing.
    #[must_use]
    pub fn each(ppm: u32, edges: u32) -> Self {
        match edges {
            0 => Self { parts: 0, of: 1 },
            _ => Self { parts: u64::from(ppm).min(MILLION), of: MILLION * u64::from(edges) }.reduced(),
        }
    }

    /// What is left of a limit of which `ppm` millionths are kept back.
    #[must_use]
    pub fn without(ppm: u32) -> Self {
        Self { parts: MILLION - u64::from(ppm).min(MILLION), of: MILLION }.reduced()
    }

    /// Of what [`Self::without`] leaves: the part that comes to `ppm` millionths of the whole for each of `edges` alike. At
    /// most half of a limit can be shared out so; more counts as half.
    #[must_use]
    pub fn each_of_rest(ppm: u32, edges: u32) -> Self {
        let ppm = u64::from(ppm).min(MILLION / 2);
        match edges {
            0 => Self { parts: 0, of: 1 },
            _ => Self { parts: ppm, of: (MILLION - ppm) * u64::from(edges) }.reduced(),
        }
    }

    /// One part of this share, of so many: a broker's child's. Of none: nothing.
    #[must_use]
    pub fn split(self, children: u32) -> Self {
        match self.of.checked_mul(u64::from(children)) {
            Some(of) if of > 0 => Self { parts: self.parts, of },
            Some(_) | None => Self { parts: 0, of: 1 },
        }
    }

    /// The limit at this share, with the same algorithm: rate exact where the numbers allow, otherwise rounded down, as
    /// burst and counts are. `None`: nothing is left of it, or it is a shaper, whose turns can't be shared out.
    #[must_use]
    pub fn scale(self, limit: &Limit) -> Option<Limit> {
        match limit.algorithm() {
            Algorithm::TokenBucket { burst } => {
                self.bucket(limit, Algorithm::TokenBucket { burst: self.floor(*burst) })
            }
            Algorithm::LeakyBucket { burst } => {
                self.bucket(limit, Algorithm::LeakyBucket { burst: self.floor(*burst) })
            }
            Algorithm::Shaper { .. } => None,
            Algorithm::FixedWindow(_) | Algorithm::SlidingLog | Algorithm::SlidingCounter => {
                let n = Some(self.floor(limit.n())).filter(|&n| n > 0)?;
                Limit::new(limit.algorithm().clone(), n, limit.period()).ok()
            }
        }
    }

    /// n·parts a period·of, which loses nothing; where that doesn't fit, ⌊n·parts/of⌋ a period.
    fn bucket(self, limit: &Limit, algorithm: Algorithm) -> Option<Limit> {
        let (n, period) = (limit.n(), limit.period().0);
        let exact = n.checked_mul(self.parts).zip(period.checked_mul(self.of));
        let scaled = exact.and_then(|(n, period)| {
            let common = gcd(n, period).max(1);
            Limit::new(algorithm.clone(), n / common, Nanos(period / common)).ok()
        });
        scaled.or_else(|| Limit::new(algorithm, self.floor(n), Nanos(period)).ok())
    }

    fn floor(self, units: u64) -> u64 {
        let units = u128::from(units) * u128::from(self.parts) / u128::from(self.of);
        u64::try_from(units).expect("a share is at most the whole")
    }

    fn reduced(self) -> Self {
        let common = gcd(self.parts, self.of).max(1);
        Self { parts: self.parts / common, of: self.of / common }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests;
