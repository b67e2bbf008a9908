//! AVX2 with FMA: 8 lanes of f32, 4 of f64; tails by mask for f32 and f64, through the stack for bf16.

use std::arch::x86_64::*;

use half::{bf16, f16};

use super::{Compare, EXPONENT_MIN, Exponents, Load, LoadIntegers, Simd, Sort, nibble_shift};

/// Proof that this CPU has AVX2 and FMA.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

impl Avx2 {
    #[inline]
    pub(crate) fn new() -> Option<Avx2> {
        // The same list as in `features!` below.
        let has = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
            && is_x86_feature_detected!("popcnt")
            && is_x86_feature_detected!("bmi1");
        has.then_some(Avx2(()))
    }
}

features!(Avx2, "avx2,fma,f16c,popcnt,bmi1");

arith!(
    Avx2,
    f32,
    __m256,
    8,
    _mm256_set1_ps,
    _mm256_add_ps,
    _mm256_sub_ps,
    _mm256_mul_ps,
    _mm256_fmadd_ps,
    _mm256_fnmadd_ps,
    reduce_add_ps,
    _mm256_loadu_ps,
    _mm256_storeu_ps
);
arith!(
    Avx2,
    f64,
    __m256d,
    4,
    _mm256_set1_pd,
    _mm256_add_pd,
    _mm256_sub_pd,
    _mm256_mul_pd,
    _mm256_fmadd_pd,
    _mm256_fnmadd_pd,
    reduce_add_pd,
    _mm256_loadu_pd,
    _mm256_storeu_pd
);
caches_x86_64!(Avx2);

/// # Safety
/// - The CPU has AVX2.
#[inline(always)]
unsafe fn reduce_add_ps(v: __m256) -> f32 {
    // SAFETY: needs AVX2, as the caller vouches.
    unsafe {
        let four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
    }
}

/// # Safety
/// - The CPU has AVX2.
#[inline(always)]
unsafe fn reduce_add_pd(v: __m256d) -> f64 {
    // SAFETY: needs AVX2, as the caller vouches.
    unsafe {
        let two = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd::<1>(v));
        _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)))
    }
}

// SAFETY, for the blocks below that say "as above":
// - the intrinsic needs AVX2: `self` proves that the CPU has it;
// - a load or store needs a pointer valid for what it touches: the caller of the trait's function vouches for it, and a
//   masked access touches no lane whose mask is zero.

impl Avx2 {
    /// All bits set in the first `n` lanes of 32 bits.
    #[inline(always)]
    fn first_8(self, n: usize) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)) }
    }

    /// All bits set in the first `n` lanes of 64 bits.
    #[inline(always)]
    fn first_4(self, n: usize) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_cmpgt_epi64(_mm256_set1_epi64x(n as i64), _mm256_setr_epi64x(0, 1, 2, 3)) }
    }

    /// bf16 is the upper half of an f32.
    #[inline(always)]
    fn widen(self, v: __m128i) -> __m256 {
        // SAFETY: as above.
        unsafe { _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(v))) }
    }

    /// Rounds to nearest, ties to even, and makes NaNs quiet: bit for bit what [`bf16::from_f32`] does.
    #[inline(always)]
    fn narrow(self, v: __m256) -> __m128i {
        // SAFETY: as above.
        unsafe {
            let bits = _mm256_castps_si256(v);
            let high = _mm256_srli_epi32::<16>(bits);
            let odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
            let rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
            let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(v, v));
            let quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
            let words = _mm256_blendv_epi8(_mm256_srli_epi32::<16>(rounded), quiet, nan);
            // The pack works on each half of 128 bits by itself; the permute puts both results next to each other.
            let packed = _mm256_permute4x64_epi64::<0b1000>(_mm256_packus_epi32(words, words));
            _mm256_castsi256_si128(packed)
        }
    }
}

