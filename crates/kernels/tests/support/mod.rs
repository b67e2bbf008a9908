//! What tests share: guarded buffers; and for layer normalisation data, and calls of both passes.

#![allow(dead_code, reason = "each test binary uses its part")]

pub(crate) mod attention;
pub(crate) mod oracle;
pub(crate) mod plain;
pub(crate) mod rounding;
pub(crate) mod softmax;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tribunal_kernels::layer_norm::{
    BackwardInputs, BackwardOptions, BackwardOutputs, ForwardInputs, ForwardOptions, ForwardOutputs,
    LayerNormError, Shape, backward, forward,
};
use tribunal_kernels::{Element, Isa, Stores};

pub(crate) const EPS: f64 = 1e-5;

/// Inputs of both passes, in the type under test.
#[derive(Clone, Debug)]
pub(crate) struct Data<T> {
    pub(crate) shape: Shape,
    pub(crate) x: Vec<T>,
    pub(crate) gamma: Vec<T>,
    pub(crate) beta: Vec<T>,
    pub(crate) dy: Vec<T>,
}

/// `x = offset + scale * u`, all else of the order of one, with `u` uniform in -1..1.
pub(crate) fn data<T: Element>(rows: usize, cols: usize, offset: f64, scale: f64, seed: u64) -> Data<T> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut draw = |n: usize, offset: f64, scale: f64| -> Vec<T> {
        (0..n).map(|_| T::from_f64(offset + scale * rng.random_range(-1.0..1.0))).collect()
    };
    Data {
        shape: Shape { rows, cols },
        x: draw(rows * cols, offset, scale),
        gamma: draw(cols, 1.0, 0.5),
        beta: draw(cols, 0.0, 1.0),
        dy: draw(rows * cols, 0.0, 1.0),
    }
}

pub(crate) fn wide<T: Element>(values: &[T]) -> Vec<f64> {
    values.iter().map(|value| value.to_f64()).collect()
}

/// How a kernel is run: everything that must not change its result, and the instruction set, which may.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) isa: Isa,
    pub(crate) stores: Stores,
    /// How many elements past its alignment each buffer starts.
    pub(crate) misalign: usize,
}

/// Every instruction set of this machine, with cached and streaming stores, at two alignments.
pub(crate) fn settings() -> Vec<Setting> {
    let mut settings = Vec::new();
    for isa in Isa::available() {
        for (stores, misalign) in [(Stores::Cached, 0), (Stores::Streaming, 0), (Stores::Streaming, 3)] {
            settings.push(Setting { isa, stores, misalign });
        }
    }
    settings
}

/// A buffer between two guards, which it checks when read.
pub(crate) struct Guarded<T> {
    whole: Vec<T>,
    start: usize,
    len: usize,
    guard: T,
}

impl<T: Copy + PartialEq + std::fmt::Debug> Guarded<T> {
    pub(crate) fn new(len: usize, misalign: usize, guard: T) -> Guarded<T> {
        const GUARD: usize = 64;
        let mut whole = vec![guard; len + 2 * GUARD + 64 + misalign];
        // To the next cache line, and on from there by as much as asked for.
        let line = whole[GUARD..].as_ptr().align_offset(64);
        let start = GUARD + line + misalign;
        whole.truncate(start + len + GUARD);
        Guarded { whole, start, len, guard }
    }

    pub(crate) fn of(values: &[T], misalign: usize, guard: T) -> Guarded<T> {
        let mut buffer = Guarded::new(values.len(), misalign, guard);
        buffer.get_mut().copy_from_slice(values);
        buffer
    }

    pub(crate) fn get(&self) -> &[T] {
        &self.whole[self.start..self.start + self.len]
    }

    pub(crate) fn get_mut(&mut self) -> &mut [T] {
        &mut self.whole[self.start..self.start + self.len]
    }

