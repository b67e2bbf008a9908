//! Some queries against a few keys and values: scores, exponentials, and the sum of values that they weigh.

use std::marker::PhantomData;

use half::{bf16, f16};

use crate::simd::{Caches, Compare, Exp2, LANES_MAX, Load, LoadIntegers, Sums};

/// All that attention asks of vectors.
pub(super) trait AttentionSimd:
    Load<f32, f32> + Load<f16, f32> + Load<bf16, f32> + LoadIntegers + Compare + Exp2 + Sums + Caches
{
}

impl<S> AttentionSimd for S where
    S: Load<f32, f32> + Load<f16, f32> + Load<bf16, f32> + LoadIntegers + Compare + Exp2 + Sums + Caches
{
}

/// How a row is read.
pub(super) trait Stored {
    /// How many tokens a tile has: a multiple of [`LANES_MAX`], and some 8 KiB of keys. Results depend on it.
    const TILE: usize;

    /// Whether rows are integers, with a scale that what is read must be multiplied by.
    const INTEGER: bool;

    /// Whether a byte holds two values.
    const NIBBLES: bool = false;

    /// Reads `LANES` values of a row from the one at `d` on, a multiple of `LANES`.
    ///
    /// # Safety
    /// - `row` is a row of this kind, with more than `d` values.
    unsafe fn load<S: AttentionSimd>(simd: S, row: *const u8, d: usize) -> S::V;
}

/// Values of type `T`.
pub(super) struct Plain<T>(PhantomData<T>);

macro_rules! plain {
    ($value:ty, $tile:literal) => {
        impl Stored for Plain<$value> {
            const TILE: usize = $tile;
            const INTEGER: bool = false;

            #[inline(always)]
            unsafe fn load<S: AttentionSimd>(simd: S, row: *const u8, d: usize) -> S::V {
                // SAFETY: rows are padded to what every `LANES` divides, so there are `LANES` values from `d` on.
                unsafe { <S as Load<$value, f32>>::load(simd, row.cast::<$value>().add(d)) }
            }
        }
    };
}

plain!(f32, 16);
plain!(f16, 32);
plain!(bf16, 32);

/// [`Format::Int8`](crate::kv_cache::Format::Int8)
pub(super) struct Int8;

impl Stored for Int8 {
    const TILE: usize = 64;
    const INTEGER: bool = true;

    #[inline(always)]
    unsafe fn load<S: AttentionSimd>(simd: S, row: *const u8, d: usize) -> S::V {
        // SAFETY: rows are padded to what every `LANES` divides, so there are `LANES` bytes from `d` on.
        unsafe { simd.load_i8(row.add(d)) }
    }
}

/// [`Format::Int4`](crate::kv_cache::Format::Int4)
pub(super) struct Int4;

impl Stored for Int4 {
    const TILE: usize = 64;
    const INTEGER: bool = true;
    const NIBBLES: bool = true;

    #[inline(always)]
    unsafe fn load<S: AttentionSimd>(simd: S, row: *const u8, d: usize) -> S::V {
        // Of 32 values, the first sixteen are in the low halves of sixteen bytes.
        let (byte, shift) = (d / 32 * 16 + d % 16, d / 16 % 2 * 4);
        // SAFETY: rows are padded to a multiple of 32 values, and `d` is a multiple of `LANES`, which divides 16; so there are
        // `LANES` bytes from that on.
        unsafe { simd.load_u4(row.add(byte), shift as u32) }
    }
}

/// The largest [`Stored::TILE`].
pub(super) const TILE_MAX: usize = 64;

/// Queries that are multiplied with a key while it is in registers.
pub(super) const GROUP: usize = 4;

/// A cache line.
pub(super) const LINE: usize = 64;

/// The state of the online softmax: a score `s`, in powers of two, counts as `2^(s - exponent)`.
///
/// The exponent is an integer, so that changing it rounds nothing, and not below the largest score so far; negative infinity
/// if there was none.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    pub(super) exponent: f32,
    pub(super) sum: f64,
}

