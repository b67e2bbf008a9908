//! Scores over rows of integers, by the instruction that adds four products of bytes to a lane of 32 bits.

use std::arch::x86_64::*;

use super::tile::{LINE, Scores, Tile};
use crate::simd::{Avx512, Caches, Sums, Token};

/// Proof that this CPU has AVX-512 with VNNI, and that AVX-512 is what was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vnni(Avx512);

impl Vnni {
    pub(super) fn new(token: Token) -> Option<Vnni> {
        match token {
            Token::Avx512(simd) if is_x86_feature_detected!("avx512vnni") => Some(Vnni(simd)),
            _ => None,
        }
    }

    /// Scores of `R` queries, `J` keys at a time, without their scales; those behind the last key are anything. All sums are
    /// exact for rows of up to 512 values.
    ///
    /// `codes` are `[R, dim]`; where a byte of a key holds two values, those that meet the low halves come first.
    /// `offsets` are what the scores are too large by, because keys are taken for unsigned: with an offset of 128, or as `c`
    /// instead of `c - 7.5`.
    ///
    /// # Safety
    /// - `codes` and `offsets` have `R` rows of `tile.dim` codes, and `R` values.
    /// - The first `tile.len`, rounded up to a multiple of `J`, of `tile.keys` are rows of `tile.row_bytes` bytes: of
    ///   `tile.dim` values if not `NIBBLES`, and otherwise of twice as many as there are bytes.
    #[inline(always)]
    pub(super) unsafe fn multiply<const NIBBLES: bool, const R: usize, const J: usize>(
        self,
        tile: Tile<'_>,
        codes: *const i8,
        offsets: &[f32],
        scores: &mut Scores,
    ) {
        // SAFETY: the CPU has the instructions, as `self` proves; the caller vouches for the rest.
        unsafe { multiply::<NIBBLES, R, J>(self.0, tile, codes, offsets, scores) }
    }
}

/// # Safety
/// - As for [`Vnni::multiply`], and the CPU has the features.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,popcnt,bmi1")]
unsafe fn multiply<const NIBBLES: bool, const R: usize, const J: usize>(
    simd: Avx512,
    tile: Tile<'_>,
    codes: *const i8,
    offsets: &[f32],
    scores: &mut Scores,
) {
    let low_half = _mm512_set1_epi8(15);
    let sign = _mm512_set1_epi8(-128);
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
        let mut sums = [[_mm512_setzero_si512(); J]; R];
        for byte in (0..tile.row_bytes).step_by(64) {
            let mask = u64::MAX >> (64 - (tile.row_bytes - byte).min(64));
            for (j, &key) in keys.iter().enumerate() {
                // SAFETY: the mask lets through what is in the row, for which the caller vouches.
                let row = unsafe { _mm512_maskz_loadu_epi8(mask, key.add(byte).cast()) };
                for (r, sums) in sums.iter_mut().enumerate() {
                    // SAFETY: a row of queries has as many bytes as one of keys, or twice as many.
                    let q = |at: usize| unsafe {
                        _mm512_maskz_loadu_epi8(mask, codes.add(r * tile.dim + at + byte))
                    };
                    if NIBBLES {
                        let high = _mm512_and_si512(_mm512_srli_epi16::<4>(row), low_half);
                        sums[j] = _mm512_dpbusd_epi32(sums[j], _mm512_and_si512(row, low_half), q(0));
                        sums[j] = _mm512_dpbusd_epi32(sums[j], high, q(tile.row_bytes));
                    } else {
                        sums[j] = _mm512_dpbusd_epi32(sums[j], _mm512_xor_si512(row, sign), q(0));
                    }
                }
            }
        }
        let mut wide = [[_mm512_setzero_ps(); J]; R];
        for (wide, sums) in wide.iter_mut().zip(sums) {
            for (wide, sum) in wide.iter_mut().zip(sums) {
                *wide = _mm512_cvtepi32_ps(sum);
            }
        }
        let mut totals = [[0.0; J]; R];
        // SAFETY: there are as many totals as sums.
        unsafe { simd.store_sums(totals.as_mut_ptr().cast(), wide.as_flattened()) };
        for ((scores, totals), offset) in scores.iter_mut().zip(totals).zip(offsets) {
            scores[at..at + J].copy_from_slice(&totals.map(|total| total - offset));
        }
    }
}
