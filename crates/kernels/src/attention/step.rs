//! Some queries against the tokens of a few strips: scores, exponentials, and the sum of values that they weigh.

use std::marker::PhantomData;
use std::ops::Range;

use half::{bf16, f16};

use super::ahead::Ahead;
use crate::kv_cache::{Format, STRIP, panel_width};
use crate::simd::{Caches, Compare, Exchange, Exp2, LANES_MAX, LANES_MIN, Load, LoadPacked};

/// All that attention asks of vectors.
pub(super) trait AttentionSimd:
    Load<f32, f32> + Load<f16, f32> + LoadPacked + Compare + Exchange + Exp2 + Caches
{
}

impl<S> AttentionSimd for S where
    S: Load<f32, f32> + Load<f16, f32> + LoadPacked + Compare + Exchange + Exp2 + Caches
{
}

/// How a strip is read.
pub(super) trait Stored {
    /// What is stored so.
    const FORMAT: Format;

    /// How many strips are taken at a time, which are a tile if they lie in one block and it is aligned to tiles. Results depend on it.
    const STRIPS: usize = Self::FORMAT.tile_strips();

    /// How many strips have their exponentials taken at once. Of f32 and bf16, which wait for memory, those of a strip come right after its keys:
    /// that is so little that what the CPU looks ahead reaches over it to what comes next, and memory is not kept waiting. The others
    /// wait for instructions, of which more are independent of each other in more strips. Results depend on it.
    const AT_ONCE: usize = match Self::FORMAT {
        Format::F32 | Format::Bf16 => 1,
        Format::F16 | Format::Int8 | Format::Int4 => Self::STRIPS,
    };

    /// How large a value is.
    const BITS: usize = Self::FORMAT.bits();

    /// Whether values are integers, with a scale that what is read must be multiplied by.
    const INTEGER: bool = matches!(Self::FORMAT, Format::Int8 | Format::Int4);

    /// Whether a byte holds two values.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "instructions of x86-64 ask"))]
    const NIBBLES: bool = matches!(Self::FORMAT, Format::Int4);

    /// Whether some instructions multiply values as they are.
    const BF16: bool = matches!(Self::FORMAT, Format::Bf16);

    /// Whether scores are to be multiplied by something.
    const SCALED: bool = Self::INTEGER || Self::BF16;

    /// Reads value `d` of the keys of `LANES` tokens, from the one in `slot` on.
    ///
    /// # Safety
    /// - `keys` is a strip of keys of this kind, with more than `d` values each.
    /// - `slot` is a multiple of `LANES`, and less than [`STRIP`].
    unsafe fn key<S: AttentionSimd>(simd: S, keys: *const u8, d: usize, slot: usize) -> S::V;

    /// Reads `LANES` values of the token in `slot`, from the one at `d` on.
    ///
    /// # Safety
    /// - `values` is where a strip begins in a panel of values of this kind, which is so wide.
    /// - `slot` is less than [`STRIP`], and `d` less than `width` and a multiple of `LANES`.
    unsafe fn value<S: AttentionSimd>(
        simd: S,
        values: *const u8,
        width: usize,
        slot: usize,
        d: usize,
    ) -> S::V;
}

/// Values of type `T`.
pub(super) struct Plain<T>(PhantomData<T>);

macro_rules! plain {
    ($value:ty, $format:ident) => {
        impl Stored for Plain<$value> {
            const FORMAT: Format = Format::$format;

            #[inline(always)]
            unsafe fn key<S: AttentionSimd>(simd: S, keys: *const u8, d: usize, slot: usize) -> S::V {
                // SAFETY: a strip is `[dim][STRIP]`, and `LANES` divides `STRIP`.
                unsafe { <S as Load<$value, f32>>::load(simd, keys.cast::<$value>().add(d * STRIP + slot)) }
            }

            #[inline(always)]
            unsafe fn value<S: AttentionSimd>(
                simd: S,
                values: *const u8,
                width: usize,
                slot: usize,
                d: usize,
            ) -> S::V {
                // SAFETY: a panel is `[tokens][width]`, and `LANES` divides `width`.
                unsafe { <S as Load<$value, f32>>::load(simd, values.cast::<$value>().add(slot * width + d)) }
            }
        }
    };
}

