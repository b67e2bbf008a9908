//! How the inputs of a case are drawn.

use rand_chacha::ChaCha8Rng;
use tribunal_contract::DType;

use super::problem::{Problem, Wide};
use crate::draw::Draw;

/// What x looks like.
#[derive(Debug, Clone, Copy)]
pub(super) enum X {
    /// Normal in every row.
    Normal { offset: f64, scale: f64 },
    /// Uniform in 0 … 1.
    Uniform,
    /// Integers from -8 to 8.
    Integers,
    /// Multiples of 1/1024, so that adding a small integer is exact.
    Grid,
    /// Every second row is zero.
    ZeroRows,
    /// Every second row is a constant that has a short binary form, so that its mean is exact in any order.
    ConstantRows,
    /// One NaN, in the middle row.
    NanRow,
    /// One element of each row is 10,000 where the others are normal.
    Outlier,
    /// Row `r` is normal times 10^(r mod 8 - 3).
    Scales,
    /// Rows stand at 0, 100, -1000, 3 and so on.
    Offsets,
    /// Standard deviations of 1, 0.1, 0.01, 0.001 and 0, so that eps weighs differently in each row.
    Deviations,
    /// 1 and a little: less than half of what a float32 sum of 2^15 ones can still tell apart, so that one running
    /// sum loses all of it, always downwards. Sixteen or eight running sums, or a tree, keep it.
    Drift,
    /// The last columns are 30 times larger: whoever leaves them out gets other statistics.
    HeavyTail,
}

/// What gamma looks like. Beta is always normal.
#[derive(Debug, Clone, Copy)]
pub(super) enum Gamma {
    /// Normal, the first negative and, from three columns on, one zero.
    Random,
    Ones,
    Zeros,
}

/// What dy looks like.
#[derive(Debug, Clone, Copy)]
pub(super) enum Dy {
    Normal(f64),
    Zeros,
    Ones,
    /// 0.5 … 1.5: sums over rows and columns do not cancel.
    Positive,
    /// Nearly in the span of ones and xhat, so that dx is a thousandth of its terms.
    Cancelling,
}

/// The recipe of a problem.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recipe {
    pub(super) x: X,
    pub(super) gamma: Gamma,
    pub(super) dy: Dy,
    pub(super) eps: f64,
}

impl Recipe {
    /// Draws a problem.
    pub(super) fn draw(&self, rng: ChaCha8Rng, shape: &[usize], dtype: DType) -> Problem {
        let cols = *shape.last().expect("a shape has an axis");
        let rows = shape.iter().rev().skip(1).product();
        let mut contents = Contents { draw: Draw(rng), rows, cols };
        let x = contents.x(self.x);
        let gamma = contents.gamma(self.gamma);
        let dy = contents.dy(self.dy, &x, &gamma);
        let beta = (0..cols).map(|_| contents.draw.normal()).collect();
        Problem::new(dtype, shape, self.eps, &Wide { x, gamma, beta, dy })
    }
}

struct Contents {
    draw: Draw,
    rows: usize,
    cols: usize,
}

impl Contents {
    fn x(&mut self, kind: X) -> Vec<f64> {
        let (rows, cols) = (self.rows, self.cols);
        let mut x: Vec<f64> = (0..rows * cols).map(|_| self.element(kind)).collect();
        for (r, row) in x.chunks_mut(cols).enumerate() {
            match kind {
                X::ZeroRows if r % 2 == 0 => row.fill(0.0),
                X::ConstantRows if r % 2 == 0 => row.fill([0.5, -2.0, 1.0, 0.0, 96.0][r / 2 % 5]),
                X::NanRow if r == rows / 2 => row[cols / 3] = f64::NAN,
                X::Outlier => row[(r * 7 + cols / 2) % cols] = 1e4,
                X::Scales => row.iter_mut().for_each(|x| *x *= 10f64.powi((r % 8) as i32 - 3)),
                X::Offsets => row.iter_mut().for_each(|x| *x += [0.0, 100.0, -1000.0, 3.0][r % 4]),
                X::Deviations => row.iter_mut().for_each(|x| *x *= [1.0, 0.1, 0.01, 0.001, 0.0][r % 5]),
                X::HeavyTail => row.iter_mut().skip(cols - cols.div_ceil(16)).for_each(|x| *x *= 30.0),
                _ => {}
            }
        }
        x
    }

    fn element(&mut self, kind: X) -> f64 {
        match kind {
            X::Normal { offset, scale } => offset + scale * self.draw.normal(),
            X::Uniform => self.draw.uniform(),
            X::Integers => (self.draw.uniform() * 17.0).floor() - 8.0,
            X::Grid => (self.draw.normal() * 1024.0).round() / 1024.0,
            X::Drift => 1.0 + 0.0019 * self.draw.uniform(),
            _ => self.draw.normal(),
        }
    }

    fn gamma(&mut self, kind: Gamma) -> Vec<f64> {
        let cols = self.cols;
        match kind {
            Gamma::Ones => vec![1.0; cols],
            Gamma::Zeros => vec![0.0; cols],
            Gamma::Random => {
                let mut gamma: Vec<f64> = (0..cols).map(|_| self.draw.normal()).collect();
                gamma[0] = -0.5 - gamma[0].abs();
                if cols >= 3 {
                    gamma[cols / 2] = 0.0;
                }
                gamma
            }
        }
    }

    fn dy(&mut self, kind: Dy, x: &[f64], gamma: &[f64]) -> Vec<f64> {
        let count = self.rows * self.cols;
        match kind {
            Dy::Normal(scale) => (0..count).map(|_| scale * self.draw.normal()).collect(),
            Dy::Zeros => vec![0.0; count],
            Dy::Ones => vec![1.0; count],
            Dy::Positive => (0..count).map(|_| 0.5 + self.draw.uniform()).collect(),
            Dy::Cancelling => (0..count)
                .map(|i| {
                    let gamma = gamma[i % self.cols];
                    // Where gamma is small, dy would be huge: there it is left alone.
                    let g = 2.0 + 3.0 * x[i] + 1e-3 * self.draw.normal();
                    if gamma.abs() < 0.1 { self.draw.normal() } else { g / gamma }
                })
                .collect(),
        }
    }
}
