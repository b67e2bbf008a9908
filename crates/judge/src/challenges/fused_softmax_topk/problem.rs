//! One problem: logits and how many winners are asked for.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::denominators::Denominator;
use tribunal_contract::{Argument, Call, DType, Tensor, TensorSpec};

/// Logits in the submission's dtype, and the same numbers widened.
#[derive(Debug, Clone)]
pub(super) struct Problem {
    pub(super) logits: Tensor,
    pub(super) k: usize,
    pub(super) wide: Vec<f64>,
    /// Wrong denominators of its rows that were worked out, by everybody who came before the same problem.
    pub(super) wrong: Rc<RefCell<HashMap<(Denominator, usize), f64>>>,
}

/// What is wide holds the same numbers.
impl PartialEq for Problem {
    fn eq(&self, other: &Self) -> bool {
        (&self.logits, self.k) == (&other.logits, other.k)
    }
}

impl Problem {
    /// A problem from values that are rounded to `dtype` first.
    pub(super) fn new(dtype: DType, shape: &[usize], k: usize, logits: &[f64]) -> Self {
        Self::of(Tensor::from_f64(dtype, shape, logits), k)
    }

    /// A problem with these logits.
    pub(super) fn of(logits: Tensor, k: usize) -> Self {
        let wide = logits.to_f64();
        Self { logits, k, wide, wrong: Rc::default() }
    }

    /// The call that asks it.
    pub(super) fn call(&self) -> Call<'_> {
        Call {
            operation: "softmax_topk",
            inputs: vec![Argument::Tensor(&self.logits), Argument::Integer(self.k as i64)],
            outputs: self.outputs(),
            makes: None,
        }
    }

    pub(super) fn shape(&self) -> &[usize] {
        self.logits.shape()
    }

    pub(super) fn vocab(&self) -> usize {
        *self.shape().last().expect("a shape has an axis")
    }

    pub(super) fn rows(&self) -> usize {
        self.shape().iter().rev().skip(1).product()
    }

    pub(super) fn row(&self, row: usize) -> &[f64] {
        &self.wide[row * self.vocab()..(row + 1) * self.vocab()]
    }

    /// What the results must be.
    pub(super) fn outputs(&self) -> Vec<TensorSpec> {
        Self::outputs_of(self.shape(), self.k)
    }

    /// What the results for logits of that shape must be.
    pub(super) fn outputs_of(shape: &[usize], k: usize) -> Vec<TensorSpec> {
        let mut shape = shape.to_vec();
        *shape.last_mut().expect("a shape has an axis") = k;
        vec![TensorSpec::new(DType::Float32, shape.clone()), TensorSpec::new(DType::Int64, shape)]
    }

    /// These rows only, as one sequence.
    pub(super) fn with_rows(&self, rows: &[usize]) -> Self {
        let logits: Vec<f64> = rows.iter().flat_map(|&row| self.row(row)).copied().collect();
        Self::new(self.logits.dtype(), &[1, rows.len(), self.vocab()], self.k, &logits)
    }

    /// The same shape and k with other logits, rounded to the dtype.
    pub(super) fn with_logits(&self, logits: &[f64]) -> Self {
        Self::new(self.logits.dtype(), self.shape(), self.k, logits)
    }
}
