//! Some queries against the tokens of a few tiles: scores, exponentials, and the sum of values that they weigh.

use std::marker::PhantomData;

use half::{bf16, f16};

use super::ahead::Ahead;
use crate::kv_cache::TILE;
use crate::simd::{Caches, Compare, Exp2, LANES_MAX, LANES_MIN, Load, LoadIntegers};

/// All that attention asks of vectors.
pub(super) trait AttentionSimd:
    Load<f32, f32> + Load<f16, f32> + Load<bf16, f32> + LoadIntegers + Compare + Exp2 + Caches
{
}

impl<S> AttentionSimd for S where
    S: Load<f32, f32> + Load<f16, f32> + Load<bf16, f32> + LoadIntegers + Compare + Exp2 + Caches
{
}

/// How a tile is read.
pub(super) trait Stored {
    /// How many tiles are taken at a time. Results depend on it.
    const TILES: usize;

    /// How many of these have their scores taken together where a vector is a tile, 1 or 2: with 2, a query is loaded half as
    /// often, for which memory is read out of order. Which is faster has been measured; where a vector goes
    /// [in halves](Compare::in_halves), loads keep up with multiplications, and 1 is. Results depend on it.
    const TOGETHER: usize = 1;

    /// How large a value is.
    const BITS: usize;

    /// Whether values are integers, with a scale that what is read must be multiplied by.
    const INTEGER: bool;

    /// Whether a byte holds two values.
    const NIBBLES: bool = false;

    /// Reads value `d` of the keys of `LANES` tokens, from the one in `slot` on.
    ///
    /// # Safety
    /// - `keys` is a plane of keys of this kind, with more than `d` values each.
    /// - `slot` is a multiple of `LANES`, and less than [`TILE`].
    unsafe fn key<S: AttentionSimd>(simd: S, keys: *const u8, d: usize, slot: usize) -> S::V;

    /// Reads `LANES` values of the token in `slot`, from the one at `d` on.
    ///
    /// # Safety
    /// - `values` is a plane of values of this kind, with `dim` each.
    /// - `slot` is less than [`TILE`], and `d` less than `dim` and a multiple of `LANES`.
    unsafe fn value<S: AttentionSimd>(simd: S, values: *const u8, dim: usize, slot: usize, d: usize) -> S::V;
}

/// Values of type `T`.
pub(super) struct Plain<T>(PhantomData<T>);

macro_rules! plain {
    ($value:ty, $tiles:literal, $together:literal) => {
        impl Stored for Plain<$value> {
            const TILES: usize = $tiles;
            const TOGETHER: usize = $together;
            const BITS: usize = 8 * size_of::<$value>();
            const INTEGER: bool = false;

            #[inline(always)]
            unsafe fn key<S: AttentionSimd>(simd: S, keys: *const u8, d: usize, slot: usize) -> S::V {
                // SAFETY: the plane is `[dim][TILE]`, and `LANES` divides `TILE`.
                unsafe { <S as Load<$value, f32>>::load(simd, keys.cast::<$value>().add(d * TILE + slot)) }
            }

            #[inline(always)]
            unsafe fn value<S: AttentionSimd>(
                simd: S,
                values: *const u8,
                dim: usize,
                slot: usize,
                d: usize,
            ) -> S::V {
                // SAFETY: the plane is `[TILE][dim]`, and `LANES` divides `dim`.
                unsafe { <S as Load<$value, f32>>::load(simd, values.cast::<$value>().add(slot * dim + d)) }
            }
        }
    };
}

plain!(f32, 1, 1);
plain!(f16, 2, 1);
plain!(bf16, 2, 2);

