//! The vector operations that kernels are written over, and the instruction sets that provide them.
//!
//! [`Arith`] computes in f32 or f64, [`Simd`] moves elements of a tensor in and out of such vectors (bf16 is widened on
//! the way in and rounded on the way out), [`Caches`] prefetches and fences, and [`Op`] is a kernel written over these. A zero-sized
//! token (`Avx512`, `Avx2`, `Neon`, `Portable`) carries the operations; it can be made only where the CPU has the
//! instructions, so whoever holds one may use them.
//!
//! Everything below a token is `#[inline(always)]`, closures included: it must end up inside a function that carries
//! `#[target_feature]`. A function left out of line would be compiled without the feature, and every vector would go
//! through memory. [`Features::call`] makes such a function, for a whole kernel and for what a kernel would otherwise have
//! many copies of.

/// Implements [`Features`](crate::simd::Features) for a token that proves that the CPU has `$features`.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! features {
    ($token:ty, $features:literal) => {
        impl $crate::simd::Features for $token {
            const FUSED: bool = true;

            fn call<R>(self, f: impl FnOnce() -> R) -> R {
                /// # Safety
                /// - The CPU has the features.
                #[target_feature(enable = $features)]
                #[inline(never)]
                unsafe fn with_features<R>(f: impl FnOnce() -> R) -> R {
                    f()
                }
                // SAFETY: `self` proves that the CPU has the features.
                unsafe { with_features(f) }
            }
        }
    };
}

/// Evaluates an operation with the token that a [`Token`] holds.
macro_rules! dispatch {
    ($token:expr, $op:expr) => {{
        use $crate::simd::{Features, Token};
        match $token {
            #[cfg(target_arch = "x86_64")]
            Token::Avx512(simd) => simd.call(
                #[inline(always)]
                || $op.eval(simd),
            ),
            #[cfg(target_arch = "x86_64")]
            Token::Avx2(simd) => simd.call(
                #[inline(always)]
                || $op.eval(simd),
            ),
            #[cfg(target_arch = "aarch64")]
            Token::Neon(simd) => simd.call(
                #[inline(always)]
                || $op.eval(simd),
            ),
            Token::Portable(simd) => simd.call(
                #[inline(always)]
                || $op.eval(simd),
            ),
        }
    }};
}
pub(crate) use dispatch;

/// Implements [`Arith`] by intrinsics of the same shape, named in the order of the trait.
macro_rules! arith {
    (
        $token:ty, $scalar:ty, $vector:ty, $lanes:literal,
        $splat:ident, $add:ident, $sub:ident, $mul:ident, $mul_add:ident, $neg_mul_add:ident, $reduce_add:ident,
        $load:ident, $store:ident
    ) => {
        // SAFETY (each block below):
        // - the intrinsic needs the instructions of `$token`: `self` proves that the CPU has them;
        // - loads and stores need a pointer valid for a whole vector: the caller of the trait's function vouches for it.
        impl $crate::simd::Arith<$scalar> for $token {
            type V = $vector;
            const LANES: usize = $lanes;

            #[inline(always)]
            fn splat(self, a: $scalar) -> $vector {
                // SAFETY: see above.
                unsafe { $splat(a) }
            }
            #[inline(always)]
            fn add(self, a: $vector, b: $vector) -> $vector {
                // SAFETY: see above.
                unsafe { $add(a, b) }
            }
            #[inline(always)]
            fn sub(self, a: $vector, b: $vector) -> $vector {
                // SAFETY: see above.
                unsafe { $sub(a, b) }
            }
            #[inline(always)]
            fn mul(self, a: $vector, b: $vector) -> $vector {
                // SAFETY: see above.
                unsafe { $mul(a, b) }
            }
            #[inline(always)]
            fn mul_add(self, a: $vector, b: $vector, c: $vector) -> $vector {
                // SAFETY: see above.
                unsafe { $mul_add(a, b, c) }
            }
            #[inline(always)]
            fn neg_mul_add(self, a: $vector, b: $vector, c: $vector) -> $vector {
                // SAFETY: see above.
                unsafe { $neg_mul_add(a, b, c) }
            }
            #[inline(always)]
            fn reduce_add(self, a: $vector) -> $scalar {
                // SAFETY: see above.
                unsafe { $reduce_add(a) }
            }
            #[inline(always)]
            unsafe fn load_acc(self, p: *const $scalar) -> $vector {
                // SAFETY: see above.
                unsafe { $load(p) }
            }
            #[inline(always)]
            unsafe fn store_acc(self, p: *mut $scalar, v: $vector) {
                // SAFETY: see above.
                unsafe { $store(p, v) }
            }
        }
    };
}

