//! AVX-512: 16 lanes of f32, 8 of f64, masked tails.

use std::arch::x86_64::*;

use half::{bf16, f16};

use super::{
    Arith, Compare, EXPONENT_MIN, Exchange, Exp2, Load, LoadPacked, Simd, UPPER_HALF, list_bits_one_by_one,
    nibble_shift,
};

/// Proof that this CPU has AVX-512 F, BW, DQ and VL.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(());

impl Avx512 {
    #[inline]
    pub(crate) fn new() -> Option<Avx512> {
        // The same list as in `features!` below.
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("popcnt")
            && is_x86_feature_detected!("bmi1");
        has.then_some(Avx512(()))
    }
}

features!(Avx512, "avx512f,avx512bw,avx512dq,avx512vl,popcnt,bmi1");

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

impl Load<f32, f32> for Avx512 {
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
}

impl Simd<f32> for Avx512 {
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

impl Load<f64, f64> for Avx512 {
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
}

impl Simd<f64> for Avx512 {
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

impl Load<bf16, f32> for Avx512 {
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
}

impl Simd<bf16> for Avx512 {
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

impl Load<f16, f32> for Avx512 {
    #[inline(always)]
    unsafe fn load(self, p: *const f16) -> __m512 {
        // SAFETY: as above.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(p.cast())) }
    }
    #[inline(always)]
    unsafe fn load_partial(self, p: *const f16, n: usize, fill: __m512) -> __m512 {
        let mask = first(n);
        // SAFETY: as above.
        unsafe { _mm512_mask_cvtph_ps(fill, mask, _mm256_maskz_loadu_epi16(mask, p.cast())) }
    }
}

impl Compare for Avx512 {
    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: as above.
        unsafe { _mm512_max_ps(a, b) }
    }
    #[inline(always)]
    fn reduce_max(self, a: __m512) -> f32 {
        // SAFETY: as above.
        unsafe { _mm512_reduce_max_ps(a) }
    }
    #[inline(always)]
    fn gt_mask(self, a: __m512, b: __m512) -> u64 {
        // SAFETY: as above.
        unsafe { _mm512_cmp_ps_mask::<_CMP_GT_OQ>(a, b).into() }
    }
    // Packed in a register and then stored: the instruction that does both is slow on Zen 4 and 5.
    #[inline(always)]
    unsafe fn store_packed(self, p: *mut f32, mask: u64, v: __m512) {
        // SAFETY: as above.
        unsafe { _mm512_storeu_ps(p, _mm512_maskz_compress_ps(mask as u16, v)) }
    }
    #[inline(always)]
    unsafe fn list_bits(self, starts: &[u32], masks: &[u64], p: *mut u32) -> usize {
        // SAFETY: the CPU has what the first needs; the caller vouches for the numbers.
        unsafe {
            if is_x86_feature_detected!("avx512vbmi2") {
                list_bits_packed(starts, masks, p)
            } else {
                list_bits_one_by_one(starts, masks, p)
            }
        }
    }
}

/// [`Compare::list_bits`] by packing the numbers of bits.
///
/// # Safety
/// - As there.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
unsafe fn list_bits_packed(starts: &[u32], masks: &[u64], p: *mut u32) -> usize {
    const NUMBERS: [i8; 64] = {
        let mut numbers = [0; 64];
        let mut i = 0;
        while i < numbers.len() {
            numbers[i] = i as i8;
            i += 1;
        }
        numbers
    };
    // SAFETY: reads the 64 bytes.
    let numbers = unsafe { _mm512_loadu_epi8(NUMBERS.as_ptr()) };
    let mut len = 0;
    for (&start, &mask) in starts.iter().zip(masks) {
        let start = _mm512_set1_epi32(start as i32);
        let packed = _mm512_maskz_compress_epi8(mask, numbers);
        let bits = mask.count_ones() as usize;
        let write = |at: usize, packed: __m128i| {
            let numbers = _mm512_add_epi32(start, _mm512_cvtepu8_epi32(packed));
            // SAFETY: less than a vector behind the last bit of this mask, as the caller vouches.
            unsafe { _mm512_storeu_epi32(p.add(len + at).cast(), numbers) }
        };
        write(0, _mm512_castsi512_si128(packed));
        if bits > 16 {
            write(16, _mm512_extracti32x4_epi32::<1>(packed));
        }
        if bits > 32 {
            write(32, _mm512_extracti32x4_epi32::<2>(packed));
        }
        if bits > 48 {
            write(48, _mm512_extracti32x4_epi32::<3>(packed));
        }
        len += bits;
    }
    len
}

/// `2^(j / 32)` for `j` from 0, as the bits of an f32.
const EXP2_TABLE: [u32; 32] = [
    0x3f80_0000,
    0x3f82_cd87,
    0x3f85_aac3,
    0x3f88_980f,
    0x3f8b_95c2,
    0x3f8e_a43a,
    0x3f91_c3d3,
    0x3f94_f4f0,
    0x3f98_37f0,
    0x3f9b_8d3a,
    0x3f9e_f532,
    0x3fa2_7043,
    0x3fa5_fed7,
    0x3fa9_a15b,
    0x3fad_583f,
    0x3fb1_23f6,
    0x3fb5_04f3,
    0x3fb8_fbaf,
    0x3fbd_08a4,
    0x3fc1_2c4d,
    0x3fc5_672a,
    0x3fc9_b9be,
    0x3fce_248c,
    0x3fd2_a81e,
    0x3fd7_44fd,
    0x3fdb_fbb8,
    0x3fe0_ccdf,
    0x3fe5_b907,
    0x3fea_c0c7,
    0x3fef_e4ba,
    0x3ff5_257d,
    0x3ffa_83b3,
];

/// By the last five bits of a thirty-second: the power of two of what it is more than an integer, less [`VERTEX`].
const POWERS: [u32; 32] = {
    let mut powers = EXP2_TABLE;
    let mut j = 0;
    while j < 32 {
        powers[(j + (32.0 * VERTEX) as usize) % 32] = EXP2_TABLE[j];
        j += 1;
    }
    powers
};

/// `x * rate - exponent`, for many `x`.
#[derive(Clone, Copy)]
pub(crate) struct Scaling {
    rate: __m512,
    /// `TO_THIRTY_SECONDS - exponent`
    origin: __m512,
    /// `origin + VERTEX`
    vertex: __m512,
    /// Where the result is -126: for smaller `x` too.
    low: __m512,
}

impl Avx512 {
    /// Takes `x * rate - exponent` apart: returns `2^t` and what it is more than `t`, which is the nearest thirty-second, less
    /// [`VERTEX`] if `RAISED`. The powers of thirty-seconds come from a table.
    #[inline(always)]
    fn split<const RAISED: bool>(self, x: __m512, scaling: Scaling) -> (__m512, __m512) {
        let (origin, raised, table) =
            if RAISED { (scaling.vertex, VERTEX, &POWERS) } else { (scaling.origin, 0.0, &EXP2_TABLE) };
        // SAFETY: as above. The table fills two vectors.
        unsafe {
            let (front, back) =
                (_mm512_loadu_ps(table.as_ptr().cast()), _mm512_loadu_ps(table[16..].as_ptr().cast()));
            let nearest = _mm512_fmadd_ps(x, scaling.rate, scaling.origin);
            let rest = _mm512_fmadd_ps(x, scaling.rate, _mm512_sub_ps(origin, nearest));
            let fraction = _mm512_permutex2var_ps(front, _mm512_castps_si512(nearest), back);
            let t = _mm512_sub_ps(nearest, _mm512_set1_ps(TO_THIRTY_SECONDS + raised));
            (_mm512_scalef_ps(fraction, t), rest)
        }
    }