macro_rules! packed {
    ($(#[$doc:meta])* $stored:ident, $bits:literal, $nibbles:literal, $load:ident) => {
        $(#[$doc])*
        pub(super) struct $stored;

        impl Stored for $stored {
            const TILES: usize = 4;
            const BITS: usize = $bits;
            const INTEGER: bool = true;
            const NIBBLES: bool = $nibbles;

            #[inline(always)]
            unsafe fn key<S: AttentionSimd>(simd: S, keys: *const u8, d: usize, slot: usize) -> S::V {
                const PACKED: usize = 32 / $bits;
                // SAFETY: the plane is `[dim / PACKED][TILE]` times four bytes, and `LANES` divides `TILE`.
                unsafe { simd.$load(keys.add(4 * (d / PACKED * TILE + slot)), d % PACKED) }
            }

            #[inline(always)]
            unsafe fn value<S: AttentionSimd>(
                simd: S,
                values: *const u8,
                dim: usize,
                slot: usize,
                d: usize,
            ) -> S::V {
                const PACKED: usize = 32 / $bits;
                // SAFETY: the plane is `[TILE / PACKED][dim]` times four bytes, and `LANES` divides `dim`.
                unsafe { simd.$load(values.add(4 * (slot / PACKED * dim + d)), slot % PACKED) }
            }
        }
    };
}

packed!(
    /// [`Format::Int8`](crate::kv_cache::Format::Int8)
    Int8, 8, false, load_i8
);
packed!(
    /// [`Format::Int4`](crate::kv_cache::Format::Int4)
    Int4, 4, true, load_u4
);

/// The largest [`Stored::TILES`].
pub(super) const TILES_MAX: usize = 4;

/// With every eighth line that is read of keys or values, so many pairs of lines are [asked for](Ahead): floats ask for as many lines
/// as they read.
const PAIRS: usize = 4;

/// Integers leave a quarter for their exponentials, which take as long as that.
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "instructions of x86-64 keep up so"))]
pub(super) const INTEGER_PAIRS: usize = 3;

/// How many tokens these have.
pub(super) const STEP_MAX: usize = TILES_MAX * TILE;

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

    /// Whether it has seen no score but negative infinity, whose power of two may not be quite zero.
    pub(super) fn is_empty(self) -> bool {
        self.exponent == f32::NEG_INFINITY && !self.sum.is_nan()
    }
}

/// Some tokens of a tile, from one up to another.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slots {
    pub(super) from: usize,
    pub(super) to: usize,
}

/// Some tiles, what queries see of them, and what to prefetch meanwhile.
#[derive(Clone, Copy)]
pub(super) struct Step<'a> {
    /// Where they are. Of a tile of which nothing is seen, this may be another.
    pub(super) tiles: [*const u8; TILES_MAX],
    /// Not empty for all tiles.
    pub(super) seen: [Slots; TILES_MAX],
    /// Whether all tokens of all tiles are seen, as most are.
    pub(super) whole: bool,
    /// What scores are to be multiplied by, where there are scales. Anything for what is not seen.
    pub(super) key_scales: &'a [f32; STEP_MAX],
    /// What values are to be multiplied by.
    pub(super) value_scales: &'a [f32; STEP_MAX],
    /// The keys of a tile, and then its values, are so many bytes.
    pub(super) plane_bytes: usize,
    /// How many values a key has, with its padding.
    pub(super) dim: usize,
    /// Whether the next tile lies right behind this, so that both are read [in line](reads_in_line).
    pub(super) in_line: bool,
}

/// Whether a tile can be read in the order of its addresses: keys of one tile always are, and values where there are registers for a whole row.
/// Where memory is one line from tile to tile a Zen 4's own prefetchers are best left alone: 64 MiB of f32 take a core 2.2 ms
/// so, 3.8 with prefetches, and 3.0 with prefetches and half a row at a time, as where tiles lie elsewhere. Those of a CPU that
/// follows [two streams](Caches::two_streams) are not.
#[inline(always)]
pub(super) fn reads_in_line<F: Stored, S: AttentionSimd>(dim: usize) -> bool {
    F::TILES == 1 && S::LANES == LANES_MAX && dim == ROW_VECTORS * S::LANES
}

/// The vectors of a row that is read as a whole.
const ROW_VECTORS: usize = 8;

/// A group of queries.
#[derive(Clone, Copy)]
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "codes are for instructions of x86-64"))]
pub(super) struct Group<'a> {
    /// `[R, dim]`: what keys are multiplied with; integers, where rows are.
    pub(super) q: &'a [f32],
    /// `[R]`: what scores are to be multiplied by then.
    pub(super) scales: &'a [f32],
    /// `[R, dim]`, where keys are integers: the same integers.
    pub(super) codes: &'a [i8],
    /// `[R, dim / 2]`: the same, of each four the first and the third, and the second and the fourth.
    pub(super) pairs: &'a [[i16; 2]],
    /// `[R]`: the sums of these.
    pub(super) code_sums: &'a [f32],
    /// The instructions for them.
    #[cfg(target_arch = "x86_64")]
    pub(super) integers: Option<super::integers::Integers>,
}

/// Scores, and then exponentials, of a group of queries.
pub(super) type Scores = [[f32; STEP_MAX]; GROUP];