impl State {
    pub(super) const EMPTY: State = State { exponent: f32::NEG_INFINITY, sum: 0.0 };

    /// Whether it has seen no score.
    pub(super) fn is_empty(self) -> bool {
        self.exponent == f32::NEG_INFINITY && self.sum == 0.0
    }
}

/// The rows of some tokens, and what to prefetch meanwhile.
#[derive(Clone, Copy)]
pub(super) struct Tile<'a> {
    /// The keys, and behind them as many as a step may read too many.
    pub(super) keys: &'a [*const u8],
    /// What will be read next, for each key.
    pub(super) ahead: &'a [*const u8],
    /// What scores are to be multiplied by, where rows have scales, and behind them as many as a vector may read too many.
    pub(super) key_scales: &'a [f32],
    /// What values are to be multiplied by.
    pub(super) value_scales: &'a [f32],
    /// How many keys there are; at least one.
    pub(super) len: usize,
    /// From a key to its value, in bytes.
    pub(super) to_value: usize,
    pub(super) row_bytes: usize,
    /// How many values a row has, with its padding.
    pub(super) dim: usize,
    /// Whether values and what is ahead are to be prefetched.
    pub(super) prefetch: bool,
}

/// A group of queries.
#[derive(Clone, Copy)]
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "codes are for an instruction of x86-64"))]
pub(super) struct Group<'a> {
    /// `[R, dim]`: what keys are multiplied with; integers, where rows are.
    pub(super) q: &'a [f32],
    /// `[R]`: what scores are to be multiplied by then.
    pub(super) scales: &'a [f32],
    /// `[R, dim]`, if there is an instruction for them: the same integers, in the order that it takes them in.
    pub(super) codes: &'a [i8],
    /// `[R]`: what scores are too large by with that instruction.
    pub(super) offsets: &'a [f32],
    /// The instruction.
    #[cfg(target_arch = "x86_64")]
    pub(super) vnni: Option<super::vnni::Vnni>,
}

/// Scores, and then exponentials, of a group of queries.
pub(super) type Scores = [[f32; TILE_MAX]; GROUP];

/// Adds a tile to the states of `R` queries, and to their outputs.
///
/// # Safety
/// - `o` holds `R * tile.dim` values, and `group` has `R` queries of so many.
/// - The first `tile.len`, rounded up to [`LANES_MAX`], of `tile.keys` are rows of `F` with `tile.dim` values, and
///   `tile.to_value` bytes behind each of the first `tile.len` there is another.
/// - `tile.len` is not more than `F::TILE`, and `tile.ahead` has as many.
/// - If `F` is scaled, `tile.key_scales` and `tile.value_scales` have as many as keys, rounded up to [`LANES_MAX`].
#[inline(always)]
pub(super) unsafe fn add_tile<F: Stored, S: AttentionSimd, const R: usize>(
    simd: S,
    tile: Tile<'_>,
    group: Group<'_>,
    o: *mut f32,
    states: &mut [State],
    scores: &mut Scores,
) {
    // SAFETY: the caller vouches for everything.
    unsafe { multiply_all::<F, S, R>(simd, tile, group, scores) };
    let mut factors = [0.0; R];
    for (r, factor) in factors.iter_mut().enumerate() {
        let scale = if F::INTEGER { group.scales[r] } else { 1.0 };
        // SAFETY: a tile has no more keys than `TILE_MAX`.
        *factor = unsafe { exponentiate::<F, S>(simd, tile, scale, &mut scores[r], &mut states[r]) };
    }
    let wide = if S::LANES == LANES_MAX { 4 } else { 2 };
    let mut d = 0;
    while d < tile.dim {
        // SAFETY: the caller vouches for everything, and the columns are in the row.
        unsafe {
            if d + wide * S::LANES > tile.dim {
                add_values::<F, S, R, 1>(simd, tile, scores, &factors, o, d);
                d += S::LANES;
            } else if S::LANES == LANES_MAX {
                add_values::<F, S, R, 4>(simd, tile, scores, &factors, o, d);
                d += wide * S::LANES;
            } else {
                add_values::<F, S, R, 2>(simd, tile, scores, &factors, o, d);
                d += wide * S::LANES;
            }
        }
    }
}

