//! NEON: 4 lanes of f32, 2 of f64; tails through the stack. There is no streaming store in the intrinsics, so
//! [`Simd::stream`] is a plain one.

#![allow(
    unused_unsafe,
    reason = "where NEON is part of the target, its intrinsics that take no pointer are safe"
)]

use std::arch::aarch64::*;
use std::arch::is_aarch64_feature_detected;

use half::{bf16, f16};

use super::{
    Caches, Compare, EXPONENT_MIN, Exchange, Exponents, Load, LoadPacked, Rank, Simd, UPPER_HALF,
    nibble_shift,
};

/// Proof that this CPU has NEON.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neon(());

impl Neon {
    #[inline]
    pub(crate) fn new() -> Option<Neon> {
        // The same list as in `features!` below.
        is_aarch64_feature_detected!("neon").then_some(Neon(()))
    }
}

features!(Neon, "neon");

arith!(
    Neon,
    f32,
    float32x4_t,
    4,
    vdupq_n_f32,
    vaddq_f32,
    vsubq_f32,
    vmulq_f32,
    mul_add_f32,
    neg_mul_add_f32,
    vaddvq_f32,
    vld1q_f32,
    vst1q_f32
);
arith!(
    Neon,
    f64,
    float64x2_t,
    2,
    vdupq_n_f64,
    vaddq_f64,
    vsubq_f64,
    vmulq_f64,
    mul_add_f64,
    neg_mul_add_f64,
    vaddvq_f64,
    vld1q_f64,
    vst1q_f64
);

// The intrinsics take the addend first.

/// # Safety
/// - The CPU has NEON.
#[inline(always)]
unsafe fn mul_add_f32(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
    // SAFETY: needs NEON, as the caller vouches.
    unsafe { vfmaq_f32(c, a, b) }
}

/// # Safety
/// - The CPU has NEON.
#[inline(always)]
unsafe fn neg_mul_add_f32(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
    // SAFETY: needs NEON, as the caller vouches.
    unsafe { vfmsq_f32(c, a, b) }
}

/// # Safety
/// - The CPU has NEON.
#[inline(always)]
unsafe fn mul_add_f64(a: float64x2_t, b: float64x2_t, c: float64x2_t) -> float64x2_t {
    // SAFETY: needs NEON, as the caller vouches.
    unsafe { vfmaq_f64(c, a, b) }
}

/// # Safety
/// - The CPU has NEON.
#[inline(always)]
unsafe fn neg_mul_add_f64(a: float64x2_t, b: float64x2_t, c: float64x2_t) -> float64x2_t {
    // SAFETY: needs NEON, as the caller vouches.
    unsafe { vfmsq_f64(c, a, b) }
}

impl Caches for Neon {
    #[inline(always)]
    fn fence(self) {}

    // The prefetch intrinsic is not stable, and the prefetchers of these CPUs follow rows well.
    #[inline(always)]
    fn prefetch<T>(self, _: *const T) {}
}

// SAFETY, for the blocks below that say "as above":
// - the intrinsic needs NEON: `self` proves that the CPU has it;
// - a load or store needs a pointer valid for what it touches: the caller of the trait's function vouches for it.

macro_rules! simd_neon {
    ($scalar:ty, $vector:ty, $lanes:literal, $load:ident, $store:ident) => {
        impl Load<$scalar, $scalar> for Neon {
            #[inline(always)]
            unsafe fn load(self, p: *const $scalar) -> $vector {
                // SAFETY: as above.
                unsafe { $load(p) }
            }
            #[inline(always)]
            unsafe fn load_partial(self, p: *const $scalar, n: usize, fill: $vector) -> $vector {
                let mut lanes = [0.0; $lanes];
                // SAFETY: as above. `lanes` holds a whole vector, and the source at least `n`, which is less.
                unsafe {
                    $store(lanes.as_mut_ptr(), fill);
                    std::ptr::copy_nonoverlapping(p, lanes.as_mut_ptr(), n);
                    $load(lanes.as_ptr())
                }
            }
        }

        impl Simd<$scalar> for Neon {
            #[inline(always)]
            unsafe fn store(self, p: *mut $scalar, v: $vector) {
                // SAFETY: as above.
                unsafe { $store(p, v) }
            }
            #[inline(always)]
            unsafe fn stream(self, p: *mut $scalar, v: $vector) {
                // SAFETY: as above.
                unsafe { $store(p, v) }
            }
            #[inline(always)]
            unsafe fn store_partial(self, p: *mut $scalar, n: usize, v: $vector) {
                let mut lanes = [0.0; $lanes];
                // SAFETY: as above. `lanes` holds a whole vector, and the destination takes `n`, which is less.
                unsafe {
                    $store(lanes.as_mut_ptr(), v);
                    std::ptr::copy_nonoverlapping(lanes.as_ptr(), p, n);
                }
            }
        }
    };
}

