//! Sums over tiles of integers, by the instruction that adds four products of bytes to a lane of 32 bits.

use std::arch::x86_64::*;

use super::ahead::Ahead;
use super::integers::LARGEST_MIN;
use super::step::{Columns, GROUP, Group, INTEGER_PAIRS, LINE, Panel, STEP_MAX, STRIPS_MAX, Scores, Step};
use crate::kv_cache::{Format, STRIP};
use crate::simd::Avx512;

/// Scores, see [`Integers::multiply`](super::integers::Integers::multiply).
///
/// # Safety
/// - As for it, and the CPU has the features.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,popcnt,bmi1")]
pub(super) unsafe fn multiply<const NIBBLES: bool, const R: usize>(
    simd: Avx512,
    step: &Step<'_>,
    strip: usize,
    group: &Group<'_>,
    scores: &mut Scores,
    ahead: &mut Ahead,
) {
    let (low_half, high_half) = (_mm512_set1_epi8(15), _mm512_set1_epi8(-16));
    let sign = _mm512_set1_epi8(-128);
    let start = step.strips.keys(strip);
    let codes = group.codes.as_ptr();
    // Of even and odd lines; of half bytes, the low ones, and sixteen times the high ones.
    let mut sums = [[_mm512_setzero_si512(); R]; 2];
    for lines in (0..step.plane_bytes / LINE).step_by(2) {
        ahead.keep_up(simd, INTEGER_PAIRS, lines * LINE);
        for u in 0..2 {
            let line = lines + u;
            // SAFETY: the caller vouches for the strips, of an even number of lines.
            let keys = unsafe { _mm512_loadu_si512(start.add(line * LINE).cast()) };
            // SAFETY: the caller vouches for the queries, which have four codes a line, or eight.
            let q = |r: usize, at: usize| unsafe {
                _mm512_set1_epi32(codes.add(r * step.dim + 4 * at).cast::<i32>().read_unaligned())
            };
            if NIBBLES {
                let halves = [_mm512_and_si512(keys, low_half), _mm512_and_si512(keys, high_half)];
                for (i, (sums, half)) in sums.iter_mut().zip(halves).enumerate() {
                    for (r, sum) in sums.iter_mut().enumerate() {
                        *sum = _mm512_dpbusd_epi32(*sum, half, q(r, 2 * line + i));
                    }
                }
            } else {
                let keys = _mm512_xor_si512(keys, sign);
                for (r, sum) in sums[u].iter_mut().enumerate() {
                    *sum = _mm512_dpbusd_epi32(*sum, keys, q(r, line));
                }
            }
        }
    }
    let [first, second] = sums;
    for (r, scores) in scores.iter_mut().enumerate().take(R) {
        let second = if NIBBLES { _mm512_srai_epi32::<4>(second[r]) } else { second[r] };
        let sum = _mm512_cvtepi32_ps(_mm512_add_epi32(first[r], second));
        let offset = _mm512_set1_ps(group.code_sums[r] * if NIBBLES { 7.5 } else { 128.0 });
        // SAFETY: a step has so many scores.
        unsafe { _mm512_storeu_ps(scores.as_mut_ptr().add(strip * STRIP), _mm512_sub_ps(sum, offset)) };
    }
}

/// The values that are seen, weighed and added to outputs, see [`Integers::add_values`](super::integers::Integers::add_values).
///
/// # Safety
/// - As for it, and the CPU has the features.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,popcnt,bmi1")]
pub(super) unsafe fn add_values<const NIBBLES: bool, const R: usize>(
    simd: Avx512,
    step: &Step<'_>,
    weights: &Scores,
    factors: &[f32; R],
    o: *mut f32,
    ahead: &mut Ahead,
) {
    // SAFETY: the caller vouches for everything, and the columns are in their panels.
    unsafe {
        if NIBBLES {
            let weights = round::<R, 1>(weights);
            for panel in Panel::all(Format::Int4, step.dim) {
                if panel.width == 4 * STRIP {
                    add_columns::<true, R, 1, 4>(simd, step, &weights, factors, o, panel.from(0), ahead);
                    continue;
                }
                for d in (0..panel.width).step_by(STRIP) {
                    add_columns::<true, R, 1, 1>(simd, step, &weights, factors, o, panel.from(d), ahead);
                }
            }
        } else {
            let weights = round::<R, 2>(weights);
            for panel in Panel::all(Format::Int8, step.dim) {
                if panel.width == 2 * STRIP {
                    add_columns::<false, R, 2, 2>(simd, step, &weights, factors, o, panel.from(0), ahead);
                } else {
                    add_columns::<false, R, 2, 1>(simd, step, &weights, factors, o, panel.from(0), ahead);
                }
            }
        }
    }
}

/// Weights as integers, of twice as many bits as values: of 8, or of 16 in two halves of which each makes a sum.
struct Weights<const HALVES: usize> {
    /// The lower eight bits, and the upper.
    halves: [[[u8; STEP_MAX]; HALVES]; GROUP],
    /// What an integer stands for; NaN if there is no largest weight.
    units: [f32; GROUP],
    /// The sums of the integers, which are exact.
    sums: [f32; GROUP],
}