plain!(f32, F32);
plain!(f16, F16);

macro_rules! packed {
    ($(#[$doc:meta])* $stored:ident, $packed:literal, $load:ident) => {
        $(#[$doc])*
        pub(super) struct $stored;

        impl Stored for $stored {
            const FORMAT: Format = Format::$stored;

            #[inline(always)]
            unsafe fn key<S: AttentionSimd>(simd: S, keys: *const u8, d: usize, slot: usize) -> S::V {
                // SAFETY: a strip is `[dim / packed][STRIP]` times four bytes, and `LANES` divides `STRIP`.
                unsafe { simd.$load(keys.add(4 * (d / $packed * STRIP + slot)), d % $packed) }
            }

            #[inline(always)]
            unsafe fn value<S: AttentionSimd>(
                simd: S,
                values: *const u8,
                width: usize,
                slot: usize,
                d: usize,
            ) -> S::V {
                // SAFETY: a panel is `[tokens / packed][width]` times four bytes, and `LANES` divides `width`.
                unsafe { simd.$load(values.add(4 * (slot / $packed * width + d)), slot % $packed) }
            }
        }
    };
}

packed!(
    /// [`Format::Bf16`](crate::kv_cache::Format::Bf16)
    Bf16, 2, load_bf16
);
packed!(
    /// [`Format::Int8`](crate::kv_cache::Format::Int8)
    Int8, 4, load_i8
);
packed!(
    /// [`Format::Int4`](crate::kv_cache::Format::Int4)
    Int4, 8, load_u4
);

/// The largest [`Stored::STRIPS`].
pub(super) const STRIPS_MAX: usize = 4;

/// With every eighth line that is read of keys or values, so many pairs of lines are [asked for](Ahead): floats ask for as many lines
/// as they read.
pub(super) const PAIRS: usize = 4;

/// Integers leave a quarter for their exponentials, which take as long as that.
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "instructions of x86-64 keep up so"))]
pub(super) const INTEGER_PAIRS: usize = 3;

/// How many tokens these have.
pub(super) const STEP_MAX: usize = STRIPS_MAX * STRIP;

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

/// Some tokens of a strip, from one up to another.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slots {
    pub(super) from: usize,
    pub(super) to: usize,
}

impl Slots {
    pub(super) fn is_empty(self) -> bool {
        self.from == self.to
    }
}

/// Where a strip is.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// Its keys.
    pub(super) keys: *const u8,
    /// The values of its tile.
    pub(super) values: *const u8,
    /// How many strips its tile has.
    pub(super) of: usize,
    /// Which of these it is.
    pub(super) number: usize,
}

impl Place {
    pub(super) const NOWHERE: Place =
        Place { keys: std::ptr::null(), values: std::ptr::null(), of: 0, number: 0 };

    /// Where it begins in a panel of its values.
    #[inline(always)]
    fn panel(&self, bits: usize, panel: Panel) -> *const u8 {
        let Panel { first, width } = panel;
        self.values.wrapping_add(STRIP * bits / 8 * (self.of * first + self.number * width))
    }
}

/// Where strips of a step are: at some places, or so many bytes behind.
#[derive(Clone, Copy)]
pub(super) struct Strips<'a> {
    pub(super) places: &'a [Place; STRIPS_MAX],
    pub(super) offset: usize,
}

impl Strips<'_> {
    /// The keys of one.
    #[inline(always)]
    pub(super) fn keys(&self, strip: usize) -> *const u8 {
        self.places[strip].keys.wrapping_add(self.offset)
    }

    /// Where one begins in a panel of its values.
    #[inline(always)]
    pub(super) fn panel(&self, strip: usize, bits: usize, panel: Panel) -> *const u8 {
        self.places[strip].panel(bits, panel).wrapping_add(self.offset)
    }
}

/// Some columns of values, which are next to each other.
#[derive(Clone, Copy)]
pub(super) struct Panel {
    /// The first of them.
    pub(super) first: usize,
    /// How many they are.
    pub(super) width: usize,
}

