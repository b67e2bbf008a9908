//! Sums over tiles of bf16, by the instruction that adds two products of bf16 to a lane of f32.

use std::arch::x86_64::*;

use half::bf16;

use super::ahead::Ahead;
use super::step::{Columns, GROUP, LINE, PAIRS, Panel, STEP_MAX, Scores, Slots, Step};
use crate::kv_cache::{Format, STRIP};
use crate::simd::{Avx512, Token};

/// Products are added to so many sums in turn.
const SUMS: usize = 2;

/// Vectors of columns that are summed while a weight is in a register.
const COLUMNS: usize = 4;

/// Proof that this CPU has the instruction, and that it is among those that were asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Products(Avx512);

impl Products {
    pub(super) fn new(token: Token) -> Option<Products> {
        match token {
            Token::Avx512(simd) if is_x86_feature_detected!("avx512bf16") => Some(Products(simd)),
            _ => None,
        }
    }

    /// Queries, a multiple of [`STRIP`] values, rounded as keys are.
    pub(super) fn round(self, q: &[f32], rounded: &mut Vec<bf16>) {
        rounded.resize(q.len(), bf16::ZERO);
        // SAFETY: the CPU has the instructions, as `self` proves.
        unsafe { round(q, rounded) };
    }

    /// Scores of `R` queries with all keys of a strip, seen or not, in f32.
    ///
    /// # Safety
    /// - `q` are `[R, step.dim]`.
    /// - `strip` is one of `step.strips` that can be read, with keys of `step.dim` values.
    #[inline(always)]
    pub(super) unsafe fn multiply<const R: usize>(
        self,
        step: &Step<'_>,
        strip: usize,
        q: *const bf16,
        scores: &mut Scores,
        ahead: &mut Ahead,
    ) {
        // SAFETY: the CPU has the instructions, as `self` proves; the caller vouches for the rest.
        unsafe { multiply::<R>(self.0, step, strip, q, scores, ahead) }
    }

    /// Adds the weighed values to `R` outputs, which are multiplied by factors before. Weights are rounded to bf16.
    ///
    /// # Safety
    /// - `o` holds `R * step.dim` values.
    /// - Those of `step.strips` of which something is seen can be read, as for [`multiply`](Products::multiply).
    #[inline(always)]
    pub(super) unsafe fn add_values<const R: usize>(
        self,
        step: &Step<'_>,
        weights: &Scores,
        factors: &[f32; R],
        o: *mut f32,
        ahead: &mut Ahead,
    ) {
        // SAFETY: as above.
        unsafe { add_values::<R>(self.0, step, weights, factors, o, ahead) }
    }
}

/// # Safety
/// - The CPU has the features.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,popcnt,bmi1")]
unsafe fn round(values: &[f32], rounded: &mut [bf16]) {
    for (values, rounded) in values.chunks_exact(STRIP).zip(rounded.chunks_exact_mut(STRIP)) {
        // SAFETY: the chunks have sixteen values.
        unsafe {
            let half: __m256i = std::mem::transmute(_mm512_cvtneps_pbh(_mm512_loadu_ps(values.as_ptr())));
            _mm256_storeu_si256(rounded.as_mut_ptr().cast(), half);
        }
    }
}

/// Two values of bf16, in every lane.
///
/// # Safety
/// - Four bytes can be read at `p`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,popcnt,bmi1")]
#[inline]
unsafe fn pair(p: *const bf16) -> __m512bh {
    // SAFETY: the caller vouches for the bytes; a vector of one kind is as good as one of the other.
    unsafe { std::mem::transmute(_mm512_set1_epi32(p.cast::<i32>().read_unaligned())) }
}

/// # Safety
/// - As for [`Products::multiply`], and the CPU has the features.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,popcnt,bmi1")]
unsafe fn multiply<const R: usize>(
    simd: Avx512,
    step: &Step<'_>,
    strip: usize,
    q: *const bf16,
    scores: &mut Scores,
    ahead: &mut Ahead,
) {
    let start = step.strips.keys(strip);
    let mut sums = [[_mm512_setzero_ps(); R]; SUMS];
    for lines in (0..step.plane_bytes / LINE).step_by(SUMS) {
        ahead.keep_up(simd, PAIRS, lines * LINE);
        for (u, sums) in sums.iter_mut().enumerate() {
            let line = lines + u;
            // SAFETY: the caller vouches for the strip, of a multiple of `SUMS` lines, and for the queries, of which a line has
            // two values.
            unsafe {
                let keys = _mm512_loadu_si512(start.add(line * LINE).cast());
                let keys: __m512bh = std::mem::transmute(keys);
                for (r, sum) in sums.iter_mut().enumerate() {
                    *sum = _mm512_dpbf16_ps(*sum, keys, pair(q.add(r * step.dim + 2 * line)));
                }
            }
        }
    }
    let [even, odd] = sums;
    for (scores, (even, odd)) in scores.iter_mut().zip(even.into_iter().zip(odd)) {
        // SAFETY: a step has so many scores.
        unsafe { _mm512_storeu_ps(scores.as_mut_ptr().add(strip * STRIP), _mm512_add_ps(even, odd)) };
    }
}

