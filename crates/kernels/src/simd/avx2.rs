//! AVX2 with FMA: 8 lanes of f32, 4 of f64; tails by mask for f32 and f64, through the stack for bf16.

use std::arch::x86_64::*;

use half::{bf16, f16};

use super::{
    Arith, Compare, EXPONENT_MIN, Exchange, Exp2, Load, LoadPacked, Rank, Simd, UPPER_HALF, nibble_shift,
};

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
    const MANY_REGISTERS: bool = false;
    const SUMS: usize = 2;
    const GROUP: usize = 8;

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
    #[inline(always)]
    fn gt_mask_group(self, a: impl Fn(usize) -> __m256, b: __m256) -> u64 {
        let low = self.gt_mask_4([a(0), a(1), a(2), a(3)], b);
        low | self.gt_mask_4([a(4), a(5), a(6), a(7)], b) << 32
    }
    #[inline(always)]
    unsafe fn store_packed(self, p: *mut f32, mask: u64, v: __m256) {
        // SAFETY: as above.
        unsafe {
            let lanes = PACKED_LANES[mask as usize % 256];
            let lanes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(lanes.as_ptr().cast()));
            _mm256_storeu_ps(p, _mm256_permutevar8x32_ps(v, lanes));
        }
    }
}

impl Avx2 {
    /// Which lanes of four vectors are larger than `b`.
    #[inline(always)]
    fn gt_mask_4(self, [v0, v1, v2, v3]: [__m256; 4], b: __m256) -> u64 {
        // SAFETY: as above.
        unsafe {
            let above = [
                _mm256_castps_si256(_mm256_cmp_ps::<_CMP_GT_OQ>(v0, b)),
                _mm256_castps_si256(_mm256_cmp_ps::<_CMP_GT_OQ>(v1, b)),
                _mm256_castps_si256(_mm256_cmp_ps::<_CMP_GT_OQ>(v2, b)),
                _mm256_castps_si256(_mm256_cmp_ps::<_CMP_GT_OQ>(v3, b)),
            ];
            let (front, back) =
                (_mm256_packs_epi32(above[0], above[1]), _mm256_packs_epi32(above[2], above[3]));
            // The packs work on each half of 128 bits by itself.
            let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
            let bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(front, back), order);
            u64::from(_mm256_movemask_epi8(bytes) as u32)
        }
    }
}

/// For each mask of lanes, which lanes are in it; then any.
static PACKED_LANES: [[u8; 8]; 256] = {
    let mut packed = [[0; 8]; 256];
    let mut mask = 0;
    while mask < 256 {
        let (mut lane, mut len) = (0, 0);
        while lane < 8 {
            if mask >> lane & 1 == 1 {
                packed[mask][len] = lane;
                len += 1;
            }
            lane += 1;
        }
        mask += 1;
    }
    packed
};

/// `x * rate - exponent`, for many `x`.
#[derive(Clone, Copy)]
pub(crate) struct Scaling {
    rate: __m256,
    /// `TO_BIASED - exponent`
    origin: __m256,
    /// Where the result is -126: for smaller `x` too.
    low: __m256,
}

/// Adding this rounds to an integer; what the exponent of an f32 holds for that power of two is then in the low bits.
const TO_BIASED: f32 = (3 << 22) as f32 + 127.0;

impl Avx2 {
    /// `r` and `2^n`, for the integer `n` that is nearest to `x * rate - exponent`, and how much more that is.
    #[inline(always)]
    fn split(self, x: __m256, scaling: Scaling) -> (__m256, __m256) {
        // SAFETY: as above.
        unsafe {
            // In this order NaN stays.
            let x = _mm256_max_ps(scaling.low, x);
            let nearest = _mm256_fmadd_ps(x, scaling.rate, scaling.origin);
            let rest = _mm256_fmadd_ps(x, scaling.rate, _mm256_sub_ps(scaling.origin, nearest));
            (rest, _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_castps_si256(nearest))))
        }
    }
}

impl Exp2 for Avx2 {
    type Scaling = Scaling;

    #[inline(always)]
    fn scaling(self, rate: f32, exponent: f32) -> Scaling {
        let splat = |a| Arith::<f32>::splat(self, a);
        let low = (exponent + EXPONENT_MIN) / rate;
        Scaling { rate: splat(rate), origin: splat(TO_BIASED - exponent), low: splat(low) }
    }

    #[inline(always)]
    fn add_exp2(self, sum: __m256, x: __m256, scaling: Scaling) -> __m256 {
        /// The polynomial in `r` that is nearest to `2^r` on -0.5..=0.5, relative to it, of those that are 1 at 0; highest power
        /// first. It is off by 9.3e-8 at most.
        #[expect(clippy::approx_constant, reason = "near to ln(2), as it must be, and not that")]
        const COEFFICIENTS: [f32; 6] =
            [0.001_326_959_7, 0.009_671_294, 0.055_507_11, 0.240_222_47, 0.693_147, 1.0];
        let (rest, power) = self.split(x, scaling);
        let [first, others @ ..] = COEFFICIENTS;
        let mut p = Arith::<f32>::splat(self, first);
        for c in others {
            p = Arith::<f32>::mul_add(self, p, rest, Arith::<f32>::splat(self, c));
        }
        Arith::<f32>::mul_add(self, p, power, sum)
    }

    const SCALE: f64 = SCALED_COEFFICIENTS[4] as f64;

    /// With a factor of 1 at the highest power of the polynomial, an addition takes the place of a multiplication and a copy.
    #[inline(always)]
    fn add_exp2_scaled<const MASKED: bool>(self, sum: __m256, x: __m256, scaling: Scaling) -> __m256 {
        let (rest, power) = self.split(x, scaling);
        let [first, others @ ..] = SCALED_COEFFICIENTS;
        let mut p = Arith::<f32>::add(self, rest, Arith::<f32>::splat(self, first));
        for c in others {
            p = Arith::<f32>::mul_add(self, p, rest, Arith::<f32>::splat(self, c));
        }
        Arith::<f32>::mul_add(self, p, power, sum)
    }
}

/// As the coefficients of [`Avx2::add_exp2`], divided by the first, which is left out. Off by 9.3e-8 at most.
const SCALED_COEFFICIENTS: [f32; 5] = [7.291_857_2, 41.850_006, 181.116_73, 522.601_14, 753.954_3];

impl Rank for Avx2 {}

impl Exchange for Avx2 {
    #[inline(always)]
    fn exchange<const APART: usize>(self, v: __m256) -> __m256 {
        debug_assert!(matches!(APART, 1 | 2 | 4));
        // SAFETY: as above.
        unsafe {
            match APART {
                1 => _mm256_permute_ps::<0b10_11_00_01>(v),
                2 => _mm256_permute_ps::<0b01_00_11_10>(v),
                _ => _mm256_permute2f128_ps::<1>(v, v),
            }
        }
    }
}

impl LoadPacked for Avx2 {
    #[inline(always)]
    unsafe fn load_bf16(self, p: *const u8, i: usize) -> __m256 {
        // SAFETY: as above.
        unsafe {
            let both = _mm256_loadu_si256(p.cast());
            _mm256_castsi256_ps(if i == 0 {
                _mm256_slli_epi32::<16>(both)
            } else {
                _mm256_and_si256(both, _mm256_set1_epi32(UPPER_HALF))
            })
        }
    }
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
