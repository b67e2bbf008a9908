//! The floor of a softmax: one pass that reads the logits, exponentiates each and sums, and does nothing else.
//!
//! No maximum is taken and no result kept but the sum, so this is less than any softmax must do. It runs in every way that
//! has been seen to be the fastest on some machine, beside the same ways without the exponential, which are the floor
//! that memory alone sets.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// How the probe goes through the logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    /// Whether it exponentiates.
    pub(crate) exp: bool,
    /// How many accumulators it has.
    accumulators: usize,
    /// How far ahead of the loads it prefetches, in KiB.
    ahead_kib: usize,
}

impl Way {
    /// All of them.
    pub(crate) const ALL: [Way; 8] = [
        Way { exp: false, accumulators: 8, ahead_kib: 0 },
        Way { exp: false, accumulators: 8, ahead_kib: 4 },
        Way { exp: false, accumulators: 8, ahead_kib: 8 },
        Way { exp: true, accumulators: 4, ahead_kib: 0 },
        Way { exp: true, accumulators: 4, ahead_kib: 4 },
        Way { exp: true, accumulators: 4, ahead_kib: 8 },
        Way { exp: true, accumulators: 8, ahead_kib: 8 },
        Way { exp: true, accumulators: 8, ahead_kib: 16 },
    ];

    /// Reading alone, in the way that most machines do best.
    #[allow(dead_code, reason = "not everyone who includes this file has one way only")]
    pub(crate) const READ: Way = Way::ALL[2];

    /// Reading, exponentiating and adding, likewise.
    #[allow(dead_code, reason = "as above")]
    pub(crate) const EXP: Way = Way::ALL[5];

    /// The name in reports.
    #[allow(dead_code, reason = "as above")]
    pub(crate) fn name(self) -> String {
        format!("{} sums, {} KiB ahead", self.accumulators, self.ahead_kib)
    }
}

/// Runs the probe on the current rayon pool, each thread on one contiguous share. Returns the sum.
pub(crate) fn run<T: Logits>(way: Way, logits: &[T]) -> f32 {
    let share = logits.len().div_ceil(rayon::current_num_threads()).next_multiple_of(64);
    if share >= logits.len() {
        return one(way, logits);
    }
    use rayon::prelude::*;
    logits.par_chunks(share).map(|logits| one(way, logits)).sum()
}

fn one<T: Logits>(way: Way, logits: &[T]) -> f32 {
    /// The instance of a pass for each way.
    #[cfg(target_arch = "x86_64")]
    macro_rules! by_way {
        ($pass:ident) => {
            match (way.exp, way.accumulators, way.ahead_kib) {
                (false, _, 0) => $pass::<T, false, 8, 0>(logits),
                (false, _, 4) => $pass::<T, false, 8, 4>(logits),
                (false, _, _) => $pass::<T, false, 8, 8>(logits),
                (true, 4, 0) => $pass::<T, true, 4, 0>(logits),
                (true, 4, 4) => $pass::<T, true, 4, 4>(logits),
                (true, 4, _) => $pass::<T, true, 4, 8>(logits),
                (true, _, 8) => $pass::<T, true, 8, 8>(logits),
                (true, _, _) => $pass::<T, true, 8, 16>(logits),
            }
        };
    }
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq") {
        // SAFETY: the CPU has AVX-512 F and DQ, by the line above.
        return unsafe { by_way!(pass_avx512) };
    } else if is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
    {
        // SAFETY: the CPU has AVX2, FMA and F16C, by the lines above.
        return unsafe { by_way!(pass_avx2) };
    }
    pass_portable(way.exp, logits)
}

/// One way, in lanes that the compiler can make vectors of: added one after the other, numbers wait for each other.
fn pass_portable<T: Logits>(exp: bool, logits: &[T]) -> f32 {
    let mut lanes = [0.0_f32; 64];
    for chunk in logits.chunks(lanes.len()) {
        for (lane, logit) in lanes.iter_mut().zip(chunk) {
            *lane += if exp { logit.widen().exp() } else { logit.widen() };
        }
    }
    lanes.iter().sum()
}

/// What a probe reads.
pub(crate) trait Logits: Copy + Sync {
    fn widen(self) -> f32;

    /// # Safety
    /// - The CPU has AVX-512 F, and 16 logits can be read at `p`.
    #[cfg(target_arch = "x86_64")]
    unsafe fn load(p: *const Self) -> __m512;

    /// # Safety
    /// - The CPU has AVX2 and F16C, and 8 logits can be read at `p`.
    #[cfg(target_arch = "x86_64")]
    unsafe fn load_8(p: *const Self) -> __m256;
}

impl Logits for f32 {
    fn widen(self) -> f32 {
        self
    }
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn load(p: *const f32) -> __m512 {
        // SAFETY: the caller vouches for both.
        unsafe { _mm512_loadu_ps(p) }
    }
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn load_8(p: *const Self) -> __m256 {
        // SAFETY: the caller vouches for both.
        unsafe { _mm256_loadu_ps(p) }
    }
}

