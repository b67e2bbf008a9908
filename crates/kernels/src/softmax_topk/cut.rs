//! Where to cut a set of values so that its `k` largest stay.

use crate::simd::Compare;

/// A number below which values are dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cut {
    pub(super) threshold: f32,
    /// How many values are larger. If fewer than `k`, the threshold is the `k`-th largest value.
    pub(super) above: usize,
}

/// An integer that is larger where the number is; not for NaN.
#[inline(always)]
pub(super) fn order(value: f32) -> u32 {
    let bits = value.to_bits();
    if bits >> 31 == 0 { bits | 1 << 31 } else { !bits }
}

/// The number that [`order`] gives this integer for.
#[inline(always)]
pub(super) fn value(order: u32) -> f32 {
    f32::from_bits(if order >> 31 == 1 { order & !(1 << 31) } else { !order })
}

/// How often an interval of values is halved before the interval of their [`order`] is, which always comes to an end.
const HALVINGS: usize = 12;

/// Finds a cut with at most `k + excess` values above it, by bisection; any cut if one of the values is NaN.
///
/// # Safety
/// - `values` can be read for `len` rounded up to two vectors; what is behind `len` is negative infinity.
/// - More than `k` of them are larger than `low`, and `k` is not zero.
#[inline(always)]
pub(super) unsafe fn cut<S: Compare>(
    simd: S,
    values: *const f32,
    len: usize,
    k: usize,
    excess: usize,
    mut low: f32,
) -> Cut {
    let padded = len.next_multiple_of(2 * S::LANES);
    // SAFETY: the caller vouches for `padded` values.
    let mut high = unsafe { largest(simd, values, padded) };
    if high.is_nan() {
        return Cut { threshold: low, above: len };
    }
    // Most often the largest alone, or many that are as large: bisection would take long to find that out.
    let below = high.next_down();
    // SAFETY: as above.
    let ties = unsafe { count_above(simd, values, padded, below) };
    if ties >= k {
        let few = ties <= k + excess;
        return if few { Cut { threshold: below, above: ties } } else { Cut { threshold: high, above: 0 } };
    }
    // Always `above(low) >= k > above(high)`.
    let mut cut = Cut { threshold: low, above: len };
    let mut above_high = 0;
    let mut step = 0;
    while cut.above > k + excess {
        let mut middle = match step {
            // SAFETY: `step < 16`, so the index is below `len`.
            _ if low == f32::NEG_INFINITY && step < HALVINGS => unsafe { *values.add(step * len / 16) },
            _ if step < HALVINGS => 0.5 * low + 0.5 * high,
            _ => f32::NAN,
        };
        if !(low < middle && middle < high) {
            let (below, above) = (order(low), order(high));
            middle = value(below + (above - below) / 2);
            if middle == low {
                return Cut { threshold: high, above: above_high };
            }
        }
        // SAFETY: as above.
        let above = unsafe { count_above(simd, values, padded, middle) };
        let enough = above >= k;
        cut = if enough { Cut { threshold: middle, above } } else { cut };
        low = if enough { middle } else { low };
        high = if enough { high } else { middle };
        above_high = if enough { above_high } else { above };
        step += 1;
    }
    cut
}

/// The largest of `len` values, a multiple of two vectors.
///
/// # Safety
/// - `len` values can be read at `values`.
#[inline(always)]
unsafe fn largest<S: Compare>(simd: S, values: *const f32, len: usize) -> f32 {
    let mut max = simd.splat(f32::NEG_INFINITY);
    for i in (0..len).step_by(S::LANES) {
        // SAFETY: `i + LANES <= len`.
        max = simd.max(max, unsafe { simd.load(values.add(i)) });
    }
    simd.reduce_max(max)
}

/// How many of `len` values, a multiple of two vectors, are larger than `threshold`.
///
/// # Safety
/// - `len` values can be read at `values`.
#[inline(always)]
pub(super) unsafe fn count_above<S: Compare>(
    simd: S,
    values: *const f32,
    len: usize,
    threshold: f32,
) -> usize {
    let threshold = simd.splat(threshold);
    let mut counts = [0; 2];
    for i in (0..len).step_by(2 * S::LANES) {
        for (u, count) in counts.iter_mut().enumerate() {
            // SAFETY: `i + 2 * LANES <= len`.
            let v = unsafe { simd.load(values.add(i + u * S::LANES)) };
            *count += simd.gt_mask(v, threshold).count_ones() as usize;
        }
    }
    counts[0] + counts[1]
}
