//! The entries of a row that may be among its `k` largest.

use super::cut::cut;
use crate::simd::{Compare, LANES_MAX, each_bit};

/// Entries of a row above a threshold, in the order of their indices.
pub(super) struct Candidates {
    values: Vec<f32>,
    indices: Vec<u32>,
    len: usize,
    /// Entries yet to come are needed only if they are larger.
    threshold: f32,
    /// All candidates are larger.
    floor: f32,
}

/// What vector loops may touch behind the last candidate.
const PADDING: usize = 2 * LANES_MAX;

impl Candidates {
    pub(super) fn with_capacity(capacity: usize) -> Candidates {
        let len = capacity + PADDING;
        let (threshold, floor) = (f32::NEG_INFINITY, f32::NEG_INFINITY);
        Candidates { values: vec![0.0; len], indices: vec![0; len], len: 0, threshold, floor }
    }

    pub(super) fn clear(&mut self) {
        (self.len, self.threshold, self.floor) = (0, f32::NEG_INFINITY, f32::NEG_INFINITY);
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// How many more there is room for.
    #[inline(always)]
    pub(super) fn room(&self) -> usize {
        self.values.len() - PADDING - self.len
    }

    #[inline(always)]
    pub(super) fn threshold(&self) -> f32 {
        self.threshold
    }

    #[inline(always)]
    pub(super) fn raise_threshold(&mut self, threshold: f32) {
        if threshold > self.threshold {
            self.threshold = threshold;
        }
        if self.len == 0 {
            self.floor = self.threshold;
        }
    }

    pub(super) fn entries(&self) -> (&[f32], &[u32]) {
        (&self.values[..self.len], &self.indices[..self.len])
    }

    /// Adds the entries `start + bit` for every bit of every mask; `value` says what they are.
    ///
    /// # Safety
    /// - There is [`room`](Candidates::room) for them.
    /// - `value` may be called with each of them, and with each start.
    #[inline(always)]
    pub(super) unsafe fn push<S: Compare>(
        &mut self,
        simd: S,
        starts: &[u32],
        masks: &[u64],
        value: impl Fn(u32) -> f32,
    ) {
        /// With fewer masks, lists of bits are so short that the ends of loops over them are guessed wrongly too often.
        const MANY: usize = 8;
        let (values, indices) = (self.values.as_mut_ptr(), self.indices.as_mut_ptr());
        // SAFETY: `len` and what is added is not above the capacity, as the caller vouches, and there is padding behind it.
        unsafe {
            if masks.len() >= MANY {
                let added = simd.list_bits(starts, masks, indices.add(self.len));
                for i in self.len..self.len + added {
                    *values.add(i) = value(*indices.add(i));
                }
                self.len += added;
            } else {
                let mut len = self.len;
                each_bit(
                    starts,
                    masks,
                    #[inline(always)]
                    |index, counts| {
                        (*values.add(len), *indices.add(len)) = (value(index), index);
                        len += usize::from(counts);
                    },
                );
                self.len = len;
            }
        }
    }

    /// Adds the lanes of `v` that have a bit in `above`; the index of the first lane is `start`.
    ///
    /// # Safety
    /// - There is [`room`](Candidates::room) for them.
    #[inline(always)]
    pub(super) unsafe fn push_vector<S: Compare>(&mut self, simd: S, start: u32, above: u64, v: S::V) {
        // Indices are moved as if they were numbers.
        let indices: [f32; LANES_MAX] = std::array::from_fn(
            #[inline(always)]
            |lane| f32::from_bits(start + lane as u32),
        );
        // SAFETY: `len` is not above the capacity, as the caller vouches, and there is padding for a vector behind it.
        unsafe {
            simd.store_packed(self.values.as_mut_ptr().add(self.len), above, v);
            let indices = simd.load(indices.as_ptr());
            simd.store_packed(self.indices.as_mut_ptr().add(self.len).cast(), above, indices);
        }
        self.len += above.count_ones() as usize;
    }

    /// Adds entries that come after all others.
    pub(super) fn extend(&mut self, values: &[f32], indices: &[u32]) {
        let range = self.len..self.len + values.len();
        self.values[range.clone()].copy_from_slice(values);
        self.indices[range.clone()].copy_from_slice(indices);
        self.len = range.end;
    }

    /// Drops what is not among the `k` largest, except for `excess` entries at most, and raises the threshold to match.
    #[inline(always)]
    pub(super) fn prune<S: Compare>(&mut self, simd: S, k: usize, excess: usize) {
        if self.len > k + excess {
            simd.call(
                #[inline(always)]
                || self.drop_smallest(simd, k, excess),
            );
        }
    }

    /// As [`prune`](Candidates::prune), where there is something to drop.
    #[inline(always)]
    fn drop_smallest<S: Compare>(&mut self, simd: S, k: usize, excess: usize) {
        self.values[self.len..self.len + PADDING].fill(f32::NEG_INFINITY);
        // SAFETY: the buffer is longer than `len` by two vectors, just filled; candidates are larger than the floor.
        let cut = unsafe { cut(simd, self.values.as_ptr(), self.len, k, excess, self.floor) };
        self.floor = cut.threshold;
        if cut.above < k {
            self.keep_above_and_ties(k - cut.above);
            self.floor = self.floor.next_down();
        } else {
            self.keep_above(simd);
        }
        if cut.threshold > self.threshold {
            self.threshold = cut.threshold;
        }
    }

    /// Keeps what is above the floor.
    #[inline(always)]
    fn keep_above<S: Compare>(&mut self, simd: S) {
        let threshold = simd.splat(self.floor);
        let (values, indices) = (self.values.as_mut_ptr(), self.indices.as_mut_ptr());
        let mut kept = 0;
        for i in (0..self.len).step_by(S::LANES) {
            // SAFETY: both buffers are longer than `len` by two vectors, and `kept <= i`. What is packed behind the kept
            // lanes ends where the vector just read does, or before. Indices are moved as if they were numbers.
            unsafe {
                let (v, w) = (simd.load(values.add(i)), simd.load(indices.add(i).cast::<f32>()));
                let above = simd.gt_mask(v, threshold);
                simd.store_packed(values.add(kept), above, v);
                simd.store_packed(indices.add(kept).cast(), above, w);
                kept += above.count_ones() as usize;
            }
        }
        self.len = kept;
    }

    /// Keeps what is above the floor, and the first `ties` of those that are equal to it.
    #[inline(never)]
    fn keep_above_and_ties(&mut self, mut ties: usize) {
        let mut kept = 0;
        for i in 0..self.len {
            let (value, index) = (self.values[i], self.indices[i]);
            let tie = value == self.floor && ties > 0;
            ties -= usize::from(tie);
            (self.values[kept], self.indices[kept]) = (value, index);
            kept += usize::from(value > self.floor || tie);
        }
        self.len = kept;
    }
}