impl Load<f32, f32> for Avx2 {
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> __m256 {
        // SAFETY: as above.
        unsafe { _mm256_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn load_partial(self, p: *const f32, n: usize, fill: __m256) -> __m256 {
        let mask = self.first_8(n);
        // SAFETY: as above.
        unsafe { _mm256_blendv_ps(fill, _mm256_maskload_ps(p, mask), _mm256_castsi256_ps(mask)) }
    }
}

impl Simd<f32> for Avx2 {
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, v: __m256) {
        // SAFETY: as above.
        unsafe { _mm256_storeu_ps(p, v) }
    }
    #[inline(always)]
    unsafe fn stream(self, p: *mut f32, v: __m256) {
        debug_assert!(p.addr().is_multiple_of(32));
        // SAFETY: as above. The address is a multiple of 32, as the caller vouches.
        unsafe { _mm256_stream_ps(p, v) }
    }
    #[inline(always)]
    unsafe fn store_partial(self, p: *mut f32, n: usize, v: __m256) {
        // SAFETY: as above.
        unsafe { _mm256_maskstore_ps(p, self.first_8(n), v) }
    }
}

impl Load<f64, f64> for Avx2 {
    #[inline(always)]
    unsafe fn load(self, p: *const f64) -> __m256d {
        // SAFETY: as above.
        unsafe { _mm256_loadu_pd(p) }
    }
    #[inline(always)]
    unsafe fn load_partial(self, p: *const f64, n: usize, fill: __m256d) -> __m256d {
        let mask = self.first_4(n);
        // SAFETY: as above.
        unsafe { _mm256_blendv_pd(fill, _mm256_maskload_pd(p, mask), _mm256_castsi256_pd(mask)) }
    }
}

impl Simd<f64> for Avx2 {
    #[inline(always)]
    unsafe fn store(self, p: *mut f64, v: __m256d) {
        // SAFETY: as above.
        unsafe { _mm256_storeu_pd(p, v) }
    }
    #[inline(always)]
    unsafe fn stream(self, p: *mut f64, v: __m256d) {
        debug_assert!(p.addr().is_multiple_of(32));
        // SAFETY: as above. The address is a multiple of 32, as the caller vouches.
        unsafe { _mm256_stream_pd(p, v) }
    }
    #[inline(always)]
    unsafe fn store_partial(self, p: *mut f64, n: usize, v: __m256d) {
        // SAFETY: as above.
        unsafe { _mm256_maskstore_pd(p, self.first_4(n), v) }
    }
}

impl Load<bf16, f32> for Avx2 {
    #[inline(always)]
    unsafe fn load(self, p: *const bf16) -> __m256 {
        // SAFETY: as above.
        self.widen(unsafe { _mm_loadu_si128(p.cast()) })
    }
    #[inline(always)]
    unsafe fn load_partial(self, p: *const bf16, n: usize, fill: __m256) -> __m256 {
        let mut lanes = [bf16::ZERO; 8];
        // SAFETY:
        // - the source holds `n` elements, as the caller vouches, and `lanes` holds 8, which is more;
        // - the load reads the 16 bytes of `lanes`, which a local variable keeps valid;
        // - the intrinsics need AVX2: `self` proves that the CPU has it.
        unsafe {
            std::ptr::copy_nonoverlapping(p, lanes.as_mut_ptr(), n);
            let read = self.widen(_mm_loadu_si128(lanes.as_ptr().cast()));
            _mm256_blendv_ps(fill, read, _mm256_castsi256_ps(self.first_8(n)))
        }
    }
}

impl Simd<bf16> for Avx2 {
    #[inline(always)]
    unsafe fn store(self, p: *mut bf16, v: __m256) {
        // SAFETY: as above.
        unsafe { _mm_storeu_si128(p.cast(), self.narrow(v)) }
    }
    #[inline(always)]
    unsafe fn stream(self, p: *mut bf16, v: __m256) {
        debug_assert!(p.addr().is_multiple_of(16));
        // SAFETY: as above. The address is a multiple of 16, as the caller vouches.
        unsafe { _mm_stream_si128(p.cast(), self.narrow(v)) }
    }
    #[inline(always)]
    unsafe fn store_partial(self, p: *mut bf16, n: usize, v: __m256) {
        let mut lanes = [bf16::ZERO; 8];
        // SAFETY:
        // - the store writes the 16 bytes of `lanes`, which a local variable keeps valid;
        // - the destination takes `n` elements, as the caller vouches, and `lanes` holds 8, which is more;
        // - the intrinsics need AVX2: `self` proves that the CPU has it.
        unsafe {
            _mm_storeu_si128(lanes.as_mut_ptr().cast(), self.narrow(v));
            std::ptr::copy_nonoverlapping(lanes.as_ptr(), p, n);
        }
    }
}

impl Load<f16, f32> for Avx2 {
    #[inline(always)]
    unsafe fn load(self, p: *const f16) -> __m256 {
        // SAFETY: as above.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(p.cast())) }
    }
    #[inline(always)]
    unsafe fn load_partial(self, p: *const f16, n: usize, fill: __m256) -> __m256 {
        let mut lanes = [f16::ZERO; 8];
        // SAFETY:
        // - the source holds `n` elements, as the caller vouches, and `lanes` holds 8, which is more;
        // - the load reads the 16 bytes of `lanes`, which a local variable keeps valid;
        // - the intrinsics need AVX2 and F16C: `self` proves that the CPU has them.
        unsafe {
            std::ptr::copy_nonoverlapping(p, lanes.as_mut_ptr(), n);
            let read = _mm256_cvtph_ps(_mm_loadu_si128(lanes.as_ptr().cast()));
            _mm256_blendv_ps(fill, read, _mm256_castsi256_ps(self.first_8(n)))
        }
    }
}

impl Compare for Avx2 {
    #[inline(always)]
    fn max(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: as above.
        unsafe { _mm256_max_ps(a, b) }
    }
    #[inline(always)]
    fn reduce_max(self, a: __m256) -> f32 {
        // SAFETY: as above.
        unsafe {
            let four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)))
        }
    }
    #[inline(always)]
    fn gt_mask(self, a: __m256, b: __m256) -> u64 {
        // SAFETY: as above.
        unsafe { _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_GT_OQ>(a, b)) as u64 }
    }
}

