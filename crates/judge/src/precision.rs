//! The arithmetic that error budgets are made for.

use tribunal_contract::DType;

/// See the module.
#[derive(Debug, Clone, Copy)]
pub struct Precision {
    /// Unit roundoff of the arithmetic.
    pub u: f64,
    /// Unit roundoff of the outputs.
    pub out: f64,
    /// One subnormal step of the outputs.
    pub step: f64,
}

impl Precision {
    /// What the contracts ask of an element type: float64 for float64, float32 for everything else.
    pub fn of(dtype: DType) -> Self {
        let compute = if dtype == DType::Float64 { DType::Float64 } else { DType::Float32 };
        Self { u: compute.unit_roundoff(), out: dtype.unit_roundoff(), step: dtype.subnormal_step() }
    }

    /// Arithmetic and outputs of one type.
    pub fn all(dtype: DType) -> Self {
        Self { u: dtype.unit_roundoff(), out: dtype.unit_roundoff(), step: dtype.subnormal_step() }
    }

    /// The error of a sum of `count` terms in any order, relative to the sum of their magnitudes: the probabilistic bound with
    /// λ = 2 (Higham and Mary 2019). A tree, blocks and a compensated sum stay far below it.
    pub fn sum(self, count: usize) -> f64 {
        2.0 * (count as f64).sqrt() * self.u
    }

    /// What rounding a value to the output's type may cost, twice over, and to the oracle's float64.
    pub fn rounded(self, value: f64) -> f64 {
        (2.0 * self.out + DType::Float64.unit_roundoff()) * value.abs() + self.step
    }
}