simd_neon!(f32, float32x4_t, 4, vld1q_f32, vst1q_f32);
simd_neon!(f64, float64x2_t, 2, vld1q_f64, vst1q_f64);

impl Neon {
    /// bf16 is the upper half of an f32.
    #[inline(always)]
    fn widen(self, v: uint16x4_t) -> float32x4_t {
        // SAFETY: as above.
        unsafe { vreinterpretq_f32_u32(vshlq_n_u32::<16>(vmovl_u16(v))) }
    }

    /// Rounds to nearest, ties to even, and makes NaNs quiet: bit for bit what [`bf16::from_f32`] does.
    #[inline(always)]
    fn narrow(self, v: float32x4_t) -> uint16x4_t {
        // SAFETY: as above.
        unsafe {
            let bits = vreinterpretq_u32_f32(v);
            let high = vshrq_n_u32::<16>(bits);
            let odd = vandq_u32(high, vdupq_n_u32(1));
            let rounded = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
            let number = vceqq_f32(v, v);
            let quiet = vorrq_u32(high, vdupq_n_u32(0x40));
            vmovn_u32(vbslq_u32(number, vshrq_n_u32::<16>(rounded), quiet))
        }
    }
}

impl Load<bf16, f32> for Neon {
    #[inline(always)]
    unsafe fn load(self, p: *const bf16) -> float32x4_t {
        // SAFETY: as above.
        self.widen(unsafe { vld1_u16(p.cast()) })
    }
    #[inline(always)]
    unsafe fn load_partial(self, p: *const bf16, n: usize, fill: float32x4_t) -> float32x4_t {
        let mut lanes = [0.0_f32; 4];
        // SAFETY: as above. `lanes` holds a whole vector, and the source at least `n`, which is less.
        unsafe {
            vst1q_f32(lanes.as_mut_ptr(), fill);
            for (i, lane) in lanes.iter_mut().enumerate().take(n) {
                *lane = p.add(i).read().to_f32();
            }
            vld1q_f32(lanes.as_ptr())
        }
    }
}

impl Simd<bf16> for Neon {
    #[inline(always)]
    unsafe fn store(self, p: *mut bf16, v: float32x4_t) {
        // SAFETY: as above.
        unsafe { vst1_u16(p.cast(), self.narrow(v)) }
    }
    #[inline(always)]
    unsafe fn stream(self, p: *mut bf16, v: float32x4_t) {
        // SAFETY: as above.
        unsafe { vst1_u16(p.cast(), self.narrow(v)) }
    }
    #[inline(always)]
    unsafe fn store_partial(self, p: *mut bf16, n: usize, v: float32x4_t) {
        let mut lanes = [bf16::ZERO; 4];
        // SAFETY: as above. `lanes` holds a whole vector, and the destination takes `n`, which is less.
        unsafe {
            vst1_u16(lanes.as_mut_ptr().cast(), self.narrow(v));
            std::ptr::copy_nonoverlapping(lanes.as_ptr(), p, n);
        }
    }
}

impl Load<f16, f32> for Neon {
    // The intrinsics on f16 are not stable.
    #[inline(always)]
    unsafe fn load(self, p: *const f16) -> float32x4_t {
        // SAFETY: `LANES` elements can be read at `p`, as the caller vouches; the read asks for no alignment.
        let lanes = unsafe { p.cast::<[f16; 4]>().read_unaligned() }.map(f16::to_f32);
        // SAFETY: as above. `lanes` holds a whole vector.
        unsafe { vld1q_f32(lanes.as_ptr()) }
    }
    #[inline(always)]
    unsafe fn load_partial(self, p: *const f16, n: usize, fill: float32x4_t) -> float32x4_t {
        let mut lanes = [0.0_f32; 4];
        // SAFETY: as above. `lanes` holds a whole vector, and the source at least `n`, which is less.
        unsafe {
            vst1q_f32(lanes.as_mut_ptr(), fill);
            for (i, lane) in lanes.iter_mut().enumerate().take(n) {
                *lane = p.add(i).read().to_f32();
            }
            vld1q_f32(lanes.as_ptr())
        }
    }
}

