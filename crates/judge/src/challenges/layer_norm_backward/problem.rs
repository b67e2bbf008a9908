//! One problem: the inputs of a forward and a backward call.

use tribunal_contract::{Argument, Call, DType, StateId, Tensor, TensorSpec};

/// Inputs in the submission's dtype, and the same numbers widened.
#[derive(Debug, Clone)]
pub(super) struct Problem {
    pub(super) x: Tensor,
    pub(super) gamma: Tensor,
    pub(super) beta: Tensor,
    pub(super) dy: Tensor,
    pub(super) eps: f64,
    pub(super) wide: Wide,
}

/// What is wide holds the same numbers.
impl PartialEq for Problem {
    fn eq(&self, other: &Self) -> bool {
        self.tensors() == other.tensors() && self.eps.to_bits() == other.eps.to_bits()
    }
}

/// The inputs as doubles, exactly.
#[derive(Debug, Clone)]
pub(super) struct Wide {
    pub(super) x: Vec<f64>,
    pub(super) gamma: Vec<f64>,
    pub(super) beta: Vec<f64>,
    pub(super) dy: Vec<f64>,
}

impl Problem {
    fn tensors(&self) -> [&Tensor; 4] {
        [&self.x, &self.gamma, &self.beta, &self.dy]
    }

    /// The call of its forward, which makes that cache.
    pub(super) fn forward(&self, cache: StateId) -> Call<'_> {
        Call {
            operation: "forward",
            inputs: vec![
                Argument::Tensor(&self.x),
                Argument::Tensor(&self.gamma),
                Argument::Tensor(&self.beta),
                Argument::Real(self.eps),
            ],
            outputs: vec![self.full()],
            makes: Some(cache),
        }
    }

    /// The call of its backward from that cache.
    pub(super) fn backward<'t>(&self, dy: &'t Tensor, cache: StateId) -> Call<'t> {
        Call {
            operation: "backward",
            inputs: vec![Argument::Tensor(dy), Argument::State(cache)],
            outputs: vec![self.full(), self.column(), self.column()],
            makes: None,
        }
    }

    /// A problem from values that are rounded to `dtype` first.
    pub(super) fn new(dtype: DType, shape: &[usize], eps: f64, drawn: &Wide) -> Self {
        let cols = [*shape.last().expect("a shape has an axis")];
        Self::of(
            Tensor::from_f64(dtype, shape, &drawn.x),
            Tensor::from_f64(dtype, cols, &drawn.gamma),
            Tensor::from_f64(dtype, cols, &drawn.beta),
            Tensor::from_f64(dtype, shape, &drawn.dy),
            eps,
        )
    }

    fn of(x: Tensor, gamma: Tensor, beta: Tensor, dy: Tensor, eps: f64) -> Self {
        let wide = Wide { x: x.to_f64(), gamma: gamma.to_f64(), beta: beta.to_f64(), dy: dy.to_f64() };
        Self { x, gamma, beta, dy, eps, wide }
    }

    pub(super) fn dtype(&self) -> DType {
        self.x.dtype()
    }

    pub(super) fn shape(&self) -> &[usize] {
        self.x.shape()
    }

    pub(super) fn cols(&self) -> usize {
        *self.shape().last().expect("a shape has an axis")
    }

    pub(super) fn rows(&self) -> usize {
        self.shape().iter().rev().skip(1).product()
    }

    /// The spec of x, y, dy and dx.
    pub(super) fn full(&self) -> TensorSpec {
        self.x.spec().clone()
    }

    /// The spec of gamma and beta and their gradients.
    pub(super) fn column(&self) -> TensorSpec {
        self.gamma.spec().clone()
    }

    /// These rows only, as `(rows, D)`.
    pub(super) fn with_rows(&self, rows: &[usize]) -> Self {
        let cols = self.cols();
        let take = |values: &[f64]| -> Vec<f64> {
            rows.iter().flat_map(|&row| &values[row * cols..(row + 1) * cols]).copied().collect()
        };
        let (x, dy) = (take(&self.wide.x), take(&self.wide.dy));
        let full = [rows.len(), cols];
        Self::of(
            Tensor::from_f64(self.dtype(), full, &x),
            self.gamma.clone(),
            self.beta.clone(),
            Tensor::from_f64(self.dtype(), full, &dy),
            self.eps,
        )
    }

    /// The same numbers as `(rows, D)`.
    pub(super) fn flat(&self) -> Self {
        self.with_rows(&(0..self.rows()).collect::<Vec<_>>())
    }

    /// The same problem with another upstream gradient, rounded to the dtype.
    pub(super) fn with_dy(&self, dy: &[f64]) -> Self {
        let dy = Tensor::from_f64(self.dtype(), self.shape(), dy);
        Self::of(self.x.clone(), self.gamma.clone(), self.beta.clone(), dy, self.eps)
    }

    /// The same problem with another input, rounded to the dtype.
    pub(super) fn with_x(&self, x: &[f64]) -> Self {
        let x = Tensor::from_f64(self.dtype(), self.shape(), x);
        Self::of(x, self.gamma.clone(), self.beta.clone(), self.dy.clone(), self.eps)
    }
}