/// # Safety
/// - The CPU has the features.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,popcnt,bmi1")]
unsafe fn round<const R: usize, const HALVES: usize>(weights: &Scores) -> Weights<HALVES> {
    let integer_max = if HALVES == 1 { f32::from(u8::MAX) } else { f32::from(u16::MAX) };
    let mut rounded =
        Weights { halves: [[[0; STEP_MAX]; HALVES]; GROUP], units: [0.0; GROUP], sums: [0.0; GROUP] };
    for (r, weights) in weights.iter().enumerate().take(R) {
        // SAFETY: a step has sixteen weights a strip, and as many bytes for each of their halves.
        unsafe {
            let load = |strip: usize| _mm512_loadu_ps(weights.as_ptr().add(strip * STRIP));
            // As bits, what is not negative has the same order, and NaN is the largest.
            let mut largest = _mm512_castps_si512(_mm512_set1_ps(LARGEST_MIN));
            for strip in 0..STRIPS_MAX {
                largest = _mm512_max_epu32(largest, _mm512_castps_si512(load(strip)));
            }
            let largest = f32::from_bits(_mm512_reduce_max_epu32(largest));
            // One that is infinite spoils the sum.
            let largest = if largest.is_finite() { largest } else { f32::NAN };
            rounded.units[r] = largest / integer_max;
            let rate = _mm512_set1_ps(integer_max / largest);
            let mut sum = _mm512_setzero_si512();
            for strip in 0..STRIPS_MAX {
                let integers = _mm512_cvtps_epi32(_mm512_mul_ps(load(strip), rate));
                sum = _mm512_add_epi32(sum, integers);
                for (half, bytes) in rounded.halves[r].iter_mut().enumerate() {
                    let shifted = if half == 0 { integers } else { _mm512_srli_epi32::<8>(integers) };
                    let bytes = bytes.as_mut_ptr().add(strip * STRIP).cast();
                    _mm_storeu_si128(bytes, _mm512_cvtepi32_epi8(shifted));
                }
            }
            rounded.sums[r] = _mm512_reduce_add_epi32(sum) as f32;
        }
    }
    rounded
}

/// `C` vectors of columns of a panel.
///
/// # Safety
/// - As for [`add_values`], the columns are in the panel, and the CPU has the features.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,popcnt,bmi1")]
unsafe fn add_columns<const NIBBLES: bool, const R: usize, const HALVES: usize, const C: usize>(
    simd: Avx512,
    step: &Step<'_>,
    weights: &Weights<HALVES>,
    factors: &[f32; R],
    o: *mut f32,
    columns: Columns,
    ahead: &mut Ahead,
) {
    let Columns { panel, d } = columns;
    let low_half = _mm512_set1_epi8(15);
    let packed = if NIBBLES { 8 } else { 4 };
    let mut sums = [[[_mm512_setzero_si512(); C]; HALVES]; R];
    for (strip, seen) in step.seen.iter().enumerate() {
        if seen.from == seen.to {
            continue;
        }
        let start = step.strips.panel(strip, 32 / packed, panel);
        for line in 0..STRIP / packed {
            ahead.keep_up(simd, INTEGER_PAIRS, (strip * STRIP / packed + line) * C * LINE);
            // SAFETY: the caller vouches for the strips and the columns. There are as many weights as a step has tokens.
            unsafe {
                let at = 4 * (line * panel.width + d);
                let (mut first, mut second) = ([low_half; C], [low_half; C]);
                for (c, (first, second)) in first.iter_mut().zip(&mut second).enumerate() {
                    let both = _mm512_loadu_si512(start.add(at + c * LINE).cast());
                    *first = if NIBBLES { _mm512_and_si512(both, low_half) } else { both };
                    *second = _mm512_and_si512(_mm512_srli_epi16::<4>(both), low_half);
                }
                let token = strip * STRIP + line * packed;
                for (i, values) in [first, second].iter().enumerate().take(packed / 4) {
                    for (sums, halves) in sums.iter_mut().zip(&weights.halves) {
                        for (sums, half) in sums.iter_mut().zip(halves) {
                            let weights = half.as_ptr().add(token + 4 * i).cast::<i32>();
                            let weights = _mm512_set1_epi32(weights.read_unaligned());
                            for (sum, &values) in sums.iter_mut().zip(values) {
                                *sum = _mm512_dpbusd_epi32(*sum, weights, values);
                            }
                        }
                    }
                }
            }
        }
    }
    for (r, (halves, &factor)) in sums.into_iter().zip(factors).enumerate() {
        let unit = _mm512_set1_ps(weights.units[r]);
        let offset = _mm512_set1_ps(if NIBBLES { 7.5 * weights.sums[r] } else { 0.0 });
        for c in 0..C {
            let mut sum = _mm512_setzero_si512();
            for half in halves.iter().rev() {
                sum = _mm512_add_epi32(_mm512_slli_epi32::<8>(sum), half[c]);
            }
            // SAFETY: the caller vouches for the outputs.
            unsafe {
                let o = o.add(r * step.dim + panel.first + d + c * STRIP);
                let before = _mm512_mul_ps(_mm512_loadu_ps(o), _mm512_set1_ps(factor));
                let sum = _mm512_sub_ps(_mm512_cvtepi32_ps(sum), offset);
                _mm512_storeu_ps(o, _mm512_fmadd_ps(sum, unit, before));
            }
        }
    }
}
