//! Sums over tiles of integers with AVX2, which multiplies bytes in pairs, to 16 bits, and these in pairs, to 32.

use std::arch::x86_64::*;

use super::ahead::Ahead;
use super::integers::LARGEST_MIN;
use super::step::{Columns, GROUP, Group, INTEGER_PAIRS, LINE, Panel, STEP_MAX, Scores, Step};
use crate::kv_cache::{Format, STRIP};
use crate::simd::{Arith, Avx2};

/// Of 32 bits.
const LANES: usize = 8;

/// Scores, see [`Integers::multiply`](super::integers::Integers::multiply).
///
/// # Safety
/// - As for it, and the CPU has the features.
#[target_feature(enable = "avx2,fma,f16c,popcnt,bmi1")]
pub(super) unsafe fn multiply<const NIBBLES: bool, const R: usize>(
    simd: Avx2,
    step: &Step<'_>,
    strip: usize,
    group: &Group<'_>,
    scores: &mut Scores,
    ahead: &mut Ahead,
) {
    let low_half = _mm256_set1_epi8(15);
    let ones = _mm256_set1_epi16(1);
    let start = step.strips.keys(strip);
    let (codes, pairs) = (group.codes.as_ptr(), group.pairs.as_ptr());
    for first in (0..STRIP).step_by(LANES) {
        let mut sums = [_mm256_setzero_si256(); R];
        for line in (0..step.plane_bytes / LINE).step_by(2) {
            if first == 0 {
                ahead.keep_up(simd, INTEGER_PAIRS, line * LINE);
            }
            // SAFETY: the caller vouches for the strips, of an even number of lines.
            let keys = unsafe {
                let keys = start.add(line * LINE + 4 * first);
                [_mm256_loadu_si256(keys.cast()), _mm256_loadu_si256(keys.add(LINE).cast())]
            };
            if NIBBLES {
                let mut halves = [[_mm256_setzero_si256(); 2]; 2];
                for (halves, keys) in halves.iter_mut().zip(keys) {
                    let high = _mm256_srli_epi16::<4>(keys);
                    *halves = [_mm256_and_si256(keys, low_half), _mm256_and_si256(high, low_half)];
                }
                for (r, sum) in sums.iter_mut().enumerate() {
                    let mut short_sum = _mm256_setzero_si256();
                    for (at, &half) in halves.as_flattened().iter().enumerate() {
                        let at = r * step.dim + 4 * (2 * line + at);
                        // SAFETY: the caller vouches for the queries, which have eight codes a line.
                        let q = unsafe { _mm256_set1_epi32(codes.add(at).cast::<i32>().read_unaligned()) };
                        // Eight products of 15 by 127 are less than 16 bits hold.
                        short_sum = _mm256_add_epi16(short_sum, _mm256_maddubs_epi16(half, q));
                    }
                    *sum = kept(_mm256_add_epi32(*sum, _mm256_madd_epi16(short_sum, ones)));
                }
            } else {
                for (line, keys) in (line..).zip(keys) {
                    for pair in 0..2 {
                        let keys = widened::<false>(keys, pair);
                        for (r, sum) in sums.iter_mut().enumerate() {
                            let at = r * step.dim / 2 + 2 * line + pair;
                            // SAFETY: the caller vouches for the queries, which have two pairs a line.
                            let q =
                                unsafe { _mm256_set1_epi32(pairs.add(at).cast::<i32>().read_unaligned()) };
                            *sum = kept(_mm256_add_epi32(*sum, _mm256_madd_epi16(keys, q)));
                        }
                    }
                }
            }
        }
        for (r, scores) in scores.iter_mut().enumerate().take(R) {
            let offset = _mm256_set1_ps(if NIBBLES { 7.5 * group.code_sums[r] } else { 0.0 });
            let score = _mm256_sub_ps(_mm256_cvtepi32_ps(sums[r]), offset);
            // SAFETY: a step has so many scores.
            unsafe { _mm256_storeu_ps(scores.as_mut_ptr().add(strip * STRIP + first), score) };
        }
    }
}