    /// `x`, or where the power would be `2^-126`, for smaller ones.
    #[inline(always)]
    fn not_too_low(self, x: __m512, scaling: Scaling) -> __m512 {
        // SAFETY: as above. In this order NaN stays.
        unsafe { _mm512_max_ps(scaling.low, x) }
    }
}

impl Exp2 for Avx512 {
    type Scaling = Scaling;

    #[inline(always)]
    fn scaling(self, rate: f32, exponent: f32) -> Scaling {
        let splat = |a| Arith::<f32>::splat(self, a);
        let low = (exponent + EXPONENT_MIN) / rate;
        let origin = TO_THIRTY_SECONDS - exponent;
        Scaling { rate: splat(rate), origin: splat(origin), vertex: splat(origin + VERTEX), low: splat(low) }
    }

    /// The polynomial of degree 2 is off by 5.3e-8 at most.
    #[inline(always)]
    fn add_exp2(self, sum: __m512, x: __m512, scaling: Scaling) -> __m512 {
        const C1: f32 = 0.693_157_3;
        const C2: f32 = 0.240_226_5;
        let splat = |a| Arith::<f32>::splat(self, a);
        let (power, rest) = self.split::<false>(self.not_too_low(x, scaling), scaling);
        // SAFETY: as above.
        unsafe {
            let p = _mm512_fmadd_ps(_mm512_fmadd_ps(splat(C2), rest, splat(C1)), rest, splat(1.0));
            _mm512_fmadd_ps(p, power, sum)
        }
    }