/// Adds the tokens that are seen to the states of `R` queries, and to their outputs.
///
/// # Safety
/// - `o` holds `R * step.dim` values, and `group` has `R` queries of so many, as codes too if `F` is of integers.
/// - The first `F::TILES` of `step.tiles` can be read, and are of `F` with keys of `step.dim` values; of each, what is seen ends
///   at [`TILE`] or before.
#[inline(always)]
pub(super) unsafe fn add_step<F: Stored, S: AttentionSimd, const R: usize>(
    simd: S,
    step: &Step<'_>,
    group: Group<'_>,
    o: *mut f32,
    states: &mut [State],
    scores: &mut Scores,
    ahead: &mut Ahead,
) {
    const { assert!(!F::INTEGER || F::TILES == TILES_MAX, "sums of integers read all tiles") };
    // SAFETY: the caller vouches for everything.
    unsafe { multiply_all::<F, S, R>(simd, step, group, scores, ahead) };
    // SAFETY: the caller vouches for everything.
    let factors = unsafe { exponentiate::<F, S, R>(simd, step, group.scales, scores, states, ahead) };
    #[cfg(target_arch = "x86_64")]
    if F::INTEGER
        && let Some(integers) = group.integers
    {
        // SAFETY: the caller vouches for everything.
        unsafe {
            if F::NIBBLES {
                integers.add_values::<true, R>(step, scores, &factors, o, ahead);
            } else {
                integers.add_values::<false, R>(step, scores, &factors, o, ahead);
            }
        }
        return;
    }
    // The second is so that only the forms that can are compiled for it.
    if step.in_line && reads_in_line::<F, S>(step.dim) {
        // For a row of values and sums of four queries there are too few registers.
        const { assert!(R == 1 || R.is_multiple_of(2)) };
        for r in (0..R).step_by(2) {
            let (weights, factors) = (&scores[r..], &factors[r..]);
            // SAFETY: the caller vouches for everything, and the queries are among its `R`.
            unsafe {
                let o = o.add(r * step.dim);
                if R == 1 {
                    add_values::<F, S, 1, ROW_VECTORS>(simd, step, weights, factors, o, 0, ahead);
                } else {
                    add_values::<F, S, 2, ROW_VECTORS>(simd, step, weights, factors, o, 0, ahead);
                }
            }
        }
        return;
    }
    let wide = if S::LANES == LANES_MAX { 4 } else { 2 };
    let mut d = 0;
    while d < step.dim {
        // SAFETY: the caller vouches for everything, and the columns are in the row.
        unsafe {
            if d + wide * S::LANES > step.dim {
                add_values::<F, S, R, 1>(simd, step, scores, &factors, o, d, ahead);
                d += S::LANES;
            } else if S::LANES == LANES_MAX {
                add_values::<F, S, R, 4>(simd, step, scores, &factors, o, d, ahead);
                d += wide * S::LANES;
            } else {
                add_values::<F, S, R, 2>(simd, step, scores, &factors, o, d, ahead);
                d += wide * S::LANES;
            }
        }
    }
}

/// Scores of `R` queries, by what is fastest for the instructions and the form.
///
/// # Safety
/// - As for [`add_step`].
#[inline(always)]
unsafe fn multiply_all<F: Stored, S: AttentionSimd, const R: usize>(
    simd: S,
    step: &Step<'_>,
    group: Group<'_>,
    scores: &mut Scores,
    ahead: &mut Ahead,
) {
    #[cfg(target_arch = "x86_64")]
    if F::INTEGER
        && let Some(integers) = group.integers
    {
        let (codes, pairs) = (group.codes.as_ptr(), group.pairs.as_ptr());
        // SAFETY: the caller vouches for everything.
        unsafe {
            if F::NIBBLES {
                integers.multiply::<true, R>(step, codes, pairs, group.code_sums, scores, ahead);
            } else {
                integers.multiply::<false, R>(step, codes, pairs, group.code_sums, scores, ahead);
            }
        }
        return;
    }
    let q = group.q.as_ptr();
    // SAFETY: the caller vouches for everything.
    unsafe {
        if S::LANES == LANES_MAX && (F::TOGETHER == 1 || simd.in_halves()) {
            multiply::<F, S, R, 1, 2>(simd, step, q, scores, ahead);
        } else if S::LANES == LANES_MAX {
            multiply::<F, S, R, 2, 1>(simd, step, q, scores, ahead);
        } else if S::LANES == LANES_MIN {
            multiply::<F, S, R, 4, 1>(simd, step, q, scores, ahead);
        } else {
            multiply::<F, S, R, 2, 1>(simd, step, q, scores, ahead);
        }
    }
}

