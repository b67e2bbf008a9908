//! A rotation that spreads what is in one channel of a row over all of them.
//!
//! A row of `n` values is multiplied by signs, drawn once and for all, and by the Hadamard matrix of order `b`, divided by
//! `sqrt(b)`, on each of its `n / b` parts, where `b` is the largest power of two that divides `n`, up to 256. Products of
//! two rows that are both rotated are what they were.
//!
//! Source: Ashkboos et al. 2024, "QuaRot", <https://arxiv.org/abs/2404.00456>.

use super::format::MULTIPLE;
use crate::simd::{Exchange, LANES_MAX};

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

/// Rotates a row, in `n log2(b)` additions: the same on any instruction set.
#[inline(always)]
pub(crate) fn rotate<S: Exchange>(simd: S, row: &mut [f32]) {
    change_signs(row);
    transform(simd, row);
}

/// Undoes [`rotate`], up to rounding.
#[inline(always)]
pub(crate) fn rotate_back<S: Exchange>(simd: S, row: &mut [f32]) {
    transform(simd, row);
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
fn transform<S: Exchange>(simd: S, row: &mut [f32]) {
    debug_assert!(row.len().is_multiple_of(MULTIPLE));
    let part_len = PART_MAX.min(1 << row.len().trailing_zeros());
    let scale = simd.splat((1.0 / (part_len as f64).sqrt()) as f32);
    for part in row.chunks_exact_mut(part_len) {
        let mut apart = part_len / 2;
        while apart >= S::LANES {
            for both in part.chunks_exact_mut(2 * apart) {
                let (first, second) = both.split_at_mut(apart);
                for (first, second) in first.iter_mut().zip(second) {
                    (*first, *second) = (*first + *second, *first - *second);
                }
            }
            apart /= 2;
        }
        for values in part.chunks_exact_mut(S::LANES) {
            // SAFETY: the chunk has `LANES` values.
            let mut v = unsafe { simd.load_acc(values.as_ptr()) };
            if S::LANES > 8 {
                v = within::<S, 8>(simd, v);
            }
            if S::LANES > 4 {
                v = within::<S, 4>(simd, v);
            }
            v = within::<S, 1>(simd, within::<S, 2>(simd, v));
            // SAFETY: as above.
            unsafe { simd.store_acc(values.as_mut_ptr(), simd.mul(v, scale)) };
        }
    }
}

/// Sums and differences of lanes that are so far apart.
#[inline(always)]
fn within<S: Exchange, const APART: usize>(simd: S, v: S::V) -> S::V {
    const { assert!(APART < LANES_MAX) };
    let signs: [f32; LANES_MAX] = const {
        let mut signs = [1.0; LANES_MAX];
        let mut i = 0;
        while i < LANES_MAX {
            if i & APART != 0 {
                signs[i] = -1.0;
            }
            i += 1;
        }
        signs
    };
    // SAFETY: no vector has more than `LANES_MAX` lanes.
    let signs = unsafe { simd.load_acc(signs.as_ptr()) };
    simd.mul_add(v, signs, simd.exchange::<APART>(v))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Isa;
    use crate::simd::{Portable, dispatch};

    struct Rotate<'a>(&'a mut [f32]);

    impl Rotate<'_> {
        #[inline(always)]
        fn eval<S: Exchange>(self, simd: S) {
            rotate(simd, self.0);
        }
    }

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
            rotate(Portable, &mut rotated);
            assert_ne!(rotated, row);
            let norm = product(&row, &row).sqrt();
            rotate_back(Portable, &mut rotated);
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
            rotate(Portable, &mut a);
            rotate(Portable, &mut b);
            assert!((product(&a, &b) - before).abs() <= 2.0 * 17.0 * f64::from(f32::EPSILON) * size);
        }
    }

    #[test]
    fn one_channel_is_spread_over_all_and_so_are_equal_ones() {
        for spiked in [true, false] {
            let mut row: Vec<f32> = (0..128).map(|i| if i == 77 || !spiked { 8.0 } else { 0.0 }).collect();
            let norm = product(&row, &row).sqrt() as f32;
            rotate(Portable, &mut row);
            let largest = row.iter().fold(0.0, |largest: f32, x| largest.max(x.abs()));
            assert!(largest <= norm / 2.0, "{largest} of {norm}");
        }
    }

    /// An entry of the matrix is negative where the numbers of row and column have an odd number of bits in common.
    #[test]
    fn it_is_the_product_with_the_matrix_and_the_same_on_any_instruction_set() {
        for len in [16, 32, 48, 128, 256, 512] {
            let before = row(len);
            let part_len = PART_MAX.min(1 << len.trailing_zeros());
            // Eight additions and a scaling.
            let bound = 9.0 * f64::from(f32::EPSILON) * product(&before, &before).sqrt();
            let mut of_first = None;
            for isa in Isa::available() {
                let mut rotated = before.clone();
                dispatch!(Token::new(isa).expect("it is available"), Rotate(&mut rotated));
                assert_eq!(of_first.get_or_insert_with(|| rotated.clone()), &rotated, "{isa}, {len}");
            }
            for (i, &rotated) in of_first.expect("one is always available").iter().enumerate() {
                let start = i / part_len * part_len;
                let terms = (0..part_len).map(|j| {
                    let shared = (i & j & (part_len - 1)).count_ones();
                    let sign = if shared.is_multiple_of(2) { 1.0 } else { -1.0 };
                    sign * f64::from(SIGNS[(start + j) % PART_MAX] * before[start + j])
                });
                let wanted = terms.sum::<f64>() / (part_len as f64).sqrt();
                assert!((f64::from(rotated) - wanted).abs() <= bound, "{len}, {i}: {rotated} for {wanted}");
            }
        }
    }
}