    /// How many times `2^r` the square and the number are, on the average for `r` within a sixty-fourth of zero; the power in turn
    /// is `2^VERTEX` times too small.
    const SCALE: f64 = 4.147_666_508_9 / 2.708_511_093_9;

    const MASKS: bool = true;

    /// The polynomial is a square and a number, which takes one multiplication less.
    #[inline(always)]
    fn add_exp2_scaled<const MASKED: bool>(self, sum: __m512, x: __m512, scaling: Scaling) -> __m512 {
        /// With it the polynomial is off by 1.5e-7 at most, and by nothing on the average.
        const SQUARE: f32 = 2.081_26;
        let x = if MASKED { self.not_too_low(x, scaling) } else { x };
        let (power, rest) = self.split::<true>(x, scaling);
        // SAFETY: as above.
        unsafe {
            let p = _mm512_fmadd_ps(rest, rest, _mm512_set1_ps(SQUARE));
            _mm512_fmadd_ps(p, power, sum)
        }
    }
}

/// Of degree 2, what is nearest to `2^r` is `c ((r + 1 / ln(2))^2 + d)`: one multiplication, if `1 / ln(2)` has been added to `r`. This is
/// the sixteenth nearest to it, which can be added where the thirty-second is taken away, with no instruction of its own.
const VERTEX: f32 = 23.0 / 16.0;

/// Adding this rounds to a thirty-second; how many these are is then in the low bits.
const TO_THIRTY_SECONDS: f32 = (3 << 17) as f32;

impl Exchange for Avx512 {
    #[inline(always)]
    fn exchange<const APART: usize>(self, v: __m512) -> __m512 {
        debug_assert!(matches!(APART, 1 | 2 | 4 | 8));
        // SAFETY: as above.
        unsafe {
            match APART {
                1 => _mm512_permute_ps::<0b10_11_00_01>(v),
                2 => _mm512_permute_ps::<0b01_00_11_10>(v),
                4 => _mm512_shuffle_f32x4::<0b10_11_00_01>(v, v),
                _ => _mm512_shuffle_f32x4::<0b01_00_11_10>(v, v),
            }
        }
    }
}

impl LoadPacked for Avx512 {
    #[inline(always)]
    unsafe fn load_bf16(self, p: *const u8, i: usize) -> __m512 {
        // SAFETY: as above.
        unsafe {
            let both = _mm512_loadu_si512(p.cast());
            _mm512_castsi512_ps(if i == 0 {
                _mm512_slli_epi32::<16>(both)
            } else {
                _mm512_and_si512(both, _mm512_set1_epi32(UPPER_HALF))
            })
        }
    }
    #[inline(always)]
    unsafe fn load_i8(self, p: *const u8, i: usize) -> __m512 {
        // SAFETY: as above.
        unsafe {
            let bytes = _mm512_sllv_epi32(_mm512_loadu_si512(p.cast()), _mm512_set1_epi32(24 - 8 * i as i32));
            _mm512_cvtepi32_ps(_mm512_srai_epi32::<24>(bytes))
        }
    }
    #[inline(always)]
    unsafe fn load_u4(self, p: *const u8, i: usize) -> __m512 {
        const NUMBERS: [f32; 16] =
            [-7.5, -6.5, -5.5, -4.5, -3.5, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5];
        // SAFETY: as above. The table fills a vector, and of an index into it the lowest four bits count.
        unsafe {
            let shift = _mm512_set1_epi32(nibble_shift(i) as i32);
            let indices = _mm512_srlv_epi32(_mm512_loadu_si512(p.cast()), shift);
            _mm512_permutexvar_ps(indices, _mm512_loadu_ps(NUMBERS.as_ptr()))
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table_holds_powers_of_two() {
        for (j, &bits) in super::EXP2_TABLE.iter().enumerate() {
            assert_eq!(f32::from_bits(bits), (j as f64 / 32.0).exp2() as f32, "{j}");
        }
    }
}