/// Scores of `R` queries, with as many keys at a time as there are registers for.
///
/// # Safety
/// - As for [`add_tile`].
#[inline(always)]
unsafe fn multiply_all<F: Stored, S: AttentionSimd, const R: usize>(
    simd: S,
    tile: Tile<'_>,
    group: Group<'_>,
    scores: &mut Scores,
) {
    #[cfg(target_arch = "x86_64")]
    if F::INTEGER
        && let Some(vnni) = group.vnni
    {
        let codes = group.codes.as_ptr();
        // SAFETY: the caller vouches for everything.
        unsafe {
            match (F::NIBBLES, R == 1) {
                (true, true) => vnni.multiply::<true, R, 16>(tile, codes, group.offsets, scores),
                (true, false) => vnni.multiply::<true, R, 4>(tile, codes, group.offsets, scores),
                (false, true) => vnni.multiply::<false, R, 16>(tile, codes, group.offsets, scores),
                (false, false) => vnni.multiply::<false, R, 4>(tile, codes, group.offsets, scores),
            }
        }
        return;
    }
    let q = group.q.as_ptr();
    // SAFETY: the caller vouches for everything.
    unsafe {
        match (S::LANES == LANES_MAX, R == 1) {
            (true, true) => multiply::<F, S, R, 16>(simd, tile, q, scores),
            (true, false) => multiply::<F, S, R, 4>(simd, tile, q, scores),
            (false, true) => multiply::<F, S, R, 8>(simd, tile, q, scores),
            (false, false) => multiply::<F, S, R, 2>(simd, tile, q, scores),
        }
    }
}

/// Scores of `R` queries, `J` keys at a time; those behind the last key are anything.
///
/// # Safety
/// - As for [`add_tile`].
#[inline(always)]
unsafe fn multiply<F: Stored, S: AttentionSimd, const R: usize, const J: usize>(
    simd: S,
    tile: Tile<'_>,
    q: *const f32,
    scores: &mut Scores,
) {
    for at in (0..tile.len).step_by(J) {
        let mut keys = [std::ptr::null(); J];
        keys.copy_from_slice(&tile.keys[at..at + J]);
        if tile.prefetch {
            for key in keys {
                for line in (0..tile.row_bytes).step_by(LINE) {
                    simd.prefetch_first(key.wrapping_add(tile.to_value + line));
                }
            }
        }
        let mut sums = [[simd.splat(0.0); J]; R];
        for d in (0..tile.dim).step_by(S::LANES) {
            let mut k = [simd.splat(0.0); J];
            for (k, key) in k.iter_mut().zip(keys) {
                // SAFETY: the caller vouches for the row, and `d` is in it.
                *k = unsafe { F::load(simd, key, d) };
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                // SAFETY: the caller vouches for the queries, which are as long.
                let q = unsafe { simd.load_acc(q.add(r * tile.dim + d)) };
                for (sum, k) in sums.iter_mut().zip(k) {
                    *sum = simd.mul_add(q, k, *sum);
                }
            }
        }
        let mut totals = [[0.0; J]; R];
        // SAFETY: there are as many totals as sums.
        unsafe { simd.store_sums(totals.as_mut_ptr().cast(), sums.as_flattened()) };
        for (scores, totals) in scores.iter_mut().zip(totals) {
            scores[at..at + J].copy_from_slice(&totals);
        }
    }
}

