//! What the score would be if other cases and workloads had been drawn.
//!
//! A Poisson bootstrap: in each draw a case counts as often as a Poisson variable of mean 1 says. The variable is a function of
//! the case's id and the draw, so all submissions of a challenge are drawn anew alike, whoever is judged when: their
//! differences are between the same cases, and ranks in the same draw can be compared.

use std::sync::LazyLock;

/// How many draws.
pub const DRAWS: usize = 200;

/// A case or a workload, by the hash of its id (FNV-1a).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thing(u64);

impl Thing {
    /// What has that id.
    pub fn of(id: &str) -> Self {
        Self(id.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        }))
    }
}

/// How often it counts in a draw.
pub fn weight(thing: Thing, draw: usize) -> f64 {
    // The hash, mixed with the draw by the finaliser of SplitMix64.
    let mut mixed = thing.0.wrapping_add((draw as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    poisson((mixed ^ (mixed >> 31)) as f64 / u64::MAX as f64)
}

/// The Poisson variable of mean 1 whose distribution function reaches `u`.
fn poisson(u: f64) -> f64 {
    static REACHED: LazyLock<[f64; 12]> = LazyLock::new(|| {
        let mut probability = (-1.0_f64).exp();
        let mut reached = [probability; 12];
        for count in 1..12 {
            probability /= count as f64;
            reached[count] = reached[count - 1] + probability;
        }
        reached
    });
    REACHED.iter().take_while(|reached| **reached < u).count() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_have_the_mean_and_variance_of_a_poisson_variable() {
        let draws: Vec<f64> = (0..100)
            .flat_map(|case| (0..DRAWS).map(move |draw| weight(Thing::of(&format!("basic/{case}")), draw)))
            .collect();
        let n = draws.len() as f64;
        let mean = draws.iter().sum::<f64>() / n;
        let variance = draws.iter().map(|w| (w - mean).powi(2)).sum::<f64>() / n;
        // Of 20,000 draws the mean strays by 0.007, the variance by 0.012.
        assert!((mean - 1.0).abs() < 0.03, "{mean}");
        assert!((variance - 1.0).abs() < 0.05, "{variance}");
    }

    #[test]
    fn draws_of_one_case_and_of_neighbours_are_unlike() {
        let of = |case: &str| (0..DRAWS).map(|draw| weight(Thing::of(case), draw)).collect::<Vec<_>>();
        let (a, b) = (of("basic/1"), of("basic/2"));
        assert_eq!(a, of("basic/1"), "the same everywhere and always");
        let covariance = a.iter().zip(&b).map(|(a, b)| (a - 1.0) * (b - 1.0)).sum::<f64>() / DRAWS as f64;
        assert!(covariance.abs() < 0.25, "{covariance}");
    }
}
