//! The element types that kernels read and write, and the type each computes in.

use half::bf16;

#[cfg(feature = "layer_norm")]
use crate::layer_norm::{BackwardPass, ForwardPass};
use crate::simd::{Op, Token, dispatch};

pub(crate) mod sealed {
    #[cfg(feature = "layer_norm")]
    use crate::layer_norm::{BackwardPass, ForwardPass};
    use crate::simd::{Op, Token};

    #[expect(private_interfaces, private_bounds, reason = "only this crate can name the trait")]
    pub trait Sealed: Sized {
        /// Runs `op` inside a function compiled for the instruction set of `token`: the only place where dispatch
        /// happens.
        fn dispatch<O: Op<Self>>(token: Token, op: O)
        where
            Self: super::Element;

        /// Layer normalisation behind its checks, compiled here and not by each crate that calls it.
        #[cfg(feature = "layer_norm")]
        fn forward(pass: ForwardPass<'_, Self>)
        where
            Self: super::Element;

        /// Its gradients, likewise.
        #[cfg(feature = "layer_norm")]
        fn backward(pass: BackwardPass<'_, Self>)
        where
            Self: super::Element;
    }
}

/// The scalar type of the arithmetic: f32 or f64.
pub trait Accumulator: Copy + Send + Sync + std::fmt::Debug + PartialOrd + Default + 'static {
    /// Rounds to this type.
    fn from_f64(value: f64) -> Self;
    /// Widens, exactly.
    fn to_f64(self) -> f64;
}

impl Accumulator for f32 {
    #[inline(always)]
    fn from_f64(value: f64) -> f32 {
        value as f32
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
}

impl Accumulator for f64 {
    #[inline(always)]
    fn from_f64(value: f64) -> f64 {
        value
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
}

/// A type that tensors can have: `f32`, `f64` or [`bf16`].
///
/// Sealed: kernels are instantiated for these three and no others.
pub trait Element:
    sealed::Sealed + Copy + Send + Sync + std::fmt::Debug + PartialOrd + Default + 'static
{
    /// What it is computed in, and what row statistics are stored in: f32 for f32 and bf16, f64 for f64.
    type Acc: Accumulator;

    /// The name, as reports show it.
    const NAME: &'static str;

    /// Rounds to nearest, ties to even.
    fn from_f64(value: f64) -> Self;

    /// Widens, exactly.
    fn to_f64(self) -> f64;
}

macro_rules! element {
    ($element:ty, $acc:ty, $name:literal, $from:expr, $to:expr) => {
        impl Element for $element {
            type Acc = $acc;
            const NAME: &'static str = $name;

            #[inline(always)]
            fn from_f64(value: f64) -> $element {
                $from(value)
            }

            #[inline(always)]
            fn to_f64(self) -> f64 {
                $to(self)
            }
        }

        #[expect(private_interfaces, private_bounds, reason = "only this crate can name the trait")]
        impl sealed::Sealed for $element {
            fn dispatch<O: Op<$element>>(token: Token, op: O) {
                dispatch!(token, op)
            }

            #[cfg(feature = "layer_norm")]
            #[inline(never)]
            fn forward(pass: ForwardPass<'_, $element>) {
                pass.run();
            }

            #[cfg(feature = "layer_norm")]
            #[inline(never)]
            fn backward(pass: BackwardPass<'_, $element>) {
                pass.run();
            }
        }
    };
}

element!(f32, f32, "f32", |v| v as f32, f64::from);
element!(f64, f64, "f64", |v| v, |v| v);
element!(bf16, f32, "bf16", bf16::from_f64, bf16::to_f64);