/// Scores of `R` queries, `J` vectors of keys at a time, seen or not. Products are added to `U` sums in turn.
///
/// # Safety
/// - As for [`add_step`].
#[inline(always)]
unsafe fn multiply<F: Stored, S: AttentionSimd, const R: usize, const J: usize, const U: usize>(
    simd: S,
    step: &Step<'_>,
    q: *const f32,
    scores: &mut Scores,
    ahead: &mut Ahead,
) {
    // How many tiles these are; where `J` vectors are less than a tile, only the first of its vectors keep up.
    let tiles = (J * S::LANES).div_ceil(TILE);
    for at in (0..F::TILES * TILE).step_by(J * S::LANES) {
        let mut places = [(std::ptr::null(), 0); J];
        for (j, place) in places.iter_mut().enumerate() {
            let token = at + j * S::LANES;
            *place = (step.tiles[token / TILE], token % TILE);
        }
        let keeps_up = at.is_multiple_of(TILE);
        let mut sums = [[[simd.splat(0.0); J]; R]; U];
        for d in (0..step.dim).step_by(U) {
            for (u, sums) in sums.iter_mut().enumerate() {
                let byte = (d + u) * tiles * TILE * F::BITS / 8;
                if keeps_up {
                    ahead.keep_up(simd, PAIRS, byte);
                }
                let mut k = [simd.splat(0.0); J];
                for (k, (tile, slot)) in k.iter_mut().zip(places) {
                    // SAFETY: the caller vouches for the tile, whose keys have `dim` values, a multiple of `U`.
                    *k = unsafe { F::key(simd, tile, d + u, slot) };
                }
                for (r, sums) in sums.iter_mut().enumerate() {
                    // SAFETY: the caller vouches for the queries, which are as long as keys.
                    let q = simd.splat(unsafe { *q.add(r * step.dim + d + u) });
                    for (sum, k) in sums.iter_mut().zip(k) {
                        *sum = simd.mul_add(q, k, *sum);
                    }
                }
            }
        }
        for (r, scores) in scores.iter_mut().enumerate().take(R) {
            for (j, scores) in scores[at..].chunks_exact_mut(S::LANES).enumerate().take(J) {
                let mut sum = sums[0][r][j];
                for sums in &sums[1..] {
                    sum = simd.add(sum, sums[r][j]);
                }
                // SAFETY: the chunk has `LANES` scores.
                unsafe { simd.store_acc(scores.as_mut_ptr(), sum) };
            }
        }
    }
}