impl Logits for tribunal_kernels::f16 {
    fn widen(self) -> f32 {
        self.to_f32()
    }
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn load(p: *const Self) -> __m512 {
        // SAFETY: the caller vouches for both.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(p.cast())) }
    }
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn load_8(p: *const Self) -> __m256 {
        // SAFETY: the caller vouches for both.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(p.cast())) }
    }
}

impl Logits for tribunal_kernels::bf16 {
    fn widen(self) -> f32 {
        self.to_f32()
    }
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn load(p: *const Self) -> __m512 {
        // SAFETY: the caller vouches for both.
        unsafe {
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast()))))
        }
    }
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn load_8(p: *const Self) -> __m256 {
        // SAFETY: the caller vouches for both.
        unsafe {
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast()))))
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq")]
fn pass_avx512<T: Logits, const EXP: bool, const SUMS: usize, const AHEAD_KIB: usize>(logits: &[T]) -> f32 {
    let mut sums = [_mm512_setzero_ps(); SUMS];
    let (blocks, rest) = logits.split_at(logits.len() / (16 * SUMS) * 16 * SUMS);
    for block in blocks.chunks_exact(16 * SUMS) {
        for (u, sum) in sums.iter_mut().enumerate() {
            let p = block[16 * u..].as_ptr();
            // SAFETY: the block holds 16 logits from `p` on; a prefetch never faults.
            let v = unsafe {
                if AHEAD_KIB > 0 && (16 * u * size_of::<T>()).is_multiple_of(64) {
                    _mm_prefetch::<_MM_HINT_T0>(p.wrapping_byte_add(AHEAD_KIB << 10).cast());
                }
                T::load(p)
            };
            *sum = _mm512_add_ps(*sum, if EXP { exp(v) } else { v });
        }
    }
    sums.into_iter().map(|sum| _mm512_reduce_add_ps(sum)).sum::<f32>() + pass_portable(EXP, rest)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn pass_avx2<T: Logits, const EXP: bool, const SUMS: usize, const AHEAD_KIB: usize>(logits: &[T]) -> f32 {
    let mut sums = [_mm256_setzero_ps(); SUMS];
    let (blocks, rest) = logits.split_at(logits.len() / (8 * SUMS) * 8 * SUMS);
    for block in blocks.chunks_exact(8 * SUMS) {
        for (u, sum) in sums.iter_mut().enumerate() {
            let p = block[8 * u..].as_ptr();
            // SAFETY: the block holds 8 logits from `p` on; a prefetch never faults.
            let v = unsafe {
                if AHEAD_KIB > 0 && (8 * u * size_of::<T>()).is_multiple_of(64) {
                    _mm_prefetch::<_MM_HINT_T0>(p.wrapping_byte_add(AHEAD_KIB << 10).cast());
                }
                T::load_8(p)
            };
            *sum = _mm256_add_ps(*sum, if EXP { exp_8(v) } else { v });
        }
    }
    let mut lanes = [0.0; 8];
    let sum = sums.into_iter().fold(_mm256_setzero_ps(), |sum, part| _mm256_add_ps(sum, part));
    // SAFETY: there is room for 8.
    unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), sum) };
    lanes.iter().sum::<f32>() + pass_portable(EXP, rest)
}

/// The coefficients of `2^r` for `0 <= r < 1`, the highest power first.
#[cfg(target_arch = "x86_64")]
const POLYNOMIAL: [f32; 6] = [0.001_867_130_8, 0.009_017_029, 0.055_799_913, 0.240_164_46, 0.693_151_3, 1.0];

/// `2^(v * log2(e))`: the fraction by a polynomial of degree 5, the integer added to the exponent.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
#[inline]
fn exp_8(v: __m256) -> __m256 {
    let t = _mm256_mul_ps(v, _mm256_set1_ps(std::f32::consts::LOG2_E));
    let whole = _mm256_floor_ps(t);
    let r = _mm256_sub_ps(t, whole);
    let [first, rest @ ..] = POLYNOMIAL;
    let p = rest.into_iter().fold(_mm256_set1_ps(first), |p, c| _mm256_fmadd_ps(p, r, _mm256_set1_ps(c)));
    let exponent = _mm256_slli_epi32::<23>(_mm256_cvtps_epi32(whole));
    _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), exponent))
}

/// `2^(v * log2(e))`: the fraction by a polynomial of degree 5, the integer by the exponent.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
fn exp(v: __m512) -> __m512 {
    const DOWNWARD: i32 = 1;
    let t = _mm512_mul_ps(v, _mm512_set1_ps(std::f32::consts::LOG2_E));
    let r = _mm512_reduce_ps::<DOWNWARD>(t);
    let [first, rest @ ..] = POLYNOMIAL;
    let p = rest.into_iter().fold(_mm512_set1_ps(first), |p, c| _mm512_fmadd_ps(p, r, _mm512_set1_ps(c)));
    _mm512_scalef_ps(p, t)
}