    pub(crate) fn into_vec(self) -> Vec<T> {
        let intact = |values: &[T]| values.iter().all(|value| *value == self.guard);
        assert!(intact(&self.whole[..self.start]), "written before the buffer");
        assert!(intact(&self.whole[self.start + self.len..]), "written behind the buffer");
        self.get().to_vec()
    }
}

/// What a forward pass returned.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Forward<T: Element> {
    pub(crate) y: Vec<T>,
    pub(crate) mean: Vec<T::Acc>,
    pub(crate) rstd: Vec<T::Acc>,
}

pub(crate) fn run_forward<T: Element>(
    data: &Data<T>,
    setting: Setting,
) -> Result<Forward<T>, LayerNormError> {
    let Setting { isa, stores, misalign } = setting;
    let (guard, statistics_guard) = (T::from_f64(-7.0), acc::<T>(-7.0));
    let x = Guarded::of(&data.x, misalign, guard);
    let mut y = Guarded::new(data.x.len(), misalign, guard);
    let mut mean = Guarded::new(data.shape.rows, misalign, statistics_guard);
    let mut rstd = Guarded::new(data.shape.rows, misalign, statistics_guard);
    forward(
        data.shape,
        ForwardInputs { x: x.get(), gamma: &data.gamma, beta: &data.beta },
        ForwardOutputs { y: y.get_mut(), mean: mean.get_mut(), rstd: rstd.get_mut() },
        &ForwardOptions { eps: EPS, isa: Some(isa), stores },
    )?;
    Ok(Forward { y: y.into_vec(), mean: mean.into_vec(), rstd: rstd.into_vec() })
}

/// What a backward pass returned.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Backward<T> {
    pub(crate) dx: Vec<T>,
    pub(crate) dgamma: Vec<T>,
    pub(crate) dbeta: Vec<T>,
}

pub(crate) fn run_backward<T: Element>(
    data: &Data<T>,
    mean: &[T::Acc],
    rstd: &[T::Acc],
    setting: Setting,
) -> Result<Backward<T>, LayerNormError> {
    let Setting { isa, stores, misalign } = setting;
    let guard = T::from_f64(-7.0);
    let (x, dy) = (Guarded::of(&data.x, misalign, guard), Guarded::of(&data.dy, misalign, guard));
    let mut dx = Guarded::new(data.x.len(), misalign, guard);
    let mut dgamma = Guarded::new(data.shape.cols, misalign, guard);
    let mut dbeta = Guarded::new(data.shape.cols, misalign, guard);
    backward(
        data.shape,
        BackwardInputs { dy: dy.get(), x: x.get(), mean, rstd, gamma: &data.gamma },
        BackwardOutputs { dx: dx.get_mut(), dgamma: dgamma.get_mut(), dbeta: dbeta.get_mut() },
        &BackwardOptions { isa: Some(isa), stores },
    )?;
    Ok(Backward { dx: dx.into_vec(), dgamma: dgamma.into_vec(), dbeta: dbeta.into_vec() })
}

/// Rounds to what `T` is computed in, by way of the public interface.
pub(crate) fn acc<T: Element>(value: f64) -> T::Acc {
    use tribunal_kernels::Accumulator;
    T::Acc::from_f64(value)
}

/// The largest distance, and where it is. NaN on one side only is infinitely far.
pub(crate) fn farthest(got: &[f64], expected: &[f64]) -> (usize, f64) {
    assert_eq!(got.len(), expected.len());
    let distance = |(got, expected): (&f64, &f64)| match (got.is_nan(), expected.is_nan()) {
        (true, true) => 0.0,
        (false, false) if got == expected => 0.0,
        (false, false) => (got - expected).abs(),
        _ => f64::INFINITY,
    };
    let mut worst = (0, 0.0);
    for (i, pair) in got.iter().zip(expected).enumerate() {
        if distance(pair) > worst.1 {
            worst = (i, distance(pair));
        }
    }
    worst
}

pub(crate) fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |largest, value| value.abs().max(largest))
}
