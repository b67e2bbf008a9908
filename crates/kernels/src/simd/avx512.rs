//! AVX-512: 16 lanes of f32, 8 of f64, masked tails.

use std::arch::x86_64::*;

use half::bf16;

use super::{Op, Simd};
use crate::element::Element;

/// Proof that this CPU has AVX-512 F, BW, DQ and VL.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(());

impl Avx512 {
    #[inline]
    pub(crate) fn new() -> Option<Avx512> {
        // The same list as on `run_with_features`.
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        has.then_some(Avx512(()))
    }

    pub(crate) fn run<T: Element, O: Op<T>>(self, op: O)
    where
        Avx512: Simd<T>,
    {
        // SAFETY: the CPU must have the features that the callee enables; `self` was made by `new`, which checked.
        unsafe { self.run_with_features(op) }
    }

    /// # Safety
    /// - The CPU has the features below; a value of `Avx512` proves it.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn run_with_features<T: Element, O: Op<T>>(self, op: O)
    where
        Avx512: Simd<T>,
    {
        op.eval(self);
    }
}

arith!(
    Avx512,
    f32,
    __m512,
    16,
    _mm512_set1_ps,
    _mm512_add_ps,
    _mm512_sub_ps,
    _mm512_mul_ps,
    _mm512_fmadd_ps,
    _mm512_fnmadd_ps,
    _mm512_reduce_add_ps,
    _mm512_loadu_ps,
    _mm512_storeu_ps
);
arith!(
    Avx512,
    f64,
    __m512d,
    8,
    _mm512_set1_pd,
    _mm512_add_pd,
    _mm512_sub_pd,
    _mm512_mul_pd,
    _mm512_fmadd_pd,
    _mm512_fnmadd_pd,
    _mm512_reduce_add_pd,
    _mm512_loadu_pd,
    _mm512_storeu_pd
);
caches_x86_64!(Avx512);

// SAFETY, for the blocks below that say "as above":
// - the intrinsic needs AVX-512 F, BW, DQ or VL: `self` proves that the CPU has them;
// - a load or store needs a pointer valid for what it touches: the caller of the trait's function vouches for it, and a
//   masked access touches no lane whose mask bit is off.

/// A mask of the first `n` lanes.
#[inline(always)]
fn first(n: usize) -> u16 {
    debug_assert!(n < 16);
    (1 << n) - 1
}

impl Simd<f32> for Avx512 {
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> __m512 {
        // SAFETY: as above.
        unsafe { _mm512_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn load_partial(self, p: *const f32, n: usize, fill: __m512) -> __m512 {
        // SAFETY: as above.
        unsafe { _mm512_mask_loadu_ps(fill, first(n), p) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, v: __m512) {
        // SAFETY: as above.
        unsafe { _mm512_storeu_ps(p, v) }
    }
    #[inline(always)]
    unsafe fn stream(self, p: *mut f32, v: __m512) {
        debug_assert!(p.addr().is_multiple_of(64));
        // SAFETY: as above. The address is a multiple of 64, as the caller vouches.
        unsafe { _mm512_stream_ps(p, v) }
    }
    #[inline(always)]
    unsafe fn store_partial(self, p: *mut f32, n: usize, v: __m512) {
        // SAFETY: as above.
        unsafe { _mm512_mask_storeu_ps(p, first(n), v) }
    }
}

impl Simd<f64> for Avx512 {
    #[inline(always)]
    unsafe fn load(self, p: *const f64) -> __m512d {
        // SAFETY: as above.
        unsafe { _mm512_loadu_pd(p) }
    }
    #[inline(always)]
    unsafe fn load_partial(self, p: *const f64, n: usize, fill: __m512d) -> __m512d {
        // SAFETY: as above.
        unsafe { _mm512_mask_loadu_pd(fill, first(n) as u8, p) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f64, v: __m512d) {
        // SAFETY: as above.
        unsafe { _mm512_storeu_pd(p, v) }
    }
    #[inline(always)]
    unsafe fn stream(self, p: *mut f64, v: __m512d) {
        debug_assert!(p.addr().is_multiple_of(64));
        // SAFETY: as above. The address is a multiple of 64, as the caller vouches.
        unsafe { _mm512_stream_pd(p, v) }
    }
    #[inline(always)]
    unsafe fn store_partial(self, p: *mut f64, n: usize, v: __m512d) {
        // SAFETY: as above.
        unsafe { _mm512_mask_storeu_pd(p, first(n) as u8, v) }
    }
}

impl Avx512 {
    /// bf16 is the upper half of an f32.
    #[inline(always)]
    fn widen(self, v: __m256i) -> __m512 {
        // SAFETY: as above.
        unsafe { _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(v))) }
    }

    /// Rounds to nearest, ties to even, and makes NaNs quiet: bit for bit what [`bf16::from_f32`] does.
    #[inline(always)]
    fn narrow(self, v: __m512) -> __m256i {
        // SAFETY: as above.
        unsafe {
            let bits = _mm512_castps_si512(v);
            let high = _mm512_srli_epi32::<16>(bits);
            let odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
            let rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
            let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(v, v);
            let quiet = _mm512_or_si512(high, _mm512_set1_epi32(0x40));
            _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(_mm512_srli_epi32::<16>(rounded), nan, quiet))
        }
    }
}

impl Simd<bf16> for Avx512 {
    #[inline(always)]
    unsafe fn load(self, p: *const bf16) -> __m512 {
        // SAFETY: as above.
        self.widen(unsafe { _mm256_loadu_si256(p.cast()) })
    }
    #[inline(always)]
    unsafe fn load_partial(self, p: *const bf16, n: usize, fill: __m512) -> __m512 {
        let mask = first(n);
        // SAFETY: as above.
        unsafe { _mm512_mask_mov_ps(fill, mask, self.widen(_mm256_maskz_loadu_epi16(mask, p.cast()))) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut bf16, v: __m512) {
        // SAFETY: as above.
        unsafe { _mm256_storeu_si256(p.cast(), self.narrow(v)) }
    }
    #[inline(always)]
    unsafe fn stream(self, p: *mut bf16, v: __m512) {
        debug_assert!(p.addr().is_multiple_of(32));
        // SAFETY: as above. The address is a multiple of 32, as the caller vouches.
        unsafe { _mm256_stream_si256(p.cast(), self.narrow(v)) }
    }
    #[inline(always)]
    unsafe fn store_partial(self, p: *mut bf16, n: usize, v: __m512) {
        // SAFETY: as above.
        unsafe { _mm256_mask_storeu_epi16(p.cast(), first(n), self.narrow(v)) }
    }
}
