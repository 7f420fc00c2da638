//! Shares of what isn't enough for all. Pure arithmetic.

/// The max-min fair share of `left` for whoever wants `own` of it, beside `others`: nobody gets more than it wants, and
/// nobody who gets less than another could have more of what that one gets.
pub(crate) fn max_min(mut left: u128, own: u64, others: impl Iterator<Item = u64>) -> u64 {
    let mut wanted: Vec<u64> = others.chain([own]).collect();
    wanted.sort_unstable();
    for (place, &one) in wanted.iter().enumerate() {
        let even = left / u128::try_from(wanted.len() - place).expect("fewer than 2^128");
        let even = u64::try_from(even).unwrap_or(u64::MAX);
        if one >= own || one > even {
            return own.min(even);
        }
        left -= u128::from(one);
    }
    0
}
