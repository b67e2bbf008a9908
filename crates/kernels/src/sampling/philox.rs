//! Philox4x32-10, a counter-based random number generator: a function of key and counter, with no state to carry along.
//!
//! Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011,
//! <https://doi.org/10.1145/2063384.2063405>; integer arithmetic only, so the same everywhere.

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// The golden ratio and the square root of 3, minus 1.
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: u32 = 10;

fn philox4x32(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..ROUNDS {
        let [low, high] = halves(u64::from(MULTIPLIERS[0]) * u64::from(counter[0]));
        let [low_2, high_2] = halves(u64::from(MULTIPLIERS[1]) * u64::from(counter[2]));
        counter = [high_2 ^ counter[1] ^ key[0], low_2, high ^ counter[3] ^ key[1], low];
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
    }
    counter
}

/// Low half first.
fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

/// A number from 0 to below 1, a multiple of 2⁻⁵³: the first two words at key `seed` and counter `(row, step)`.
pub(super) fn uniform(seed: u64, row: u64, step: u64) -> f64 {
    let ([row_low, row_high], [step_low, step_high]) = (halves(row), halves(step));
    let [low, high, ..] = philox4x32([row_low, row_high, step_low, step_high], halves(seed));
    let bits = u64::from(high) << 32 | u64::from(low);
    (bits >> 11) as f64 * (f64::EPSILON / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers_of_the_authors() {
        // `kat_vectors` of Random123 1.14, lines `philox4x32 10`.
        for (counter, key, expected) in [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ] {
            assert_eq!(philox4x32(counter, key), expected);
        }
    }

    #[test]
    fn uniform_is_of_seed_row_and_step() {
        let numbers =
            [uniform(0, 0, 0), uniform(1, 0, 0), uniform(0, 1, 0), uniform(0, 0, 1), uniform(0, 1 << 32, 0)];
        for (i, a) in numbers.iter().enumerate() {
            assert!((0.0..1.0).contains(a));
            assert!(numbers[i + 1..].iter().all(|b| a != b), "{numbers:?}");
        }
        // (0xe169c58d6627e8d5 >> 11) / 2^53
        assert_eq!(uniform(0, 0, 0), 0x1c_2d38_b1ac_c4fd_u64 as f64 / (1_u64 << 53) as f64);
    }
}