/// Columns of a panel, from one of them on.
#[derive(Clone, Copy)]
pub(super) struct Columns {
    pub(super) panel: Panel,
    pub(super) d: usize,
}

impl Panel {
    /// Its columns from `d` on.
    #[inline(always)]
    pub(super) fn from(self, d: usize) -> Columns {
        Columns { panel: self, d }
    }

    /// All that rows of `dim` values have.
    #[inline(always)]
    pub(super) fn all(format: Format, dim: usize) -> impl Iterator<Item = Panel> {
        (0..dim).step_by(format.panel()).map(
            #[inline(always)]
            move |first| Panel { first, width: panel_width(format.panel(), dim, first) },
        )
    }
}

/// Some strips, and what queries see of them.
#[derive(Clone, Copy)]
pub(super) struct Step<'a> {
    /// Where they are. Of a strip of which nothing is seen, this may be another.
    pub(super) strips: Strips<'a>,
    /// Not empty for all strips.
    pub(super) seen: [Slots; STRIPS_MAX],
    /// Whether all tokens of all strips are seen, as most are.
    pub(super) whole: bool,
    /// What scores are to be multiplied by, where there are scales. Anything for what is not seen.
    pub(super) key_scales: &'a [f32; STEP_MAX],
    /// What values are to be multiplied by.
    pub(super) value_scales: &'a [f32; STEP_MAX],
    /// The keys of a strip are so many bytes, and so are its values.
    pub(super) plane_bytes: usize,
    /// How many values a key has, with its padding.
    pub(super) dim: usize,
}

/// A group of queries.
#[derive(Clone, Copy)]
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "codes are for instructions of x86-64"))]
pub(super) struct Group<'a> {
    /// `[R, dim]`: what keys are multiplied with; integers, where rows are.
    pub(super) q: &'a [f32],
    /// `[R]`, where scores are [scaled](Stored::SCALED): what they are to be multiplied by then.
    pub(super) scales: &'a [f32],
    /// `[R, dim]`, where keys are bf16: the same, rounded to it.
    pub(super) rounded: &'a [bf16],
    /// `[R, dim]`, where keys are integers: the same integers.
    pub(super) codes: &'a [i8],
    /// `[R, dim / 2]`: the same, of each four the first and the third, and the second and the fourth.
    pub(super) pairs: &'a [[i16; 2]],
    /// `[R]`: the sums of these.
    pub(super) code_sums: &'a [f32],
    /// The instructions for integers.
    #[cfg(target_arch = "x86_64")]
    pub(super) integers: Option<super::integers::Integers>,
    /// Those for bf16.
    #[cfg(target_arch = "x86_64")]
    pub(super) products: Option<super::bf16::Products>,
}

/// Scores, and then exponentials, of a group of queries.
pub(super) type Scores = [[f32; STEP_MAX]; GROUP];

/// Adds the tokens that are seen to the states of `R` queries, and to their outputs.
///
/// # Safety
/// - `o` holds `R * step.dim` values, and `group` has `R` queries of so many, as codes too if `F` is of integers.
/// - The first `F::STRIPS` of `step.strips` can be read, and are of `F` with keys of `step.dim` values; of each, what is seen ends
///   at [`STRIP`] or before.
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
    const { assert!(!F::INTEGER || F::STRIPS == STRIPS_MAX, "sums of integers read all weights") };
    let mut running = Running { states, factors: [1.0; R], sums: [simd.splat(0.0); R] };
    for first in (0..F::STRIPS).step_by(F::AT_ONCE) {
        let strips = first..first + F::AT_ONCE;
        for strip in strips.clone().filter(|&strip| !step.seen[strip].is_empty()) {
            // SAFETY: the caller vouches for everything.
            unsafe { multiply_all::<F, S, R>(simd, step, strip, &group, scores, ahead) };
        }
        // SAFETY: the caller vouches for everything.
        unsafe {
            exponentiate::<F, S, R>(simd, step, strips, group.scales, scores, &mut running, ahead);
        }
    }
    let Running { states, factors, sums } = running;
    for ((state, factor), sum) in states.iter_mut().zip(factors).zip(sums) {
        state.sum = state.sum * f64::from(factor) + f64::from(simd.reduce_add(sum));
    }
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
    #[cfg(target_arch = "x86_64")]
    if F::BF16
        && let Some(products) = group.products
    {
        // SAFETY: the caller vouches for everything.
        unsafe { products.add_values::<R>(step, scores, &factors, o, ahead) };
        return;
    }
    // SAFETY: the caller vouches for everything.
    unsafe {
        if S::LANES == LANES_MAX {
            add_values::<F, S, R, 4>(simd, step, scores, &factors, o, ahead);
        } else {
            add_values::<F, S, R, 2>(simd, step, scores, &factors, o, ahead);
        }
    }
}