impl Exponents for Avx2 {
    #[inline(always)]
    fn mul_sub(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        // SAFETY: as above.
        unsafe { _mm256_fmsub_ps(a, b, c) }
    }
    #[inline(always)]
    fn fraction(self, t: __m256) -> __m256 {
        // SAFETY: as above.
        unsafe { _mm256_sub_ps(t, _mm256_floor_ps(t)) }
    }
    #[inline(always)]
    fn scale(self, p: __m256, t: __m256) -> __m256 {
        // SAFETY: as above.
        unsafe {
            let exponent = _mm256_slli_epi32::<23>(_mm256_cvttps_epi32(_mm256_floor_ps(t)));
            let scaled = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), exponent));
            // Not less than: so NaN stays.
            _mm256_and_ps(scaled, _mm256_cmp_ps::<_CMP_NLT_UQ>(t, _mm256_set1_ps(EXPONENT_MIN)))
        }
    }
}

impl Sort for Avx2 {}

impl LoadIntegers for Avx2 {
    #[inline(always)]
    unsafe fn load_i8(self, p: *const u8, i: usize) -> __m256 {
        // SAFETY: as above.
        unsafe {
            let shift = _mm256_set1_epi32(24 - 8 * i as i32);
            let bytes = _mm256_sllv_epi32(_mm256_loadu_si256(p.cast()), shift);
            _mm256_cvtepi32_ps(_mm256_srai_epi32::<24>(bytes))
        }
    }
    #[inline(always)]
    unsafe fn load_u4(self, p: *const u8, i: usize) -> __m256 {
        // SAFETY: as above.
        unsafe {
            let shift = _mm256_set1_epi32(nibble_shift(i) as i32);
            let shifted = _mm256_srlv_epi32(_mm256_loadu_si256(p.cast()), shift);
            let numbers = _mm256_cvtepi32_ps(_mm256_and_si256(shifted, _mm256_set1_epi32(15)));
            _mm256_sub_ps(numbers, _mm256_set1_ps(7.5))
        }
    }
}
