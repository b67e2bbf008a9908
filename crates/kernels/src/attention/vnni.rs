//! Sums over tiles of integers, by the instruction that adds four products of bytes to a lane of 32 bits.

use std::arch::x86_64::*;

use super::ahead::Ahead;
use super::integers::LARGEST_MIN;
use super::tile::{GROUP, INTEGER_PAIRS, LINE, STEP_MAX, Scores, Step, TILES_MAX};
use crate::kv_cache::TILE;
use crate::simd::Avx512;

/// Tiles that are multiplied with a query while it is in a register.
const TOGETHER: usize = 2;

/// Scores, see [`Integers::multiply`](super::integers::Integers::multiply).
///
/// # Safety
/// - As for it, and the CPU has the features.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,popcnt,bmi1")]
pub(super) unsafe fn multiply<const NIBBLES: bool, const R: usize>(
    simd: Avx512,
    step: &Step<'_>,
    codes: *const i8,
    code_sums: &[f32],
    scores: &mut Scores,
    ahead: &mut Ahead,
) {
    let low_half = _mm512_set1_epi8(15);
    let sign = _mm512_set1_epi8(-128);
    for tile in (0..TILES_MAX).step_by(TOGETHER) {
        let tiles: &[*const u8; TOGETHER] = step.tiles[tile..].first_chunk().expect("as many tiles");
        let mut sums = [[[_mm512_setzero_si512(); R]; TOGETHER]; 2];
        for lines in (0..step.plane_bytes / LINE).step_by(2) {
            ahead.keep_up(simd, INTEGER_PAIRS, lines * TOGETHER * LINE);
            for (u, sums) in sums.iter_mut().enumerate() {
                let line = lines + u;
                let mut keys = [sign; TOGETHER];
                for (keys, tile) in keys.iter_mut().zip(tiles) {
                    // SAFETY: the caller vouches for the tiles, of an even number of lines.
                    *keys = unsafe { _mm512_loadu_si512(tile.add(line * LINE).cast()) };
                }
                // SAFETY: the caller vouches for the queries, which have four codes a line, or eight.
                let q = |r: usize, at: usize| unsafe {
                    _mm512_set1_epi32(codes.add(r * step.dim + 4 * at).cast::<i32>().read_unaligned())
                };
                if NIBBLES {
                    let (mut low, mut high) = (keys, keys);
                    for (low, high) in low.iter_mut().zip(&mut high) {
                        *high = _mm512_and_si512(_mm512_srli_epi16::<4>(*high), low_half);
                        *low = _mm512_and_si512(*low, low_half);
                    }
                    for r in 0..R {
                        let (first, second) = (q(r, 2 * line), q(r, 2 * line + 1));
                        for (sums, (&low, &high)) in sums.iter_mut().zip(low.iter().zip(&high)) {
                            sums[r] = _mm512_dpbusd_epi32(sums[r], low, first);
                            sums[r] = _mm512_dpbusd_epi32(sums[r], high, second);
                        }
                    }
                } else {
                    for keys in &mut keys {
                        *keys = _mm512_xor_si512(*keys, sign);
                    }
                    for r in 0..R {
                        let q = q(r, line);
                        for (sums, &keys) in sums.iter_mut().zip(&keys) {
                            sums[r] = _mm512_dpbusd_epi32(sums[r], keys, q);
                        }
                    }
                }
            }
        }
        let [even, odd] = sums;
        for (j, (even, odd)) in even.into_iter().zip(odd).enumerate() {
            for (r, scores) in scores.iter_mut().enumerate().take(R) {
                let sum = _mm512_cvtepi32_ps(_mm512_add_epi32(even[r], odd[r]));
                let offset = _mm512_set1_ps(code_sums[r] * if NIBBLES { 7.5 } else { 128.0 });
                // SAFETY: a step has so many scores.
                unsafe {
                    _mm512_storeu_ps(scores.as_mut_ptr().add((tile + j) * TILE), _mm512_sub_ps(sum, offset));
                }
            }
        }
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
    // SAFETY: the caller vouches for everything, and the columns are in the row.
    unsafe {
        let weights = round::<R>(weights);
        let mut d = 0;
        while d + 32 <= step.dim {
            add_columns::<NIBBLES, R, 2>(simd, step, &weights, factors, o, d, ahead);
            d += 32;
        }
        if d < step.dim {
            add_columns::<NIBBLES, R, 1>(simd, step, &weights, factors, o, d, ahead);
        }
    }
}

/// Weights as integers, of 16 bits, in two halves of which each makes a sum.
struct Weights {
    /// The upper and the lower eight bits.
    halves: [[[u8; STEP_MAX]; 2]; GROUP],
    /// What an integer stands for; NaN if there is no largest weight.
    units: [f32; GROUP],
    /// The sums of the integers, which are exact.
    sums: [f32; GROUP],
}

/// # Safety
/// - The CPU has the features.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,popcnt,bmi1")]
unsafe fn round<const R: usize>(weights: &Scores) -> Weights {
    const INTEGER_MAX: f32 = u16::MAX as f32;
    let mut rounded =
        Weights { halves: [[[0; STEP_MAX]; 2]; GROUP], units: [0.0; GROUP], sums: [0.0; GROUP] };
    for (r, weights) in weights.iter().enumerate().take(R) {
        // SAFETY: a step has sixteen weights a tile, and as many bytes for each of their halves.
        unsafe {
            let load = |tile: usize| _mm512_loadu_ps(weights.as_ptr().add(tile * TILE));
            let (mut largest, mut nothing) = (_mm512_set1_ps(LARGEST_MIN), _mm512_setzero_ps());
            for tile in 0..TILES_MAX {
                largest = _mm512_max_ps(load(tile), largest);
                // NaN, if there is one or an infinity.
                nothing = _mm512_fmadd_ps(load(tile), _mm512_setzero_ps(), nothing);
            }
            let largest = _mm512_reduce_max_ps(largest) + _mm512_reduce_add_ps(nothing);
            rounded.units[r] = largest / INTEGER_MAX;
            let rate = _mm512_set1_ps(INTEGER_MAX / largest);
            let mut sum = _mm512_setzero_si512();
            for tile in 0..TILES_MAX {
                let integers = _mm512_cvtps_epi32(_mm512_mul_ps(load(tile), rate));
                sum = _mm512_add_epi32(sum, integers);
                let [upper, lower] = &mut rounded.halves[r];
                let at = tile * TILE;
                let bytes = _mm512_cvtepi32_epi8(_mm512_srli_epi32::<8>(integers));
                _mm_storeu_si128(upper.as_mut_ptr().add(at).cast(), bytes);
                _mm_storeu_si128(lower.as_mut_ptr().add(at).cast(), _mm512_cvtepi32_epi8(integers));
            }
            rounded.sums[r] = _mm512_reduce_add_epi32(sum) as f32;
        }
    }
    rounded
}

/// Columns `d` and on, `C` vectors of them.
///
/// # Safety
/// - As for [`add_values`], the columns are in `step.dim`, and the CPU has the features.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,popcnt,bmi1")]
unsafe fn add_columns<const NIBBLES: bool, const R: usize, const C: usize>(
    simd: Avx512,
    step: &Step<'_>,
    weights: &Weights,
    factors: &[f32; R],
    o: *mut f32,
    d: usize,
    ahead: &mut Ahead,
) {
    let low_half = _mm512_set1_epi8(15);
    let packed = if NIBBLES { 8 } else { 4 };
    let mut sums = [[[_mm512_setzero_si512(); C]; 2]; R];
    for tile in 0..TILES_MAX {
        if step.seen[tile].from == step.seen[tile].to {
            continue;
        }
        for line in 0..TILE / packed {
            ahead.keep_up(simd, INTEGER_PAIRS, (tile * TILE / packed + line) * C * LINE);
            // SAFETY: the caller vouches for the tiles and the columns. There are as many weights as a step has tokens.
            unsafe {
                let at = 4 * (line * step.dim + d);
                let mut values = [low_half; C];
                for (c, values) in values.iter_mut().enumerate() {
                    let at = at + c * LINE;
                    *values = _mm512_loadu_si512(step.tiles[tile].add(step.plane_bytes + at).cast());
                }
                let first = tile * TILE + line * packed;
                for (sums, halves) in sums.iter_mut().zip(&weights.halves) {
                    for (sums, half) in sums.iter_mut().zip(halves) {
                        let weight = |at: usize| {
                            _mm512_set1_epi32(half.as_ptr().add(at).cast::<i32>().read_unaligned())
                        };
                        for (sum, &values) in sums.iter_mut().zip(&values) {
                            if NIBBLES {
                                let high = _mm512_and_si512(_mm512_srli_epi16::<4>(values), low_half);
                                let low = _mm512_and_si512(values, low_half);
                                *sum = _mm512_dpbusd_epi32(*sum, weight(first), low);
                                *sum = _mm512_dpbusd_epi32(*sum, weight(first + 4), high);
                            } else {
                                *sum = _mm512_dpbusd_epi32(*sum, weight(first), values);
                            }
                        }
                    }
                }
            }
        }
    }
    for (r, ([upper, lower], &factor)) in sums.into_iter().zip(factors).enumerate() {
        let unit = _mm512_set1_ps(weights.units[r]);
        let offset = _mm512_set1_ps(if NIBBLES { 7.5 * weights.sums[r] } else { 0.0 });
        for (c, (upper, lower)) in upper.into_iter().zip(lower).enumerate() {
            let sum = _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32::<8>(upper), lower));
            // SAFETY: the caller vouches for the outputs.
            unsafe {
                let o = o.add(r * step.dim + d + c * TILE);
                let before = _mm512_mul_ps(_mm512_loadu_ps(o), _mm512_set1_ps(factor));
                _mm512_storeu_ps(o, _mm512_fmadd_ps(_mm512_sub_ps(sum, offset), unit, before));
            }
        }
    }
}