/// Of every four bytes the first and the third, or the second and the fourth, as 16 bits; of half bytes, the low ones first.
#[target_feature(enable = "avx2")]
#[inline]
fn widened<const NIBBLES: bool>(bytes: __m256i, pair: usize) -> __m256i {
    let low_half = _mm256_set1_epi16(15);
    match (NIBBLES, pair) {
        (false, 0) => _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(bytes)),
        (false, _) => _mm256_srai_epi16::<8>(bytes),
        (true, 0) => _mm256_and_si256(bytes, low_half),
        (true, 1) => _mm256_and_si256(_mm256_srli_epi16::<8>(bytes), low_half),
        (true, 2) => _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), low_half),
        (true, _) => _mm256_srli_epi16::<12>(bytes),
    }
}

/// The values that are seen, weighed and added to outputs, see [`Integers::add_values`](super::integers::Integers::add_values).
///
/// # Safety
/// - As for it, and the CPU has the features.
#[target_feature(enable = "avx2,fma,f16c,popcnt,bmi1")]
pub(super) unsafe fn add_values<const NIBBLES: bool, const R: usize>(
    simd: Avx2,
    step: &Step<'_>,
    weights: &Scores,
    factors: &[f32; R],
    o: *mut f32,
    ahead: &mut Ahead,
) {
    // SAFETY: the caller vouches for everything; `STRIP` divides `dim`.
    unsafe {
        let weights = round::<R>(simd, weights);
        let format = if NIBBLES { Format::Int4 } else { Format::Int8 };
        for panel in Panel::all(format, step.dim) {
            for d in (0..panel.width).step_by(STRIP) {
                add_columns::<NIBBLES, R>(simd, step, &weights, factors, o, panel.from(d), ahead);
            }
        }
    }
}

/// The same, though the compiler cannot tell what has been added so far: it would keep products, to add them up in another
/// order, and has no registers for them.
#[target_feature(enable = "avx2")]
#[inline]
fn kept(mut sum: __m256i) -> __m256i {
    // SAFETY: no instruction at all.
    unsafe {
        std::arch::asm!("/* {0} */", inout(ymm_reg) sum, options(pure, nomem, nostack, preserves_flags));
    }
    sum
}

/// Weights as integers.
struct Weights {
    /// Of four tokens, the first and the third, and the second and the fourth: tokens whose values are next to each other when
    /// every other byte is widened to 16 bits.
    pairs: [[[i16; 2]; STEP_MAX / 2]; GROUP],
    /// What an integer stands for; NaN if there is no largest weight.
    units: [f32; GROUP],
    /// The sums of the integers, which are exact.
    sums: [f32; GROUP],
}

#[target_feature(enable = "avx2,fma,f16c,popcnt,bmi1")]
fn round<const R: usize>(simd: Avx2, weights: &Scores) -> Weights {
    const INTEGER_MAX: f32 = i16::MAX as f32;
    let mut rounded =
        Weights { pairs: [[[0; 2]; STEP_MAX / 2]; GROUP], units: [0.0; GROUP], sums: [0.0; GROUP] };
    // SAFETY: a step has so many weights, a multiple of eight.
    let load = |r: usize, at: usize| unsafe { _mm256_loadu_ps(weights[r].as_ptr().add(at)) };
    let mut rates = [0.0; R];
    for (r, rate) in rates.iter_mut().enumerate() {
        // As bits, what is not negative has the same order, and NaN is the largest.
        let mut largest = _mm256_castps_si256(_mm256_set1_ps(LARGEST_MIN));
        for at in (0..STEP_MAX).step_by(LANES) {
            largest = _mm256_max_epu32(largest, _mm256_castps_si256(load(r, at)));
        }
        let largest = largest_lane(largest);
        // As with VNNI, one that is infinite spoils the sum.
        let largest = if largest.is_finite() { largest } else { f32::NAN };
        rounded.units[r] = largest / INTEGER_MAX;
        *rate = INTEGER_MAX / largest;
    }
    for (r, &rate) in rates.iter().enumerate() {
        let rate = _mm256_set1_ps(rate);
        let mut sum = _mm256_setzero_si256();
        for at in (0..STEP_MAX).step_by(LANES) {
            let integers = _mm256_cvtps_epi32(_mm256_mul_ps(load(r, at), rate));
            sum = _mm256_add_epi32(sum, integers);
            // Of each four, the first two are joined by the others.
            let others = _mm256_slli_epi32::<16>(_mm256_srli_si256::<8>(integers));
            let pairs = _mm256_blend_epi16::<0b1010_1010>(integers, others);
            let packed = _mm256_castsi256_si128(_mm256_permute4x64_epi64::<0b1000>(pairs));
            // SAFETY: there are half as many pairs as weights.
            unsafe { _mm_storeu_si128(rounded.pairs[r].as_mut_ptr().add(at / 2).cast(), packed) };
        }
        rounded.sums[r] = Arith::<f32>::reduce_add(simd, _mm256_cvtepi32_ps(sum));
    }
    rounded
}

