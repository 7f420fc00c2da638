//! Which key each check asks: uniformly any of them, or a few far more often than the rest.

use std::str::FromStr;

use rand::SeedableRng;
use rand::distr::Distribution as _;
use rand::rngs::StdRng;
use rand_distr::{Uniform, Zipf};

/// How often each key is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Distribution {
    /// All equally.
    Uniform,
    /// The k-th most popular in proportion to 1/k^s.
    Zipf(f64),
}

impl FromStr for Distribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, exponent) = text.split_once(':').unwrap_or((text, "1.0"));
        match (name, exponent.parse::<f64>()) {
            ("uniform", _) if !text.contains(':') => Ok(Self::Uniform),
            ("zipf", Ok(s)) if s.is_finite() && (0.0..=10.0).contains(&s) => Ok(Self::Zipf(s)),
            _ => Err("write uniform, zipf, or zipf:S with an exponent from 0 to 10".to_owned()),
        }
    }
}

impl std::fmt::Display for Distribution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Zipf(s) => write!(f, "zipf:{s}"),
        }
    }
}

/// Draws keys.
pub(super) struct Sampler {
    rng: StdRng,
    shape: Shape,
    keys: u64,
}

enum Shape {
    Uniform(Uniform<u64>),
    Zipf(Zipf<f64>),
}

impl Sampler {
    /// Draws from `keys` keys, at least one; equal seeds draw equal keys.
    pub(super) fn new(distribution: Distribution, keys: u64, seed: u64) -> Self {
        let shape = match distribution {
            Distribution::Uniform => {
                Shape::Uniform(Uniform::new(0, keys).expect("a plan has at least one key"))
            }
            Distribution::Zipf(s) => Shape::Zipf(
                Zipf::new(keys as f64, s).expect("a plan's exponent and number of keys are in range"),
            ),
        };
        Self { rng: StdRng::seed_from_u64(seed), shape, keys }
    }

    /// The next key, below the number of keys.
    pub(super) fn next(&mut self) -> u64 {
        match &self.shape {
            Shape::Uniform(uniform) => uniform.sample(&mut self.rng),
            Shape::Zipf(zipf) => {
                let rank = zipf.sample(&mut self.rng);
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a rank is a whole number from 1 to at most 10^8"
                )]
                let rank = rank as u64;
                rank.saturating_sub(1).min(self.keys - 1)
            }
        }
    }
}
