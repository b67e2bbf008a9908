//! Plain Rust on arrays of 8, for any CPU. The compiler vectorises it as far as the target's baseline goes.

use half::bf16;

use super::{
    Arith, Caches, Compare, EXPONENT_MIN, Exchange, Exponents, Features, Load, LoadPacked, Rank, Simd,
    nibble_shift,
};
use crate::element::Element;

/// Needs nothing of the CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

const LANES: usize = 8;

impl Features for Portable {
    const FUSED: bool = false;

    #[inline(never)]
    fn call<R>(self, f: impl FnOnce() -> R) -> R {
        f()
    }
}

macro_rules! arith_portable {
    ($scalar:ty) => {
        impl Arith<$scalar> for Portable {
            type V = [$scalar; LANES];
            const LANES: usize = LANES;

            #[inline(always)]
            fn splat(self, a: $scalar) -> Self::V {
                [a; LANES]
            }
            #[inline(always)]
            fn add(self, mut a: Self::V, b: Self::V) -> Self::V {
                for i in 0..LANES {
                    a[i] += b[i];
                }
                a
            }
            #[inline(always)]
            fn sub(self, mut a: Self::V, b: Self::V) -> Self::V {
                for i in 0..LANES {
                    a[i] -= b[i];
                }
                a
            }
            #[inline(always)]
            fn mul(self, mut a: Self::V, b: Self::V) -> Self::V {
                for i in 0..LANES {
                    a[i] *= b[i];
                }
                a
            }
            // Rounded twice: without an FMA instruction, `mul_add` of the standard library is a slow call.
            #[inline(always)]
            fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
                Arith::<$scalar>::add(self, Arith::<$scalar>::mul(self, a, b), c)
            }
            #[inline(always)]
            fn neg_mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
                Arith::<$scalar>::sub(self, c, Arith::<$scalar>::mul(self, a, b))
            }
            #[inline(always)]
            fn reduce_add(self, a: Self::V) -> $scalar {
                ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]))
            }
            #[inline(always)]
            unsafe fn load_acc(self, p: *const $scalar) -> Self::V {
                // SAFETY: `LANES` values can be read at `p`, as the caller vouches; the read asks for no alignment.
                unsafe { p.cast::<Self::V>().read_unaligned() }
            }
            #[inline(always)]
            unsafe fn store_acc(self, p: *mut $scalar, v: Self::V) {
                // SAFETY: `LANES` values can be written at `p`, as the caller vouches; the write asks for no alignment.
                unsafe { p.cast::<Self::V>().write_unaligned(v) }
            }
        }
    };
}

arith_portable!(f32);
arith_portable!(f64);

impl Caches for Portable {
    #[inline(always)]
    fn fence(self) {}
    #[inline(always)]
    fn prefetch<T>(self, _: *const T) {}
}

impl Compare for Portable {
    #[inline(always)]
    fn max(self, mut a: Self::V, b: Self::V) -> Self::V {
        for i in 0..LANES {
            a[i] = if a[i] > b[i] { a[i] } else { b[i] };
        }
        a
    }
    #[inline(always)]
    fn reduce_max(self, a: Self::V) -> f32 {
        a.into_iter().fold(f32::NEG_INFINITY, f32::max)
    }
    #[inline(always)]
    fn gt_mask(self, a: Self::V, b: Self::V) -> u64 {
        let mut mask = 0;
        for i in 0..LANES {
            mask |= u64::from(a[i] > b[i]) << i;
        }
        mask
    }
}

/// Adding this rounds to an integer, which is then in the low bits; `floor` of the standard library is a slow call.
const TO_INTEGER: f32 = (3 << 22) as f32;

impl Exponents for Portable {
    // A product of two f32 is exact in f64.
    #[inline(always)]
    fn mul_sub(self, mut a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        for i in 0..LANES {
            a[i] = (f64::from(a[i]) * f64::from(b[i]) - f64::from(c[i])) as f32;
        }
        a
    }
    #[inline(always)]
    fn fraction(self, mut t: Self::V) -> Self::V {
        for lane in &mut t {
            // At an integer, where half below it is a tie, the fraction may come out as 1, which is as good.
            *lane -= (*lane - 0.5 + TO_INTEGER) - TO_INTEGER;
        }
        t
    }
    #[inline(always)]
    fn scale(self, mut p: Self::V, t: Self::V) -> Self::V {
        for i in 0..LANES {
            let exponent = (t[i] - 0.5 + TO_INTEGER).to_bits() << 23;
            let scaled = f32::from_bits(p[i].to_bits().wrapping_add(exponent));
            p[i] = match t[i] {
                t if t >= EXPONENT_MIN => scaled,
                t if t < EXPONENT_MIN => 0.0,
                nan => nan,
            };
        }
        p
    }
}

impl Rank for Portable {}