/// Whether this CPU is one of Intel's.
#[cfg(target_arch = "x86_64")]
static INTEL: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| {
    #[allow(unused_unsafe, reason = "it is unsafe in older versions of Rust")]
    // SAFETY: every x86-64 CPU has the instruction, and this leaf.
    let vendor = unsafe { std::arch::x86_64::__cpuid(0) };
    [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).as_flattened() == b"GenuineIntel"
});

/// [`Caches`](crate::simd::Caches) by instructions that every x86-64 CPU has.
#[cfg(target_arch = "x86_64")]
macro_rules! caches_x86_64 {
    ($token:ty) => {
        impl $crate::simd::Caches for $token {
            #[inline(always)]
            fn fence(self) {
                // SAFETY: needs SSE, which every x86-64 CPU has.
                unsafe { std::arch::x86_64::_mm_sfence() }
            }
            #[inline(always)]
            fn prefetch<T>(self, p: *const T) {
                use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
                // SAFETY: needs SSE, which every x86-64 CPU has; a prefetch never faults, whatever the address.
                unsafe { _mm_prefetch::<_MM_HINT_T1>(p.cast()) }
            }
            #[inline(always)]
            fn prefetch_near<T>(self, p: *const T) {
                use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                // SAFETY: as above.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
            }
            #[inline(always)]
            fn two_streams(self) -> bool {
                *$crate::simd::INTEL
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod network;
mod portable;
mod rank;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::Avx512;

pub(crate) use portable::Portable;
pub(crate) use rank::{Rank, Ranking};

use crate::element::Element;
use crate::isa::Isa;

/// Functions compiled for an instruction set.
pub(crate) trait Features: Copy {
    /// Whether `f64::mul_add` is an instruction.
    const FUSED: bool;

    /// Calls `f`, which is `#[inline(always)]`, in a function of its own.
    fn call<R>(self, f: impl FnOnce() -> R) -> R;
}

/// Arithmetic on vectors of `A`.
pub(crate) trait Arith<A>: Copy {
    /// A vector.
    type V: Copy;

    /// How many `A` a vector holds.
    const LANES: usize;

    /// `a` in every lane.
    fn splat(self, a: A) -> Self::V;
    /// `a + b`
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a - b`
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b`
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once where the instruction set has it.
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `c - a * b`, rounded once where the instruction set has it.
    fn neg_mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The sum of all lanes, in a fixed order.
    fn reduce_add(self, a: Self::V) -> A;

    /// Reads a vector of accumulators, at any alignment.
    ///
    /// # Safety
    /// - `LANES` values can be read at `p`.
    unsafe fn load_acc(self, p: *const A) -> Self::V;

    /// Writes a vector of accumulators, at any alignment.
    ///
    /// # Safety
    /// - `LANES` values can be written at `p`.
    unsafe fn store_acc(self, p: *mut A, v: Self::V);
}

/// Reads elements of type `T` into vectors of `A`.
pub(crate) trait Load<T, A>: Arith<A> {
    /// Reads `LANES` elements, at any alignment.
    ///
    /// # Safety
    /// - `LANES` elements can be read at `p`.
    unsafe fn load(self, p: *const T) -> Self::V;

    /// Reads `n < LANES` elements; the other lanes are those of `fill`.
    ///
    /// # Safety
    /// - `n < LANES`, and `n` elements can be read at `p`.
    unsafe fn load_partial(self, p: *const T, n: usize, fill: Self::V) -> Self::V;
}

/// Moves elements of type `T` between memory and vectors of `T::Acc`.
pub(crate) trait Simd<T: Element>: Load<T, T::Acc> + Caches {
    /// Writes `LANES` elements, at any alignment.
    ///
    /// # Safety
    /// - `LANES` elements can be written at `p`.
    unsafe fn store(self, p: *mut T, v: Self::V);

    /// Writes `LANES` elements past the caches, where the instruction set can. [`fence`](Caches::fence) must follow
    /// before another thread reads them.
    ///
    /// # Safety
    /// - `LANES` elements can be written at `p`.
    /// - `p` is aligned to `LANES * size_of::<T>()` bytes.
    unsafe fn stream(self, p: *mut T, v: Self::V);

    /// Writes the first `n < LANES` lanes, and nothing behind them.
    ///
    /// # Safety
    /// - `n < LANES`, and `n` elements can be written at `p`.
    unsafe fn store_partial(self, p: *mut T, n: usize, v: Self::V);
}

/// What kernels ask of the caches.
pub(crate) trait Caches: Copy {
    /// Orders streamed stores before whatever this thread writes next.
    fn fence(self);

    /// Asks for the cache line at `p`, which need not be readable, to be brought into the second level.
    fn prefetch<T>(self, p: *const T);

    /// Asks for the cache line at `p`, which should be in the second level, to be brought into the first. Where lines come from
    /// memory, this is slower on a Zen 4 than [`prefetch`](Caches::prefetch).
    fn prefetch_near<T>(self, _p: *const T) {}

    /// Whether memory is faster if it is asked for lines in two places in turn than for one after the other: by 1 to 5 % in
    /// attention on Intel's Emerald Rapids. On AMD's CPUs it has not been measured.
    #[inline(always)]
    fn two_streams(self) -> bool {
        false
    }
}

/// Compares vectors of f32.
pub(crate) trait Compare: Load<f32, f32> + Features {
    /// Whether there are registers for eight vectors beside what a loop over them needs. Where there are not, it is faster to load
    /// the vectors a second time.
    const MANY_REGISTERS: bool = true;

    /// How many vectors of sums are kept.
    const SUMS: usize = 4;

    /// How many vectors are searched for one that is larger than a threshold together: 4 or 8.
    const GROUP: usize = 4;

    /// The larger of each pair; either, if one is NaN.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// The largest of four, lane by lane.
    #[inline(always)]
    fn max4(self, [a, b, c, d]: [Self::V; 4]) -> Self::V {
        self.max(self.max(a, b), self.max(c, d))
    }
    /// The largest lane; any, if one is NaN.
    fn reduce_max(self, a: Self::V) -> f32;
    /// Bit `i` says whether `a > b` in lane `i`; it is not where one is NaN.
    fn gt_mask(self, a: Self::V, b: Self::V) -> u64;
    /// The same for all lanes of a [group](Compare::GROUP) of vectors.
    #[inline(always)]
    fn gt_mask_group(self, a: impl Fn(usize) -> Self::V, b: Self::V) -> u64 {
        let mut mask = 0;
        for u in 0..Self::GROUP {
            mask |= self.gt_mask(a(u), b) << (u * Self::LANES);
        }
        mask
    }

    /// Writes, for every bit that is set in every mask, where its group starts plus its number; and anything behind. Returns how many
    /// were written.
    ///
    /// # Safety
    /// - As many numbers as there are bits can be written at `p`, and [`LANES_MAX`] more.
    #[inline(always)]
    unsafe fn list_bits(self, starts: &[u32], masks: &[u64], p: *mut u32) -> usize {
        // SAFETY: the caller vouches for the numbers.
        unsafe { list_bits_one_by_one(starts, masks, p) }
    }

    /// Writes the lanes whose bit is set in `mask`, next to each other, and anything behind them.
    ///
    /// # Safety
    /// - `LANES` values can be written at `p`.
    #[inline(always)]
    unsafe fn store_packed(self, p: *mut f32, mut mask: u64, v: Self::V) {
        let mut lanes = [0.0; LANES_MAX];
        // SAFETY: the buffer has room for the widest vector.
        unsafe { self.store_acc(lanes.as_mut_ptr(), v) };
        let mut at = p;
        while mask != 0 {
            // SAFETY: there are at most `LANES` bits, and the caller vouches for so many values.
            unsafe {
                *at = lanes[mask.trailing_zeros() as usize % LANES_MAX];
                at = at.add(1);
            }
            mask &= mask - 1;
        }
    }
}

/// Calls `visit` with the start of every mask plus the number of each of its bits, and whether there is such a bit: mostly there are one or
/// two, and which of these cannot be predicted; so it is called for two in any case.
#[inline(always)]
pub(crate) fn each_bit(starts: &[u32], masks: &[u64], mut visit: impl FnMut(u32, bool)) {
    for (&start, &mask) in starts.iter().zip(masks) {
        let mut mask = mask;
        loop {
            for _ in 0..2 {
                visit(start + mask.trailing_zeros() % u64::BITS, mask != 0);
                mask &= mask.wrapping_sub(1);
            }
            if mask == 0 {
                break;
            }
        }
    }
}

/// [`Compare::list_bits`] without vectors.
///
/// # Safety
/// - As there.
#[inline(always)]
unsafe fn list_bits_one_by_one(starts: &[u32], masks: &[u64], p: *mut u32) -> usize {
    let mut len = 0;
    each_bit(
        starts,
        masks,
        #[inline(always)]
        |number, counts| {
            // SAFETY: the caller vouches for `len` and more.
            unsafe { *p.add(len) = number };
            len += usize::from(counts);
        },
    );
    len
}

/// The same number, though the compiler cannot tell: so what is read at it will not be taken for what was read before.
#[inline(always)]
pub(crate) fn opaque(mut i: usize) -> usize {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    // SAFETY: no instruction at all.
    unsafe {
        std::arch::asm!("/* {0} */", inout(reg) i, options(pure, nomem, nostack, preserves_flags));
    }
    i
}

/// The widest vector has so many lanes of f32.
pub(crate) const LANES_MAX: usize = 16;

/// The narrowest has so many.
pub(crate) const LANES_MIN: usize = 4;

/// Moves lanes of f32 about.
pub(crate) trait Exchange: Arith<f32> {
    /// Every two lanes that are so far apart change places: lane `i` becomes that of number `i ^ APART`. `APART` is a power of two below
    /// `LANES`.
    fn exchange<const APART: usize>(self, v: Self::V) -> Self::V;
}

/// Reads numbers, several of which share four bytes, into vectors of f32.
pub(crate) trait LoadPacked: Arith<f32> {
    /// Of each of `LANES` times four bytes, the bf16 at `i`, counted by twos.
    ///
    /// # Safety
    /// - `4 * LANES` bytes can be read at `p`, and `i` is less than 2.
    unsafe fn load_bf16(self, p: *const u8, i: usize) -> Self::V;

    /// Of each of `LANES` times four bytes, the signed one at `i`.
    ///
    /// # Safety
    /// - `4 * LANES` bytes can be read at `p`, and `i` is less than 4.
    unsafe fn load_i8(self, p: *const u8, i: usize) -> Self::V;

    /// Of each of `LANES` times four bytes, half of one, as numbers from -7.5 to 7.5: `i` counts the low halves first.
    ///
    /// # Safety
    /// - `4 * LANES` bytes can be read at `p`, and `i` is less than 8.
    unsafe fn load_u4(self, p: *const u8, i: usize) -> Self::V;
}

/// Of four bytes, in little endian, those of the second bf16.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const UPPER_HALF: i32 = 0xffff_0000_u32 as i32;

/// By how many bits the half of a byte is shifted that [`LoadPacked::load_u4`] is to read, in little endian.
pub(crate) const fn nibble_shift(i: usize) -> usize {
    i % 4 * 8 + i / 4 * 4
}

/// Powers of two of vectors of f32.
pub(crate) trait Exp2: Arith<f32> {
    /// A rate and an exponent, in the form that [`add_exp2`](Exp2::add_exp2) uses.
    type Scaling: Copy;

    /// `rate` is at least [`RATE_MIN`], and `exponent` an integer between plus and minus [`EXPONENT_MAX`]; otherwise sums
    /// are anything.
    fn scaling(self, rate: f32, exponent: f32) -> Self::Scaling;

    /// `sum + 2^(x * rate - exponent)`, where that power is 2 at most: within 3 half units in its last place if
    /// `x * rate` were exact, and `ln(2)` more for each of the powers of two by which the power is below 1. It may be anything
    /// up to `2^-125` where it is below that; NaN if `x` is.
    fn add_exp2(self, sum: Self::V, x: Self::V, scaling: Self::Scaling) -> Self::V;

    /// What [`add_exp2_scaled`](Exp2::add_exp2_scaled) multiplies the powers by.
    const SCALE: f64 = 1.0;

    /// Whether `MASKED` makes a difference to [`add_exp2_scaled`](Exp2::add_exp2_scaled).
    const MASKS: bool = false;

    /// As [`add_exp2`](Exp2::add_exp2), with the power multiplied by [`SCALE`](Exp2::SCALE) and within 6 half units instead of 3. Unless
    /// `MASKED`, it may be NaN for negative infinity, and for numbers below `-2^60 / rate`.
    #[inline(always)]
    fn add_exp2_scaled<const MASKED: bool>(
        self,
        sum: Self::V,
        x: Self::V,
        scaling: Self::Scaling,
    ) -> Self::V {
        self.add_exp2(sum, x, scaling)
    }
}

/// What a polynomial for powers of two needs.
pub(crate) trait Exponents: Arith<f32> {
    /// `a * b - c`, rounded once.
    fn mul_sub(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;

    /// `t - floor(t)`, in 0..=1, for `t <= 1`. Anything for infinities.
    fn fraction(self, t: Self::V) -> Self::V;

    /// `p * 2^floor(t)` for `p` in 1..=2 and `t <= 1`; may be zero where that is below the normal numbers, and is for
    /// `t` of negative infinity. NaN if either is.
    fn scale(self, p: Self::V, t: Self::V) -> Self::V;
}

impl<S: Exponents> Exp2 for S {
    type Scaling = (Self::V, Self::V);

    #[inline(always)]
    fn scaling(self, rate: f32, exponent: f32) -> Self::Scaling {
        (self.splat(rate), self.splat(exponent))
    }

    #[inline(always)]
    fn add_exp2(self, sum: Self::V, x: Self::V, (rate, exponent): Self::Scaling) -> Self::V {
        /// The polynomial in `r` that is nearest to `2^r` on 0..=1, relative to it, of those that are 1 at 0; lowest power
        /// first. It is off by 8.7e-8 at most.
        const COEFFICIENTS: [f32; 6] =
            [1.0, 0.693_151_3, 0.240_164_46, 0.055_799_913, 0.009_017_029, 0.001_867_130_8];
        let t = self.mul_sub(x, rate, exponent);
        let r = self.fraction(t);
        let [c0, c1, c2, c3, c4, c5] = COEFFICIENTS.map(
            #[inline(always)]
            |c| self.splat(c),
        );
        let p = self.mul_add(c5, r, c4);
        let p = self.mul_add(p, r, c3);
        let p = self.mul_add(p, r, c2);
        let p = self.mul_add(p, r, c1);
        let p = self.mul_add(p, r, c0);
        self.add(sum, self.scale(p, t))
    }
}

/// Below this rate the most negative number would be too near to nothing to stand for negative infinity.
pub(crate) const RATE_MIN: f32 = 1e-30;

/// Up to here a thirty-second counts in f32.
pub(crate) const EXPONENT_MAX: f32 = (1 << 18) as f32;

/// All that softmax asks of vectors, for logits of type `T`.
pub(crate) trait LogitSimd<T>: Load<T, f32> + Compare + Exp2 + Rank + Caches {}

impl<T, S: Load<T, f32> + Compare + Exp2 + Rank + Caches> LogitSimd<T> for S {}

/// A kernel, written once over the vectors of any instruction set.
pub(crate) trait Op<T: Element> {
    /// Runs it. Implementations are `#[inline(always)]`.
    fn eval<S: Simd<T>>(self, simd: S);
}

/// A kernel over logits, written once over the vectors of any instruction set.
pub(crate) trait LogitOp<T> {
    /// Runs it. Implementations are `#[inline(always)]`.
    fn eval<S: LogitSimd<T>>(self, simd: S);
}

/// The exponent of the smallest normal number.
const EXPONENT_MIN: f32 = -126.0;

/// Proof that this CPU has an instruction set.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Token {
    #[cfg(target_arch = "x86_64")]
    Avx512(avx512::Avx512),
    #[cfg(target_arch = "x86_64")]
    Avx2(avx2::Avx2),
    #[cfg(target_arch = "aarch64")]
    Neon(neon::Neon),
    Portable(portable::Portable),
}

impl Token {
    /// The token of `isa`, if this CPU has it.
    pub(crate) fn new(isa: Isa) -> Option<Token> {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => avx512::Avx512::new().map(Token::Avx512),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => avx2::Avx2::new().map(Token::Avx2),
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => neon::Neon::new().map(Token::Neon),
            Isa::Portable => Some(Token::Portable(portable::Portable)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