/// Scores of `R` queries with a strip, by what is fastest for the instructions and the form.
///
/// # Safety
/// - As for [`add_step`], and `strip` is one of those that can be read.
#[inline(always)]
unsafe fn multiply_all<F: Stored, S: AttentionSimd, const R: usize>(
    simd: S,
    step: &Step<'_>,
    strip: usize,
    group: &Group<'_>,
    scores: &mut Scores,
    ahead: &mut Ahead,
) {
    #[cfg(target_arch = "x86_64")]
    if F::INTEGER
        && let Some(integers) = group.integers
    {
        // SAFETY: the caller vouches for everything.
        unsafe {
            if F::NIBBLES {
                integers.multiply::<true, R>(step, strip, group, scores, ahead);
            } else {
                integers.multiply::<false, R>(step, strip, group, scores, ahead);
            }
        }
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if F::BF16
        && let Some(products) = group.products
    {
        // SAFETY: the caller vouches for everything.
        unsafe { products.multiply::<R>(step, strip, group.rounded.as_ptr(), scores, ahead) };
        return;
    }
    let q = group.q.as_ptr();
    // SAFETY: the caller vouches for everything.
    unsafe {
        if S::LANES == LANES_MAX {
            multiply::<F, S, R, 1, 2>(simd, step, strip, q, scores, ahead);
        } else if S::LANES == LANES_MIN {
            multiply::<F, S, R, 4, 1>(simd, step, strip, q, scores, ahead);
        } else {
            multiply::<F, S, R, 2, 1>(simd, step, strip, q, scores, ahead);
        }
    }
}

/// Scores of `R` queries with a strip, which is `J` vectors. Products are added to `U` sums in turn.
///
/// # Safety
/// - As for [`multiply_all`].
#[inline(always)]
unsafe fn multiply<F: Stored, S: AttentionSimd, const R: usize, const J: usize, const U: usize>(
    simd: S,
    step: &Step<'_>,
    strip: usize,
    q: *const f32,
    scores: &mut Scores,
    ahead: &mut Ahead,
) {
    debug_assert_eq!(J * S::LANES, STRIP);
    let keys = step.strips.keys(strip);
    let mut sums = [[[simd.splat(0.0); J]; R]; U];
    for d in (0..step.dim).step_by(U) {
        for (u, sums) in sums.iter_mut().enumerate() {
            ahead.keep_up(simd, PAIRS, (d + u) * STRIP * F::BITS / 8);
            let mut k = [simd.splat(0.0); J];
            for (j, k) in k.iter_mut().enumerate() {
                // SAFETY: the caller vouches for the strip, whose keys have `dim` values, a multiple of `U`.
                *k = unsafe { F::key(simd, keys, d + u, j * S::LANES) };
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
        for (j, scores) in scores[strip * STRIP..].chunks_exact_mut(S::LANES).enumerate().take(J) {
            let mut sum = sums[0][r][j];
            for sums in &sums[1..] {
                sum = simd.add(sum, sums[r][j]);
            }
            // SAFETY: the chunk has `LANES` scores.
            unsafe { simd.store_acc(scores.as_mut_ptr(), sum) };
        }
    }
}

/// What a step has come to so far, of each query.
struct Running<'a, V, const R: usize> {
    states: &'a mut [State],
    /// What sums of earlier steps must be multiplied by.
    factors: [f32; R],
    /// Sums of exponentials.
    sums: [V; R],
}

/// Overwrites the scores of `R` queries with some strips by what their values are weighed by, which is zero for integers that are not seen
/// and anything for others. Mostly no score is above the exponents so far, so the largest need not be looked for.
///
/// # Safety
/// - As for [`add_step`], and the strips are among those that can be read.
#[inline(always)]
unsafe fn exponentiate<F: Stored, S: AttentionSimd, const R: usize>(
    simd: S,
    step: &Step<'_>,
    strips: Range<usize>,
    scales: &[f32],
    scores: &mut Scores,
    running: &mut Running<'_, S::V, R>,
    ahead: &mut Ahead,
) {
    let vectors = (strips.start * STRIP..strips.end * STRIP).step_by(S::LANES);
    let mut above = 0;
    for (r, (scores, state)) in scores.iter_mut().zip(&*running.states).enumerate().take(R) {
        let start = scores.as_mut_ptr();
        if F::SCALED {
            let scale = simd.splat(scales[r]);
            for at in vectors.clone() {
                // SAFETY: `LANES` divides `STRIP`, and a step has so many scores and scales.
                unsafe {
                    let scales = if F::INTEGER {
                        simd.mul(simd.load_acc(step.key_scales.as_ptr().add(at)), scale)
                    } else {
                        scale
                    };
                    simd.store_acc(start.add(at), simd.mul(simd.load_acc(start.add(at)), scales));
                }
            }
        }
        fill_unseen(step, strips.clone(), scores, f32::NEG_INFINITY);
        for at in vectors.clone() {
            // SAFETY: as above.
            above |= simd.gt_mask(unsafe { simd.load_acc(start.add(at)) }, simd.splat(state.exponent));
        }
    }
    if above != 0 {
        // SAFETY: the caller vouches for everything.
        unsafe { raise(simd, strips.clone(), scores, running) };
    }
    let scaling = simd.scaling(1.0, 0.0);
    let zero = simd.splat(0.0);
    // What is not seen has a power that is all but zero, and times a scale it is subnormal: some CPUs take a hundred cycles for that.
    let seen_end = match strips.clone().rev().find(|&strip| !step.seen[strip].is_empty()) {
        _ if step.whole || !F::INTEGER => strips.end,
        Some(last) => last + 1,
        None => strips.start,
    };
    let vectors = (strips.start * STRIP..seen_end * STRIP).step_by(S::LANES);
    for ((scores, state), sum) in scores.iter_mut().zip(&*running.states).zip(&mut running.sums) {
        let start = scores.as_mut_ptr();
        // As long as all scores are negative infinity, so is the exponent.
        let exponent = if state.exponent == f32::NEG_INFINITY { 0.0 } else { state.exponent };
        let exponent = simd.splat(exponent);
        for at in vectors.clone() {
            // SAFETY: as above.
            unsafe {
                let power = simd.add_exp2(zero, simd.sub(simd.load_acc(start.add(at)), exponent), scaling);
                *sum = simd.add(*sum, power);
                if F::INTEGER && at.is_multiple_of(STRIP) {
                    // A quarter of the lines, for all queries and strips together.
                    ahead.prefetch(simd, step.plane_bytes / (4 * LINE * R));
                }
                let scaled = F::INTEGER.then(
                    #[inline(always)]
                    || simd.mul(power, simd.load_acc(step.value_scales.as_ptr().add(at))),
                );
                simd.store_acc(start.add(at), scaled.unwrap_or(power));
            }
        }
        if F::INTEGER {
            fill_unseen(step, strips.clone(), scores, 0.0);
        }
    }
}

/// Raises exponents to what the scores with some strips ask for, and puts right what the step has come to before.
///
/// # Safety
/// - As for [`exponentiate`].
#[inline(always)]
unsafe fn raise<S: AttentionSimd, const R: usize>(
    simd: S,
    strips: Range<usize>,
    scores: &mut Scores,
    running: &mut Running<'_, S::V, R>,
) {
    let Running { states, factors, sums } = running;
    let queries = scores.iter_mut().zip(states.iter_mut()).zip(factors.iter_mut().zip(sums));
    for ((scores, state), (factor, sum)) in queries {
        let (before, scores) = scores.split_at_mut(strips.start * STRIP);
        let mut largest = simd.splat(f32::NEG_INFINITY);
        for scores in scores[..strips.len() * STRIP].chunks_exact(S::LANES) {
            // SAFETY: the chunk has `LANES` scores.
            largest = simd.max(largest, unsafe { simd.load_acc(scores.as_ptr()) });
        }
        let largest = simd.reduce_max(largest);
        if !(largest <= state.exponent) {
            let exponent = largest.ceil();
            let raised = (state.exponent - exponent).exp2();
            state.exponent = exponent;
            *factor *= raised;
            let raised = simd.splat(raised);
            *sum = simd.mul(*sum, raised);
            for weights in before.chunks_exact_mut(S::LANES) {
                // SAFETY: the chunk has `LANES` weights.
                unsafe {
                    let weight = simd.mul(simd.load_acc(weights.as_ptr()), raised);
                    simd.store_acc(weights.as_mut_ptr(), weight);
                }
            }
        }
    }
}

/// Overwrites what belongs to tokens of some strips that are not seen.
#[inline(always)]
fn fill_unseen(step: &Step<'_>, strips: Range<usize>, scores: &mut [f32; STEP_MAX], value: f32) {
    if step.whole {
        return;
    }
    for strip in strips {
        let Slots { from, to } = step.seen[strip];
        let scores = &mut scores[strip * STRIP..(strip + 1) * STRIP];
        scores[..from].fill(value);
        scores[to..].fill(value);
    }
}

/// The values that are seen, weighed and added to the outputs of `R` queries, `C` vectors of columns at a time where there are as many.
///
/// # Safety
/// - As for [`add_step`].
#[inline(always)]
unsafe fn add_values<F: Stored, S: AttentionSimd, const R: usize, const C: usize>(
    simd: S,
    step: &Step<'_>,
    weights: &Scores,
    factors: &[f32; R],
    o: *mut f32,
    ahead: &mut Ahead,
) {
    for panel in Panel::all(F::FORMAT, step.dim) {
        let mut d = 0;
        while d < panel.width {
            // SAFETY: the caller vouches for everything, and the columns are in the panel.
            unsafe {
                if d + C * S::LANES <= panel.width {
                    add_columns::<F, S, R, C>(simd, step, weights, factors, o, panel.from(d), ahead);
                    d += C * S::LANES;
                } else {
                    add_columns::<F, S, R, 1>(simd, step, weights, factors, o, panel.from(d), ahead);
                    d += S::LANES;
                }
            }
        }
    }
}

/// `C` vectors of columns of a panel.
///
/// # Safety
/// - As for [`add_step`], and the panel has so many columns.
#[inline(always)]
unsafe fn add_columns<F: Stored, S: AttentionSimd, const R: usize, const C: usize>(
    simd: S,
    step: &Step<'_>,
    weights: &Scores,
    factors: &[f32; R],
    o: *mut f32,
    columns: Columns,
    ahead: &mut Ahead,
) {
    let Columns { panel, d } = columns;
    let slot_bytes = C * S::LANES * F::BITS / 8;
    let mut sums = [[simd.splat(0.0); C]; R];
    for strip in 0..F::STRIPS {
        let values = step.strips.panel(strip, F::BITS, panel);
        for slot in step.seen[strip].from..step.seen[strip].to {
            let byte = slot * slot_bytes;
            ahead.keep_up(simd, PAIRS, byte);
            let mut v = [simd.splat(0.0); C];
            for (c, v) in v.iter_mut().enumerate() {
                // SAFETY: the caller vouches for the strip, and that the columns are in the panel.
                *v = unsafe { F::value(simd, values, panel.width, slot, d + c * S::LANES) };
            }
            for (sums, weights) in sums.iter_mut().zip(weights) {
                // SAFETY: the token is less than `STEP_MAX`.
                let weight = simd.splat(unsafe { *weights.get_unchecked(strip * STRIP + slot) });
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
                let o = o.add(r * step.dim + panel.first + d + c * S::LANES);
                simd.store_acc(o, simd.mul_add(simd.load_acc(o), simd.splat(factor), sum));
            }
        }
    }
}