/// Overwrites the scores of `R` queries by what values are weighed by, which is zero for integers that are not seen and
/// anything for others, and adds the exponentials to the states. Returns what sums so far must be multiplied by.
///
/// What adds up or compares lanes takes long and little, so it is done for all queries before it is needed for any.
///
/// # Safety
/// - As for [`add_step`].
#[inline(always)]
unsafe fn exponentiate<F: Stored, S: AttentionSimd, const R: usize>(
    simd: S,
    step: &Step<'_>,
    scales: &[f32],
    scores: &mut Scores,
    states: &mut [State],
    ahead: &mut Ahead,
) -> [f32; R] {
    let lanes = F::TILES * TILE;
    let mut largest = [0.0; R];
    for (r, largest) in largest.iter_mut().enumerate() {
        let start = scores[r].as_mut_ptr();
        if F::INTEGER {
            let scale = simd.splat(scales[r]);
            for j in (0..lanes).step_by(S::LANES) {
                // SAFETY: `LANES` divides `lanes`, which is not more than `STEP_MAX`.
                unsafe {
                    let scales = simd.mul(simd.load_acc(step.key_scales.as_ptr().add(j)), scale);
                    simd.store_acc(start.add(j), simd.mul(simd.load_acc(start.add(j)), scales));
                }
            }
        }
        fill_unseen(step, &mut scores[r][..lanes], f32::NEG_INFINITY);
        let mut largest_lanes = simd.splat(f32::NEG_INFINITY);
        for j in (0..lanes).step_by(S::LANES) {
            // SAFETY: as above.
            largest_lanes = simd.max(largest_lanes, unsafe { simd.load_acc(start.add(j)) });
        }
        *largest = simd.reduce_max(largest_lanes);
    }
    let mut factors = [1.0; R];
    for ((factor, state), largest) in factors.iter_mut().zip(&mut *states).zip(largest) {
        if !(largest <= state.exponent) {
            let exponent = largest.ceil();
            *factor = (state.exponent - exponent).exp2();
            state.exponent = exponent;
        }
    }
    let scaling = simd.scaling(1.0, 0.0);
    let zero = simd.splat(0.0);
    let mut sums = [zero; R];
    for (r, sum) in sums.iter_mut().enumerate() {
        let start = scores[r].as_mut_ptr();
        // As long as all scores are negative infinity, so is the exponent.
        let exponent = states[r].exponent;
        let exponent = simd.splat(if exponent == f32::NEG_INFINITY { 0.0 } else { exponent });
        for j in (0..lanes).step_by(S::LANES) {
            // SAFETY: as above.
            unsafe {
                let power = simd.add_exp2(zero, simd.sub(simd.load_acc(start.add(j)), exponent), scaling);
                *sum = simd.add(*sum, power);
                if F::INTEGER && j.is_multiple_of(TILE) {
                    // A quarter of the lines, for all queries and tiles together.
                    ahead.prefetch(simd, step.plane_bytes / (4 * LINE * R));
                }
                let scaled = F::INTEGER.then(
                    #[inline(always)]
                    || simd.mul(power, simd.load_acc(step.value_scales.as_ptr().add(j))),
                );
                simd.store_acc(start.add(j), scaled.unwrap_or(power));
            }
        }
        if F::INTEGER {
            fill_unseen(step, &mut scores[r][..lanes], 0.0);
        }
    }
    for ((state, factor), sum) in states.iter_mut().zip(factors).zip(sums) {
        state.sum = state.sum * f64::from(factor) + f64::from(simd.reduce_add(sum));
    }
    factors
}

/// Overwrites what belongs to tokens that are not seen.
#[inline(always)]
fn fill_unseen(step: &Step<'_>, scores: &mut [f32], value: f32) {
    if step.whole {
        return;
    }
    for (scores, seen) in scores.chunks_exact_mut(TILE).zip(step.seen) {
        scores[..seen.from].fill(value);
        scores[seen.to..].fill(value);
    }
}

/// Columns `d` and on, `C` vectors of them, of the values that are seen, weighed and added to the outputs of `R` queries.
///
/// # Safety
/// - As for [`add_step`], and `d + C * LANES` is not more than `step.dim`.
/// - There are weights and factors of `R` queries at least.
#[inline(always)]
unsafe fn add_values<F: Stored, S: AttentionSimd, const R: usize, const C: usize>(
    simd: S,
    step: &Step<'_>,
    weights: &[[f32; STEP_MAX]],
    factors: &[f32],
    o: *mut f32,
    d: usize,
    ahead: &mut Ahead,
) {
    let slot_bytes = C * S::LANES * F::BITS / 8;
    debug_assert!(weights.len() >= R && factors.len() >= R);
    let mut sums = [[simd.splat(0.0); C]; R];
    for tile in 0..F::TILES {
        let values = step.tiles[tile].wrapping_add(step.plane_bytes);
        for slot in step.seen[tile].from..step.seen[tile].to {
            let byte = slot * slot_bytes;
            ahead.keep_up(simd, PAIRS, byte);
            let mut v = [simd.splat(0.0); C];
            for (c, v) in v.iter_mut().enumerate() {
                // SAFETY: the caller vouches for the tile, and that the columns are in it.
                *v = unsafe { F::value(simd, values, step.dim, slot, d + c * S::LANES) };
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                // SAFETY: there are at least `R` rows of weights, and the token is less than `STEP_MAX`.
                let weight =
                    simd.splat(unsafe { *weights.get_unchecked(r).get_unchecked(tile * TILE + slot) });
                for (sum, v) in sums.iter_mut().zip(v) {
                    *sum = simd.mul_add(weight, v, *sum);
                }
            }
        }
    }
    for (r, (sums, &factor)) in sums.into_iter().zip(factors).enumerate() {
        for (c, sum) in sums.into_iter().enumerate() {
            // SAFETY: the caller vouches for the outputs, and that the columns are in them.
            unsafe {
                let o = o.add(r * step.dim + d + c * S::LANES);
                simd.store_acc(o, simd.mul_add(simd.load_acc(o), simd.splat(factor), sum));
            }
        }
    }
}