impl Compare for Neon {
    #[inline(always)]
    fn max(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        // SAFETY: as above.
        unsafe { vmaxq_f32(a, b) }
    }
    #[inline(always)]
    fn reduce_max(self, a: float32x4_t) -> f32 {
        // SAFETY: as above.
        unsafe { vmaxvq_f32(a) }
    }
    #[inline(always)]
    fn gt_mask(self, a: float32x4_t, b: float32x4_t) -> u64 {
        const BITS: [u32; 4] = [1, 2, 4, 8];
        // SAFETY: as above. `BITS` holds a whole vector.
        unsafe { vaddvq_u32(vandq_u32(vcgtq_f32(a, b), vld1q_u32(BITS.as_ptr()))).into() }
    }
}

impl Exponents for Neon {
    #[inline(always)]
    fn mul_sub(self, a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
        // SAFETY: as above.
        unsafe { vnegq_f32(vfmsq_f32(c, a, b)) }
    }
    #[inline(always)]
    fn fraction(self, t: float32x4_t) -> float32x4_t {
        // SAFETY: as above.
        unsafe { vsubq_f32(t, vrndmq_f32(t)) }
    }
    #[inline(always)]
    fn scale(self, p: float32x4_t, t: float32x4_t) -> float32x4_t {
        // SAFETY: as above.
        unsafe {
            let exponent = vshlq_n_s32::<23>(vcvtmq_s32_f32(t));
            let scaled = vaddq_s32(vreinterpretq_s32_f32(p), exponent);
            // A NaN is not less, so it stays.
            let small = vreinterpretq_s32_u32(vcltq_f32(t, vdupq_n_f32(EXPONENT_MIN)));
            vreinterpretq_f32_s32(vbicq_s32(scaled, small))
        }
    }
}

impl Rank for Neon {}

impl Exchange for Neon {
    #[inline(always)]
    fn exchange<const APART: usize>(self, v: float32x4_t) -> float32x4_t {
        debug_assert!(matches!(APART, 1 | 2));
        // SAFETY: as above.
        unsafe { if APART == 1 { vrev64q_f32(v) } else { vextq_f32::<2>(v, v) } }
    }
}

impl LoadPacked for Neon {
    #[inline(always)]
    unsafe fn load_bf16(self, p: *const u8, i: usize) -> float32x4_t {
        // SAFETY: sixteen bytes can be read at `p`, as the caller vouches; the instruction is in NEON.
        unsafe {
            let both = vreinterpretq_s32_u8(vld1q_u8(p));
            vreinterpretq_f32_s32(if i == 0 {
                vshlq_n_s32::<16>(both)
            } else {
                vandq_s32(both, vdupq_n_s32(UPPER_HALF))
            })
        }
    }
    #[inline(always)]
    unsafe fn load_i8(self, p: *const u8, i: usize) -> float32x4_t {
        // SAFETY: sixteen bytes can be read at `p`, as the caller vouches; the instruction is in NEON.
        unsafe {
            let bytes = vshlq_s32(vreinterpretq_s32_u8(vld1q_u8(p)), vdupq_n_s32(24 - 8 * i as i32));
            vcvtq_f32_s32(vshrq_n_s32::<24>(bytes))
        }
    }
    #[inline(always)]
    unsafe fn load_u4(self, p: *const u8, i: usize) -> float32x4_t {
        // SAFETY: as above. A negative shift goes to the right.
        unsafe {
            let shift = vdupq_n_s32(-(nibble_shift(i) as i32));
            let shifted = vshlq_u32(vreinterpretq_u32_u8(vld1q_u8(p)), shift);
            let numbers = vcvtq_f32_u32(vandq_u32(shifted, vdupq_n_u32(15)));
            vsubq_f32(numbers, vdupq_n_f32(7.5))
        }
    }
}
