//! Queries in the forms that tiles are multiplied with.

use std::ops::Range;

use half::bf16;

use super::ahead::Ahead;
use super::step::{AttentionSimd, Group, LINE, Stored};
use crate::kv_cache::{STRIP, rotate};
use crate::simd::Token;

/// Adding this to a small integer leaves it in the lowest bits, which is faster than a conversion that saturates.
const LOWEST_BITS_COUNT: f32 = (3 << 22) as f32;

/// `[queries, padded_group, dim]`: queries as tiles take them, see [`Group`]. What there was before leaves its memory.
pub(super) struct ScaledQueries {
    q: Vec<f32>,
    scales: Vec<f32>,
    rounded: Vec<bf16>,
    codes: Vec<i8>,
    pairs: Vec<[i16; 2]>,
    code_sums: Vec<f32>,
    #[cfg(target_arch = "x86_64")]
    integers: Option<super::integers::Integers>,
    #[cfg(target_arch = "x86_64")]
    products: Option<super::bf16::Products>,
}

impl ScaledQueries {
    pub(super) fn new(token: Token) -> ScaledQueries {
        #[cfg(not(target_arch = "x86_64"))]
        let _ = token;
        ScaledQueries {
            q: Vec::new(),
            scales: Vec::new(),
            rounded: Vec::new(),
            codes: Vec::new(),
            pairs: Vec::new(),
            code_sums: Vec::new(),
            #[cfg(target_arch = "x86_64")]
            integers: super::integers::Integers::new(token),
            #[cfg(target_arch = "x86_64")]
            products: super::bf16::Products::new(token),
        }
    }

    /// Takes the rows of some queries, `group` of each, times what makes scores powers of two; padded with zeros. Meanwhile
    /// memory is asked for lines.
    #[inline(always)]
    pub(super) fn fill<'a, F: Stored, S: AttentionSimd>(
        &mut self,
        simd: S,
        queries: impl Iterator<Item = impl Iterator<Item = &'a [f32]>>,
        [padded_group, dim]: [usize; 2],
        rate: f32,
        ahead: Option<&mut Ahead>,
    ) {
        // Of queries that are rounded to bf16, those of a model that computes in it are exact.
        let (rate, score_rate) = if F::BF16 { (1.0, rate) } else { (rate, 1.0) };
        self.q.clear();
        for group in queries {
            let start = self.q.len();
            for row in group {
                let end = self.q.len() + dim;
                self.q.extend(row.iter().map(
                    #[inline(always)]
                    |q| q * rate,
                ));
                self.q.resize(end, 0.0);
            }
            self.q.resize(start + padded_group * dim, 0.0);
        }
        if F::INTEGER {
            self.round::<F, S>(simd, dim, ahead);
        } else if F::BF16 {
            self.scales.clear();
            self.scales.resize(self.q.len() / dim, score_rate);
            #[cfg(target_arch = "x86_64")]
            if let Some(products) = self.products {
                products.round(&self.q, &mut self.rounded);
            }
        }
    }

    /// For keys that are rotated and rounded: does the same to the queries, to 8 bits.
    #[inline(always)]
    fn round<F: Stored, S: AttentionSimd>(&mut self, simd: S, dim: usize, mut ahead: Option<&mut Ahead>) {
        let zero = simd.splat(0.0);
        let count = self.q.len() / dim;
        self.codes.resize(self.q.len(), 0);
        self.scales.resize(count, 0.0);
        self.code_sums.resize(count, 0.0);
        // Half of a tile's.
        let pairs = F::STRIPS * dim * F::BITS / 8 * STRIP / LINE / 2;
        let of_rows = self.scales.iter_mut().zip(&mut self.code_sums);
        let rows = self.q.chunks_exact_mut(dim).zip(self.codes.chunks_exact_mut(dim)).zip(of_rows);
        for ((row, codes), (scale, code_sum)) in rows {
            if let Some(ahead) = &mut ahead {
                ahead.prefetch(simd, pairs / count);
            }
            rotate(simd, row);
            let (mut largest, mut nothing) = (zero, zero);
            for chunk in row.chunks_exact(S::LANES) {
                // SAFETY: the chunk has `LANES` values.
                let q = unsafe { simd.load_acc(chunk.as_ptr()) };
                largest = simd.max(largest, simd.max(q, simd.sub(zero, q)));
                nothing = simd.mul_add(q, zero, nothing);
            }
            // What is nothing otherwise makes the scale NaN if there is a NaN or an infinity.
            *scale = (simd.reduce_max(largest) + simd.reduce_add(nothing)) / 127.0;
            // Smaller ones have no reciprocal, and leave nothing of a score.
            let reciprocal = if *scale < f32::MIN_POSITIVE { 0.0 } else { 1.0 / *scale };
            for (q, code) in row.iter_mut().zip(codes) {
                *q = (*q * reciprocal).round_ties_even().clamp(-127.0, 127.0);
                *code = (*q + LOWEST_BITS_COUNT).to_bits() as i8;
            }
            let mut sums = zero;
            for chunk in row.chunks_exact(S::LANES) {
                // SAFETY: as above.
                sums = simd.add(sums, unsafe { simd.load_acc(chunk.as_ptr()) });
            }
            *code_sum = simd.reduce_add(sums);
        }
        #[cfg(target_arch = "x86_64")]
        if !matches!(self.integers, Some(super::integers::Integers::Avx2(_))) {
            return;
        }
        self.pairs.clear();
        for &[a, b, c, d] in self.codes.as_chunks::<4>().0 {
            self.pairs.extend([[i16::from(a), i16::from(c)], [i16::from(b), i16::from(d)]]);
        }
    }

    /// `count` queries from `row` on.
    pub(super) fn group(&self, row: usize, count: usize, dim: usize) -> Group<'_> {
        /// What belongs to some rows, if there is any.
        fn part<T>(all: &[T], rows: Range<usize>) -> &[T] {
            if all.is_empty() { all } else { &all[rows] }
        }
        let rows = row..row + count;
        let values = row * dim..(row + count) * dim;
        Group {
            q: &self.q[values.clone()],
            scales: part(&self.scales, rows.clone()),
            rounded: part(&self.rounded, values.clone()),
            codes: part(&self.codes, values),
            pairs: part(&self.pairs, row * dim / 2..(row + count) * dim / 2),
            code_sums: part(&self.code_sums, rows),
            #[cfg(target_arch = "x86_64")]
            integers: self.integers,
            #[cfg(target_arch = "x86_64")]
            products: self.products,
        }
    }
}