/// The largest lane, in the order of the bits.
#[target_feature(enable = "avx2")]
#[inline]
fn largest_lane(v: __m256i) -> f32 {
    let four = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v));
    let two = _mm_max_epu32(four, _mm_shuffle_epi32::<0b1110>(four));
    let one = _mm_max_epu32(two, _mm_shuffle_epi32::<0b1>(two));
    f32::from_bits(_mm_cvtsi128_si32(one) as u32)
}

/// As many columns of a panel as a line has.
///
/// # Safety
/// - As for [`add_values`], the columns are in the panel, and the CPU has the features.
#[target_feature(enable = "avx2,fma,f16c,popcnt,bmi1")]
unsafe fn add_columns<const NIBBLES: bool, const R: usize>(
    simd: Avx2,
    step: &Step<'_>,
    weights: &Weights,
    factors: &[f32; R],
    o: *mut f32,
    columns: Columns,
    ahead: &mut Ahead,
) {
    let Columns { panel, d } = columns;
    let packed = if NIBBLES { 8 } else { 4 };
    let mut sums = [[_mm256_setzero_si256(); 2]; R];
    for (strip, seen) in step.seen.iter().enumerate() {
        if seen.from == seen.to {
            continue;
        }
        let start = step.strips.panel(strip, if NIBBLES { 4 } else { 8 }, panel);
        for line in 0..STRIP / packed {
            // SAFETY: the caller vouches for the strips and the columns.
            let values = unsafe {
                ahead.keep_up(simd, INTEGER_PAIRS, (strip * STRIP / packed + line) * LINE);
                let values = start.add(4 * (line * panel.width + d)).cast::<__m256i>();
                [_mm256_loadu_si256(values), _mm256_loadu_si256(values.add(1))]
            };
            for pair in 0..packed / 2 {
                let values = values.map(|values| widened::<NIBBLES>(values, pair));
                for (sums, pairs) in sums.iter_mut().zip(&weights.pairs) {
                    let at = (strip * STRIP + line * packed) / 2 + pair;
                    // SAFETY: there are as many weights as a step has tokens.
                    let weights =
                        _mm256_set1_epi32(unsafe { pairs.as_ptr().add(at).cast::<i32>().read_unaligned() });
                    for (sum, values) in sums.iter_mut().zip(values) {
                        *sum = kept(_mm256_add_epi32(*sum, _mm256_madd_epi16(values, weights)));
                    }
                }
            }
        }
    }
    for (r, (sums, &factor)) in sums.into_iter().zip(factors).enumerate() {
        let unit = _mm256_set1_ps(weights.units[r]);
        let offset = _mm256_set1_ps(if NIBBLES { 7.5 * weights.sums[r] } else { 0.0 });
        for (i, sum) in sums.into_iter().enumerate() {
            let sum = _mm256_sub_ps(_mm256_cvtepi32_ps(sum), offset);
            // SAFETY: the caller vouches for the outputs.
            unsafe {
                let o = o.add(r * step.dim + panel.first + d + i * LANES);
                let before = _mm256_mul_ps(_mm256_loadu_ps(o), _mm256_set1_ps(factor));
                _mm256_storeu_ps(o, _mm256_fmadd_ps(sum, unit, before));
            }
        }
    }
}