/// Overwrites scores by what values are weighed by, and adds the exponentials to the state. Returns what sums over earlier
/// tiles must be multiplied by.
///
/// # Safety
/// - As for [`add_tile`].
#[inline(always)]
unsafe fn exponentiate<F: Stored, S: AttentionSimd>(
    simd: S,
    tile: Tile<'_>,
    scale: f32,
    scores: &mut [f32; TILE_MAX],
    state: &mut State,
) -> f32 {
    let padded = tile.len.next_multiple_of(S::LANES);
    let start = scores.as_mut_ptr();
    if F::INTEGER {
        for j in (0..padded).step_by(S::LANES) {
            // SAFETY: `padded` is a multiple of `LANES`, which divides `TILE_MAX`; there are as many scales.
            unsafe {
                let scales = simd.mul(simd.load_acc(tile.key_scales.as_ptr().add(j)), simd.splat(scale));
                simd.store_acc(start.add(j), simd.mul(simd.load_acc(start.add(j)), scales));
            }
        }
    }
    scores[tile.len..padded].fill(f32::NEG_INFINITY);
    let mut largest = simd.splat(f32::NEG_INFINITY);
    for j in (0..padded).step_by(S::LANES) {
        // SAFETY: as above.
        largest = simd.max(largest, unsafe { simd.load_acc(start.add(j)) });
    }
    let largest = simd.reduce_max(largest);
    let mut factor = 1.0;
    if !(largest <= state.exponent) {
        let exponent = largest.ceil();
        factor = (state.exponent - exponent).exp2();
        state.exponent = exponent;
    }
    let exponent = simd.splat(state.exponent);
    let scaling = simd.scaling(1.0, 0.0);
    let zero = simd.splat(0.0);
    let mut sum = zero;
    for j in (0..padded).step_by(S::LANES) {
        // SAFETY: as above.
        unsafe {
            let power = simd.add_exp2(zero, simd.sub(simd.load_acc(start.add(j)), exponent), scaling);
            sum = simd.add(sum, power);
            let scaled = F::INTEGER.then(
                #[inline(always)]
                || simd.mul(power, simd.load_acc(tile.value_scales.as_ptr().add(j))),
            );
            simd.store_acc(start.add(j), scaled.unwrap_or(power));
        }
    }
    state.sum = state.sum * f64::from(factor) + f64::from(simd.reduce_add(sum));
    factor
}

/// Columns `d` and on, `C` vectors of them, of the tile's values, weighed and added to the outputs.
///
/// # Safety
/// - As for [`add_tile`], and `d + C * LANES` is not more than `tile.dim`.
#[inline(always)]
unsafe fn add_values<F: Stored, S: AttentionSimd, const R: usize, const C: usize>(
    simd: S,
    tile: Tile<'_>,
    weights: &Scores,
    factors: &[f32; R],
    o: *mut f32,
    d: usize,
) {
    // The share of a row that these columns are.
    let bytes_before = |d: usize| tile.row_bytes * d / tile.dim;
    let (first, end) = (bytes_before(d), bytes_before(d + C * S::LANES));
    let mut sums = [[simd.splat(0.0); C]; R];
    let rows = tile.keys.iter().zip(tile.ahead).take(tile.len);
    for (j, (key, ahead)) in rows.enumerate() {
        if tile.prefetch {
            for line in (first..end).step_by(LINE) {
                simd.prefetch_first(ahead.wrapping_add(line));
            }
        }
        let mut v = [simd.splat(0.0); C];
        for (c, v) in v.iter_mut().enumerate() {
            // SAFETY: the caller vouches for the row, and that the columns are in it.
            *v = unsafe { F::load(simd, key.add(tile.to_value), d + c * S::LANES) };
        }
        for (r, sums) in sums.iter_mut().enumerate() {
            // SAFETY: there are `GROUP` rows of weights, at least `R`, and `j` is less than `TILE_MAX`.
            let weight = simd.splat(unsafe { *weights.get_unchecked(r).get_unchecked(j) });
            for (sum, v) in sums.iter_mut().zip(v) {
                *sum = simd.mul_add(weight, v, *sum);
            }
        }
    }
    for (r, (sums, &factor)) in sums.into_iter().zip(factors).enumerate() {
        for (c, sum) in sums.into_iter().enumerate() {
            // SAFETY: the caller vouches for the outputs, and that the columns are in them.
            unsafe {
                let o = o.add(r * tile.dim + d + c * S::LANES);
                simd.store_acc(o, simd.mul_add(simd.load_acc(o), simd.splat(factor), sum));
            }
        }
    }
}
