//! A rotation that spreads what is in one channel of a row over all of them.
//!
//! A row of `n` values is multiplied by signs, drawn once and for all, and by the Hadamard matrix of order `b`, divided by
//! `sqrt(b)`, on each of its `n / b` parts, where `b` is the largest power of two that divides `n`, up to 256. Products of
//! two rows that are both rotated are what they were.
//!
//! Source: Ashkboos et al. 2024, "QuaRot", <https://arxiv.org/abs/2404.00456>.

/// The largest part of a row that is transformed.
const PART_MAX: usize = 256;

/// Without these, a row of equal values would end in one channel.
const SIGNS: [f32; PART_MAX] = {
    let mut signs = [1.0; PART_MAX];
    let mut i = 0;
    while i < PART_MAX {
        // The finalizer of MurmurHash3, whose bits are as good as random.
        let mut hash = i as u32 + 1;
        hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
        hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
        if hash >> 31 == 1 {
            signs[i] = -1.0;
        }
        i += 1;
    }
    signs
};

/// Rotates a row, in `n log2(b)` additions.
#[inline(always)]
pub(crate) fn rotate(row: &mut [f32]) {
    change_signs(row);
    transform(row);
}

/// Undoes [`rotate`], up to rounding.
pub(crate) fn rotate_back(row: &mut [f32]) {
    transform(row);
    change_signs(row);
}

#[inline(always)]
fn change_signs(row: &mut [f32]) {
    for part in row.chunks_mut(PART_MAX) {
        for (value, sign) in part.iter_mut().zip(&SIGNS) {
            *value *= sign;
        }
    }
}

/// The Hadamard transform of each part, its own inverse: sums and differences of values that are half of a part from each other, then a quarter,
/// and so on.
#[inline(always)]
fn transform(row: &mut [f32]) {
    let part_len = PART_MAX.min(1 << row.len().trailing_zeros());
    let scale = (1.0 / (part_len as f64).sqrt()) as f32;
    for part in row.chunks_exact_mut(part_len) {
        let mut apart = part_len / 2;
        while apart >= 4 {
            for both in part.chunks_exact_mut(2 * apart) {
                let (first, second) = both.split_at_mut(apart);
                for (first, second) in first.iter_mut().zip(second) {
                    (*first, *second) = (*first + *second, *first - *second);
                }
            }
            apart /= 2;
        }
        // The last two at once, which compilers make shuffles of.
        for values in part.as_chunks_mut::<4>().0 {
            let [a, b, c, d] = *values;
            let [sums, differences] = [[a + c, b + d], [a - c, b - d]];
            *values = [
                sums[0] + sums[1],
                sums[0] - sums[1],
                differences[0] + differences[1],
                differences[0] - differences[1],
            ]
            .map(
                #[inline(always)]
                |value| value * scale,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(len: usize) -> Vec<f32> {
        (0..len).map(|i| ((i * 37 + 11) % 101) as f32 - 50.0).collect()
    }

    fn product(a: &[f32], b: &[f32]) -> f64 {
        a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
    }

    /// Each value passes `log2(b)` additions and a scaling, each way: 17 roundings at most of the norm, which is all a value
    /// can be.
    #[test]
    fn rotating_back_gives_what_was() {
        for len in [16, 32, 48, 80, 96, 128, 256, 512, 1024] {
            let row = row(len);
            let mut rotated = row.clone();
            rotate(&mut rotated);
            assert_ne!(rotated, row);
            let norm = product(&row, &row).sqrt();
            rotate_back(&mut rotated);
            for (a, b) in row.iter().zip(&rotated) {
                assert!(
                    f64::from((a - b).abs()) <= 2.0 * 17.0 * f64::from(f32::EPSILON) * norm,
                    "{len}: {a} became {b}"
                );
            }
        }
    }

    #[test]
    fn products_are_kept() {
        for len in [16, 48, 128] {
            let (mut a, mut b) = (row(len), row(len));
            b.reverse();
            let (before, size) = (product(&a, &b), (product(&a, &a) * product(&b, &b)).sqrt());
            rotate(&mut a);
            rotate(&mut b);
            assert!((product(&a, &b) - before).abs() <= 2.0 * 17.0 * f64::from(f32::EPSILON) * size);
        }
    }

    #[test]
    fn one_channel_is_spread_over_all_and_so_are_equal_ones() {
        for spiked in [true, false] {
            let mut row: Vec<f32> = (0..128).map(|i| if i == 77 || !spiked { 8.0 } else { 0.0 }).collect();
            let norm = product(&row, &row).sqrt() as f32;
            rotate(&mut row);
            let largest = row.iter().fold(0.0, |largest: f32, x| largest.max(x.abs()));
            assert!(largest <= norm / 2.0, "{largest} of {norm}");
        }
    }
}
