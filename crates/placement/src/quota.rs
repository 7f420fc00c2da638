//! Fair shares in whole seats: by weight, bounded, with remainders where they move least.

/// One party that seats are shared out to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    /// Relative share.
    pub weight: u64,
    /// Most seats it can take.
    pub most: usize,
    /// Seats it holds already: of equal claims the one that holds more keeps the odd seat.
    pub held: usize,
    /// Breaks the last ties.
    pub score: u64,
}

/// Shares `seats` out by weight: each gets its exact share rounded down or up, unless that is beyond its `most`, in which
/// case the others share what is over. Sums to `min(seats, Σ most)`.
pub(crate) fn share_out(seats: usize, claims: &[Claim]) -> Vec<usize> {
    let mut quota = vec![0; claims.len()];
    let mut open: Vec<usize> =
        (0..claims.len()).filter(|&i| claims[i].weight > 0 && claims[i].most > 0).collect();
    let mut left = seats;
    // Whoever's exact share reaches its bound gets the bound; the rest is shared anew among the others.
    loop {
        let total: u128 = open.iter().map(|&i| u128::from(claims[i].weight)).sum();
        let (full, rest): (Vec<usize>, Vec<usize>) = open
            .iter()
            .partition(|&&i| left as u128 * u128::from(claims[i].weight) >= claims[i].most as u128 * total);
        if full.is_empty() {
            break;
        }
        for &i in &full {
            quota[i] = claims[i].most;
            left -= claims[i].most;
        }
        open = rest;
        if open.is_empty() {
            return quota;
        }
    }
    let total: u128 = open.iter().map(|&i| u128::from(claims[i].weight)).sum();
    if total == 0 {
        return quota;
    }
    let exact = |i: usize| left as u128 * u128::from(claims[i].weight);
    for &i in &open {
        quota[i] = usize::try_from(exact(i) / total).unwrap_or(claims[i].most).min(claims[i].most);
    }
    let mut odd = left - open.iter().map(|&i| quota[i]).sum::<usize>();
    open.retain(|&i| quota[i] < claims[i].most);
    open.sort_by_key(|&i| {
        let keeps = claims[i].held > quota[i];
        std::cmp::Reverse((keeps && exact(i) % total > 0, exact(i) % total, claims[i].score))
    });
    for &i in open.iter().cycle().take(open.len() * 2) {
        if odd == 0 {
            break;
        }
        if quota[i] < claims[i].most {
            quota[i] += 1;
            odd -= 1;
        }
    }
    quota
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(seats: usize, claims: &[(u64, usize, usize)], expected: &[usize]) {
        let claims: Vec<Claim> =
            claims.iter().map(|&(weight, most, held)| Claim { weight, most, held, score: 0 }).collect();
        assert_eq!(share_out(seats, &claims), expected);
    }

    #[test]
    fn equal_claims_get_equal_seats() {
        check(12, &[(1, 99, 0), (1, 99, 0), (1, 99, 0)], &[4, 4, 4]);
    }

    #[test]
    fn the_odd_seat_stays_with_whoever_holds_it() {
        check(7, &[(1, 99, 3), (1, 99, 4)], &[3, 4]);
        check(7, &[(1, 99, 4), (1, 99, 3)], &[4, 3]);
    }

    #[test]
    fn weights_count() {
        check(10, &[(3, 99, 0), (2, 99, 0), (0, 99, 5)], &[6, 4, 0]);
    }

    #[test]
    fn what_is_beyond_a_bound_goes_to_the_others() {
        check(12, &[(10, 5, 0), (1, 99, 0), (1, 99, 0)], &[5, 4, 3]);
    }

    #[test]
    fn no_more_is_shared_out_than_there_is_room() {
        check(12, &[(1, 2, 0), (1, 3, 0)], &[2, 3]);
    }
}