/// # Safety
/// - As for [`Products::add_values`], and the CPU has the features.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,popcnt,bmi1")]
unsafe fn add_values<const R: usize>(
    simd: Avx512,
    step: &Step<'_>,
    weights: &Scores,
    factors: &[f32; R],
    o: *mut f32,
    ahead: &mut Ahead,
) {
    let mut rounded = [[bf16::ZERO; STEP_MAX]; GROUP];
    for (rounded, weights) in rounded.iter_mut().zip(weights).take(R) {
        const STEP: usize = Format::Bf16.tile_strips() * STRIP;
        // SAFETY: the CPU has the features, as the caller vouches.
        unsafe { round(&weights[..STEP], &mut rounded[..STEP]) };
    }
    for panel in Panel::all(Format::Bf16, step.dim) {
        let mut d = 0;
        while d < panel.width {
            // SAFETY: the caller vouches for everything, and the columns are in the panel.
            unsafe {
                if d + COLUMNS * STRIP <= panel.width {
                    add_columns::<R, COLUMNS>(simd, step, &rounded, factors, o, panel.from(d), ahead);
                    d += COLUMNS * STRIP;
                } else {
                    add_columns::<R, 1>(simd, step, &rounded, factors, o, panel.from(d), ahead);
                    d += STRIP;
                }
            }
        }
    }
}

/// `C` vectors of columns of a panel.
///
/// # Safety
/// - As for [`add_values`], the columns are in the panel, and the CPU has the features.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,popcnt,bmi1")]
unsafe fn add_columns<const R: usize, const C: usize>(
    simd: Avx512,
    step: &Step<'_>,
    weights: &[[bf16; STEP_MAX]; GROUP],
    factors: &[f32; R],
    o: *mut f32,
    columns: Columns,
    ahead: &mut Ahead,
) {
    let Columns { panel, d } = columns;
    let mut sums = [[_mm512_setzero_ps(); C]; R];
    for (strip, &Slots { from, to }) in step.seen.iter().enumerate() {
        let start = step.strips.panel(strip, Format::Bf16.bits(), panel);
        for line in from / 2..to.div_ceil(2) {
            ahead.keep_up(simd, PAIRS, line * C * LINE);
            // SAFETY: the caller vouches for the strips and the columns. There are as many weights as a step has tokens.
            unsafe {
                let at = 4 * (line * panel.width + d);
                let mut values = [_mm512_setzero_si512(); C];
                for (c, values) in values.iter_mut().enumerate() {
                    *values = _mm512_loadu_si512(start.add(at + c * LINE).cast());
                }
                if 2 * line < from || 2 * line + 1 >= to {
                    // Of two tokens, one is not seen: its values, which may be anything, count as zeros.
                    let seen =
                        _mm512_set1_epi32(if 2 * line < from { 0xffff_0000_u32 as i32 } else { 0xffff });
                    values = values.map(|values| _mm512_and_si512(values, seen));
                }
                for (sums, weights) in sums.iter_mut().zip(weights) {
                    let weights = pair(weights.as_ptr().add(strip * STRIP + 2 * line));
                    for (sum, values) in sums.iter_mut().zip(values) {
                        *sum =
                            _mm512_dpbf16_ps(*sum, std::mem::transmute::<__m512i, __m512bh>(values), weights);
                    }
                }
            }
        }
    }
    for (r, (sums, &factor)) in sums.into_iter().zip(factors).enumerate() {
        for (c, sum) in sums.into_iter().enumerate() {
            // SAFETY: the caller vouches for the outputs.
            unsafe {
                let o = o.add(r * step.dim + panel.first + d + c * STRIP);
                _mm512_storeu_ps(o, _mm512_fmadd_ps(_mm512_loadu_ps(o), _mm512_set1_ps(factor), sum));
            }
        }
    }
}
