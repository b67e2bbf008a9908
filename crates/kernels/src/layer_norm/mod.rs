//! Layer normalisation over the last axis, forward and backward.
//!
//! [`forward`] saves two numbers a row, the mean and the reciprocal standard deviation; with `x` and `gamma`, which the
//! caller has anyway, that is all [`backward`] needs.
//!
//! # Method
//!
//! Both passes move each tensor once: a row (a few rows, if they are short) is read from memory, stays in the first or
//! second level of cache while its sums are taken, and leaves as a row of output. While one group of rows is worked on,
//! the next is prefetched, so that memory is not idle during the arithmetic.
//!
//! The variance is the corrected two-pass one (Chan, Golub, LeVeque 1983): a first pass gives the mean, a second the sums
//! of `d = x - mean` and of `d²`. The first of these would be zero without rounding; what it is instead corrects both
//! the mean and the variance. The textbook's one-pass form `E[x²] - E[x]²` loses all digits as soon as the mean is large
//! beside the deviation; `docs/figures/cancellation.svg` shows where.

mod backward;
pub mod check;
mod forward;
mod sums;

pub(crate) use backward::Pass as BackwardPass;
pub use backward::backward;
pub(crate) use forward::Pass as ForwardPass;
pub use forward::forward;

use crate::element::Element;
use crate::isa::Isa;
use crate::simd::Token;
use crate::stores::Stores;

/// The shape of a tensor whose rows are normalised. Leading axes are folded into `rows`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How many rows; may be zero.
    pub rows: usize,
    /// How many elements a row has; at least one.
    pub cols: usize,
}

impl Shape {
    fn len(self) -> Option<usize> {
        self.rows.checked_mul(self.cols)
    }
}

/// What [`forward`] reads.
#[derive(Clone, Copy, Debug)]
pub struct ForwardInputs<'a, T> {
    /// `[rows, cols]`, row-major, contiguous.
    pub x: &'a [T],
    /// `[cols]`
    pub gamma: &'a [T],
    /// `[cols]`
    pub beta: &'a [T],
}

/// What [`forward`] writes.
#[derive(Debug)]
pub struct ForwardOutputs<'a, T: Element> {
    /// `[rows, cols]`, row-major, contiguous.
    pub y: &'a mut [T],
    /// `[rows]`: the mean of each row.
    pub mean: &'a mut [T::Acc],
    /// `[rows]`: `1 / sqrt(var + eps)` of each row.
    pub rstd: &'a mut [T::Acc],
}

/// Options of [`forward`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ForwardOptions {
    /// Added to the variance, inside the root. Finite and not negative.
    pub eps: f64,
    /// The instruction set to use; `None` takes [`Isa::best`].
    pub isa: Option<Isa>,
    /// How `y` is written.
    pub stores: Stores,
}

impl Default for ForwardOptions {
    /// `eps = 1e-5`, and everything else as measured best.
    fn default() -> ForwardOptions {
        ForwardOptions { eps: 1e-5, isa: None, stores: Stores::Auto }
    }
}

/// What [`backward`] reads.
#[derive(Clone, Copy, Debug)]
pub struct BackwardInputs<'a, T: Element> {
    /// `[rows, cols]`: the gradient of the loss with respect to `y`.
    pub dy: &'a [T],
    /// `[rows, cols]`, as given to [`forward`].
    pub x: &'a [T],
    /// `[rows]`, as [`forward`] wrote it.
    pub mean: &'a [T::Acc],
    /// `[rows]`, as [`forward`] wrote it.
    pub rstd: &'a [T::Acc],
    /// `[cols]`, as given to [`forward`].
    pub gamma: &'a [T],
}

/// What [`backward`] writes.
#[derive(Debug)]
pub struct BackwardOutputs<'a, T> {
    /// `[rows, cols]`
    pub dx: &'a mut [T],
    /// `[cols]`
    pub dgamma: &'a mut [T],
    /// `[cols]`
    pub dbeta: &'a mut [T],
}

/// Options of [`backward`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackwardOptions {
    /// The instruction set to use; `None` takes [`Isa::best`].
    pub isa: Option<Isa>,
    /// How `dx` is written.
    pub stores: Stores,
}

/// Why layer normalisation was refused. No buffer has been touched.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LayerNormError {
    /// A buffer is shorter or longer than the shape asks for.
    #[error("use {buffer} of {got} elements where the shape asks for {expected}")]
    Length {
        /// The name of the field.
        buffer: &'static str,
        /// How many elements the shape asks for.
        expected: usize,
        /// How many the buffer has.
        got: usize,
    },
    /// Rows without elements have no mean.
    #[error("normalise rows of no elements")]
    NoColumns,
    /// `rows * cols` does not fit into a `usize`.
    #[error("address {} x {} elements", .0.rows, .0.cols)]
    TooLarge(
        /// The shape.
        Shape,
    ),
    /// `eps` is negative, infinite or NaN.
    #[error("add {0} to a variance: eps must be finite and not negative")]
    Eps(
        /// The value given.
        f64,
    ),
    /// The instruction set asked for is not one that this CPU has.
    #[error("run {0} kernels: this CPU does not have that instruction set")]
    Unavailable(
        /// The instruction set asked for.
        Isa,
    ),
}

fn check_length<T>(buffer: &'static str, slice: &[T], expected: usize) -> Result<(), LayerNormError> {
    let got = slice.len();
    if got == expected { Ok(()) } else { Err(LayerNormError::Length { buffer, expected, got }) }
}

/// The number of elements of `shape`, which must have columns and fit into memory.
fn check_shape(shape: Shape) -> Result<usize, LayerNormError> {
    if shape.cols == 0 {
        return Err(LayerNormError::NoColumns);
    }
    shape.len().ok_or(LayerNormError::TooLarge(shape))
}

/// Proof that the CPU has the instruction set asked for, or the best one if none was.
fn token(isa: Option<Isa>) -> Result<Token, LayerNormError> {
    let isa = isa.unwrap_or_else(Isa::best);
    Token::new(isa).ok_or(LayerNormError::Unavailable(isa))
}
