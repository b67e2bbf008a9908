//! AVX-512: 16 lanes of f32, 8 of f64, masked tails.

use std::arch::x86_64::*;

use half::{bf16, f16};

use super::{Arith, Compare, EXPONENT_MIN, Exp2, Load, LoadIntegers, Simd, Sort, nibble_shift};

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

/// What is added to bits that hold `32 n + j`, moved up to [`EXP2_SHIFT`], to make the bits of `2^(n + j / 32)`.
const EXP2_OFFSETS: [u32; 32] = {
    let mut offsets = EXP2_TABLE;
    let mut j = 0;
    while j < 32 {
        offsets[j] = offsets[j].wrapping_sub((j as u32) << EXP2_SHIFT);
        j += 1;
    }
    offsets
};

/// From thirty-seconds to the exponent of an f32, behind 23 bits of mantissa.
const EXP2_SHIFT: u32 = 23 - 5;

/// `x * rate - exponent`, for many `x`.
#[derive(Clone, Copy)]
pub(crate) struct Scaling {
    rate: __m512,
    /// `TO_THIRTY_SECONDS - exponent`
    origin: __m512,
    /// Where the result is -126: for smaller `x` too.
    low: __m512,
}

impl Exp2 for Avx512 {
    type Scaling = Scaling;

    #[inline(always)]
    fn scaling(self, rate: f32, exponent: f32) -> Scaling {
        let splat = |a| Arith::<f32>::splat(self, a);
        let low = (exponent + EXPONENT_MIN) / rate;
        Scaling { rate: splat(rate), origin: splat(TO_THIRTY_SECONDS - exponent), low: splat(low) }
    }

    /// To the nearest thirty-second by a table, and the rest of the way by the polynomial of degree 2 that is off by 5.3e-8
    /// at most there. The table and its polynomial take as many instructions as a polynomial of degree 5 with
    /// `vreduceps` and `vscalefps`, but these run where additions do, instead of where multiplications do.
    #[inline(always)]
    fn add_exp2(self, sum: __m512, x: __m512, scaling: Scaling) -> __m512 {
        const C1: f32 = 0.693_157_3;
        const C2: f32 = 0.240_226_5;
        let splat = |a| Arith::<f32>::splat(self, a);
        // SAFETY: as above. The table fills two vectors.
        unsafe {
            let table = EXP2_OFFSETS.as_ptr();
            let (front, back) = (_mm512_loadu_si512(table.cast()), _mm512_loadu_si512(table.add(16).cast()));
            // In this order NaN stays.
            let x = _mm512_max_ps(scaling.low, x);
            let nearest = _mm512_fmadd_ps(x, scaling.rate, scaling.origin);
            let rest = _mm512_fmadd_ps(x, scaling.rate, _mm512_sub_ps(scaling.origin, nearest));
            let nearest = _mm512_castps_si512(nearest);
            let offset = _mm512_permutex2var_epi32(front, nearest, back);
            let power = _mm512_add_epi32(offset, _mm512_slli_epi32::<EXP2_SHIFT>(nearest));
            let p = _mm512_fmadd_ps(_mm512_fmadd_ps(splat(C2), rest, splat(C1)), rest, splat(1.0));
            _mm512_fmadd_ps(p, _mm512_castsi512_ps(power), sum)
        }
    }
}

/// Adding this rounds to a thirty-second; how many these are is then in the low bits.
const TO_THIRTY_SECONDS: f32 = (3 << 17) as f32;

impl LoadIntegers for Avx512 {
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

/// Up to so many keys are sorted by a network, whose work grows as n log² n.
const NETWORK_MAX: usize = 1 << 14;

impl Sort for Avx512 {
    /// A bitonic network (Batcher 1968), in the form in which all pairs have the larger key first.
    #[inline(always)]
    fn sort_falling(self, keys: &mut Vec<u64>) {
        let len = keys.len();
        if len > NETWORK_MAX {
            return keys.sort_unstable_by(|a, b| b.cmp(a));
        }
        keys.resize(len.next_power_of_two().max(8), 0);
        let (vectors, _) = keys.as_chunks_mut::<8>();
        for v in &mut *vectors {
            self.write(v, self.sort_vector(self.read(v)));
        }
        let mut size = 2;
        while size <= vectors.len() {
            for run in vectors.chunks_exact_mut(size) {
                self.merge(run);
            }
            size *= 2;
        }
        keys.truncate(len);
    }
}

impl Avx512 {
    #[inline(always)]
    fn read(self, keys: &[u64; 8]) -> __m512i {
        // SAFETY: as above. The array has a vector's size.
        unsafe { _mm512_loadu_si512(keys.as_ptr().cast()) }
    }

    #[inline(always)]
    fn write(self, keys: &mut [u64; 8], v: __m512i) {
        // SAFETY: as above. The array has a vector's size.
        unsafe { _mm512_storeu_si512(keys.as_mut_ptr().cast(), v) }
    }

    /// Puts the larger of lanes `i` and `i ^ FLIP` into the lane that has no bit in common with `BIT`, for all `i`.
    #[inline(always)]
    fn exchange<const FLIP: i64, const BIT: i64>(self, v: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe {
            let lanes = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
            let partner = _mm512_permutexvar_epi64(_mm512_xor_si512(lanes, _mm512_set1_epi64(FLIP)), v);
            let first = _mm512_testn_epi64_mask(lanes, _mm512_set1_epi64(BIT));
            _mm512_mask_max_epu64(_mm512_min_epu64(v, partner), first, v, partner)
        }
    }

    #[inline(always)]
    fn sort_vector(self, v: __m512i) -> __m512i {
        let pairs = self.exchange::<1, 1>(v);
        let fours = self.exchange::<1, 1>(self.exchange::<3, 2>(pairs));
        self.exchange::<1, 1>(self.exchange::<2, 2>(self.exchange::<7, 4>(fours)))
    }

    /// Sorts a vector whose lanes rise and then fall, or the other way round.
    #[inline(always)]
    fn sort_bitonic_vector(self, v: __m512i) -> __m512i {
        self.exchange::<1, 1>(self.exchange::<2, 2>(self.exchange::<4, 4>(v)))
    }

    /// Merges the two sorted halves of `run`.
    #[inline(always)]
    fn merge(self, run: &mut [[u64; 8]]) {
        let (front, back) = run.split_at_mut(run.len() / 2);
        // SAFETY: as above.
        let reverse = |v| unsafe { _mm512_permutexvar_epi64(_mm512_setr_epi64(7, 6, 5, 4, 3, 2, 1, 0), v) };
        for (a, b) in front.iter_mut().zip(back.iter_mut().rev()) {
            let (x, y) = (self.read(a), reverse(self.read(b)));
            // SAFETY: as above.
            let (larger, smaller) = unsafe { (_mm512_max_epu64(x, y), _mm512_min_epu64(x, y)) };
            self.write(a, larger);
            self.write(b, reverse(smaller));
        }
        let mut distance = run.len() / 4;
        while distance > 0 {
            for part in run.chunks_exact_mut(2 * distance) {
                let (front, back) = part.split_at_mut(distance);
                for (a, b) in front.iter_mut().zip(back) {
                    let (x, y) = (self.read(a), self.read(b));
                    // SAFETY: as above.
                    let (larger, smaller) = unsafe { (_mm512_max_epu64(x, y), _mm512_min_epu64(x, y)) };
                    self.write(a, larger);
                    self.write(b, smaller);
                }
            }
            distance /= 2;
        }
        for v in run {
            self.write(v, self.sort_bitonic_vector(self.read(v)));
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