impl Exchange for Portable {
    #[inline(always)]
    fn exchange<const APART: usize>(self, v: Self::V) -> Self::V {
        debug_assert!(matches!(APART, 1 | 2 | 4));
        std::array::from_fn(
            #[inline(always)]
            |i| v[i ^ APART],
        )
    }
}

impl LoadPacked for Portable {
    #[inline(always)]
    unsafe fn load_bf16(self, p: *const u8, i: usize) -> Self::V {
        // SAFETY: as many bytes can be read at `p`, as the caller vouches; the read asks for no alignment.
        let numbers = unsafe { p.cast::<[[bf16; 2]; LANES]>().read_unaligned() };
        let mut v = [0.0; LANES];
        for lane in 0..LANES {
            v[lane] = numbers[lane][i].to_f32();
        }
        v
    }
    #[inline(always)]
    unsafe fn load_i8(self, p: *const u8, i: usize) -> Self::V {
        // SAFETY: as many bytes can be read at `p`, as the caller vouches; the read asks for no alignment.
        let bytes = unsafe { p.cast::<[[i8; 4]; LANES]>().read_unaligned() };
        let mut v = [0.0; LANES];
        for lane in 0..LANES {
            v[lane] = f32::from(bytes[lane][i]);
        }
        v
    }
    #[inline(always)]
    unsafe fn load_u4(self, p: *const u8, i: usize) -> Self::V {
        // SAFETY: as above.
        let bytes = unsafe { p.cast::<[[u8; 4]; LANES]>().read_unaligned() };
        let mut v = [0.0; LANES];
        for lane in 0..LANES {
            let number = u32::from_le_bytes(bytes[lane]) >> nibble_shift(i) & 15;
            v[lane] = number as f32 - 7.5;
        }
        v
    }
}

/// Converts an element into what it is computed in.
trait Widen<A>: Copy {
    fn widen(self) -> A;
}

/// Converts back, rounding to nearest.
trait Narrow: Element {
    fn narrow(acc: Self::Acc) -> Self;
}

impl Widen<f32> for f32 {
    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }
}

impl Narrow for f32 {
    #[inline(always)]
    fn narrow(acc: f32) -> f32 {
        acc
    }
}

impl Widen<f64> for f64 {
    #[inline(always)]
    fn widen(self) -> f64 {
        self
    }
}

impl Narrow for f64 {
    #[inline(always)]
    fn narrow(acc: f64) -> f64 {
        acc
    }
}

impl Widen<f32> for bf16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        self.to_f32()
    }
}

impl Narrow for bf16 {
    #[inline(always)]
    fn narrow(acc: f32) -> bf16 {
        half::bf16::from_f32(acc)
    }
}

impl Widen<f32> for half::f16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        self.to_f32()
    }
}

impl<T, A> Load<T, A> for Portable
where
    T: Widen<A>,
    A: Copy + Default,
    Portable: Arith<A, V = [A; LANES]>,
{
    #[inline(always)]
    unsafe fn load(self, p: *const T) -> Self::V {
        // SAFETY: `LANES` elements can be read at `p`, as the caller vouches; the read asks for no alignment.
        let elements = unsafe { p.cast::<[T; LANES]>().read_unaligned() };
        let mut v = [A::default(); LANES];
        for i in 0..LANES {
            v[i] = elements[i].widen();
        }
        v
    }
    #[inline(always)]
    unsafe fn load_partial(self, p: *const T, n: usize, fill: Self::V) -> Self::V {
        debug_assert!(n < LANES);
        // SAFETY: `n` elements can be read at `p`, as the caller vouches, and nobody writes them meanwhile.
        let elements = unsafe { std::slice::from_raw_parts(p, n) };
        let mut v = fill;
        for (lane, element) in v.iter_mut().zip(elements) {
            *lane = element.widen();
        }
        v
    }
}

impl<T> Simd<T> for Portable
where
    T: Narrow + Widen<T::Acc>,
    Portable: Arith<T::Acc, V = [T::Acc; LANES]>,
{
    #[inline(always)]
    unsafe fn store(self, p: *mut T, v: Self::V) {
        let mut elements = [T::default(); LANES];
        for i in 0..LANES {
            elements[i] = T::narrow(v[i]);
        }
        // SAFETY: `LANES` elements can be written at `p`, as the caller vouches; the write asks for no alignment.
        unsafe { p.cast::<[T; LANES]>().write_unaligned(elements) }
    }
    #[inline(always)]
    unsafe fn stream(self, p: *mut T, v: Self::V) {
        // SAFETY: the caller vouches for more than a plain store needs.
        unsafe { self.store(p, v) }
    }
    #[inline(always)]
    unsafe fn store_partial(self, p: *mut T, n: usize, v: Self::V) {
        debug_assert!(n < LANES);
        for (i, &lane) in v.iter().enumerate().take(n) {
            // SAFETY: `i < n`, and `n` elements can be written at `p`, as the caller vouches.
            unsafe { p.add(i).write(T::narrow(lane)) }
        }
    }
}
