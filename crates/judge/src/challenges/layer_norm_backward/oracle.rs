//! The definition, slow and obvious, and the error budget that follows from it.
//!
//! Everything is computed in double-double, so that the values are right to the last digit of a float64 even where a
//! mean of 1e14 stands beside a deviation of 1.
//!
//! # The budget
//!
//! The reference for the bound is a two-pass algorithm in the working precision, summing in any order. With `u` the
//! unit roundoff of the arithmetic, `n` the length of a row, `R` the number of rows, and `s(n) = 2 √n u` the error of
//! a sum of `n` terms relative to the sum of their magnitudes (the probabilistic bound with λ = 2; a tree, blocks and a
//! compensated sum stay far below it):
//!
//! - mean: `δm = s mean|x| + u |mean|`. Every deviation `x - mean` is off by the *same* `δm`.
//! - variance: its error is `δv = (s + 4u) var + δm² + 8u mean|x| √var`. The mean of squares about a point `δm` away
//!   from the mean is larger by exactly `δm²`. The last term is Welford's: each of its deviations is taken from a mean
//!   that has wandered by up to `2 √n u mean|x|`, with signs that have nothing to do with the deviation's, so that of
//!   `2 mean(deviation · wander)` the part `2/√n` is left. There is no `u mean²`: that is the one-pass form's error, and
//!   it is not admitted.
//! - rstd: half of that relative to `var + eps`, and three roundings: `ρ = δv / 2(var + eps) + 3u`.
//! - xhat: `δx = δm rstd + (ρ + 2u) |xhat|`.
//! - y: `|gamma| δx + 2u |gamma xhat| + u |y|`.
//! - c = mean(g xhat): `δc = (s + 4u) mean|g xhat| + δm rstd |mean g| + ρ |c|`; the common shift of a row's xhat
//!   meets the mean of g, the common factor meets c itself.
//! - dx: `rstd ((s + 4u) mean|g| + 3u |g| + |xhat| δc + |c| (δm rstd + ρ |xhat|) + 5u |xhat c|) + (ρ + u) |dx|`
//! - dgamma: `(s(R) + 3u) Σ|dy xhat| + Σ |dy| δx`
//! - dbeta: `s(R) Σ|dy|`
//!
//! and to each `2 u_out |value|`, one subnormal step of the output's dtype, and `2^-53 |value|` for the rounding of the
//! oracle's own value to a float64. The 2 is there because rounding a bfloat16 to nearest already costs up to 1: an
//! honest answer must not come near its limit.

use super::problem::Problem;
use crate::compare::Expected;
use crate::double_double::DoubleDouble;
use crate::precision::Precision;

/// What the four results should be.
#[derive(Debug, Clone)]
pub(super) struct Expectations {
    pub(super) y: Expected,
    pub(super) dx: Expected,
    pub(super) dgamma: Expected,
    pub(super) dbeta: Expected,
    /// mean and rstd of each row.
    pub(super) statistics: Vec<(f64, f64)>,
}

/// δm and ρ of a row: the error of its mean, and the relative error of its rstd.
pub(super) fn row_errors(
    precision: Precision,
    cols: usize,
    mean: f64,
    magnitude: f64,
    var: f64,
    eps: f64,
) -> (f64, f64) {
    let (s, u) = (precision.sum(cols), precision.u);
    let mean_error = s * magnitude + u * mean.abs();
    let wander = 8.0 * u * magnitude * var.sqrt();
    let var_error = (s + 4.0 * u) * var + mean_error * mean_error + wander;
    (mean_error, var_error / (2.0 * (var + eps)) + 3.0 * u)
}

/// The right answer to a problem, and how far off an honest one may be.
pub(super) fn expect(problem: &Problem) -> Expectations {
    expect_at(problem, Precision::of(problem.dtype()))
}

/// The right answer, and how far off one in that arithmetic may be.
pub(super) fn expect_at(problem: &Problem, precision: Precision) -> Expectations {
    let (rows, cols) = (problem.rows(), problem.cols());
    let wide = &problem.wide;
    let empty = |len| Expected { values: Vec::with_capacity(len), budget: Vec::with_capacity(len) };
    let (mut y, mut dx) = (empty(rows * cols), empty(rows * cols));
    let mut columns = vec![Column::default(); cols];
    let mut statistics = Vec::with_capacity(rows);
    for row in 0..rows {
        let range = row * cols..(row + 1) * cols;
        let dy = &wide.dy[range.clone()];
        let row = Row::new(&wide.x[range], problem.eps, precision);
        statistics.push((row.mean.value(), row.rstd.value()));
        row.forward(&wide.gamma, &wide.beta, &mut y);
        row.backward(&wide.gamma, dy, &mut dx);
        for (j, column) in columns.iter_mut().enumerate() {
            column.add(dy[j], row.xhat[j], row.xhat_error(j));
        }
    }
    Expectations {
        y,
        dx,
        dgamma: expected(columns.iter().map(|column| column.dgamma(rows, precision))),
        dbeta: expected(columns.iter().map(|column| column.dbeta(rows, precision))),
        statistics,
    }
}

fn expected(pairs: impl Iterator<Item = (f64, f64)>) -> Expected {
    let (values, budget) = pairs.unzip();
    Expected { values, budget }
}

/// Statistics of a row with their errors.
struct Row {
    precision: Precision,
    mean: DoubleDouble,
    rstd: DoubleDouble,
    xhat: Vec<DoubleDouble>,
    /// δm rstd: what every xhat of the row may be shifted by.
    shift: f64,
    /// ρ: the relative error of rstd.
    rho: f64,
}

impl Row {
    fn new(x: &[f64], eps: f64, precision: Precision) -> Self {
        let mean = mean_of(x.iter().map(|&x| x.into()));
        let deviations: Vec<DoubleDouble> = x.iter().map(|&x| DoubleDouble::from(x) - mean).collect();
        let var = mean_of(deviations.iter().map(|&d| d * d));
        let rstd = DoubleDouble::from(1.0) / (var + eps.into()).sqrt();
        let magnitude = x.iter().map(|x| x.abs()).sum::<f64>() / x.len() as f64;
        let (mean_error, rho) = row_errors(precision, x.len(), mean.value(), magnitude, var.value(), eps);
        Self {
            precision,
            mean,
            rstd,
            xhat: deviations.iter().map(|&d| d * rstd).collect(),
            shift: mean_error * rstd.value(),
            rho,
        }
    }

    fn xhat_error(&self, index: usize) -> f64 {
        self.shift + (self.rho + 2.0 * self.precision.u) * self.xhat[index].value().abs()
    }

    fn forward(&self, gamma: &[f64], beta: &[f64], y: &mut Expected) {
        let u = self.precision.u;
        for (j, &xhat) in self.xhat.iter().enumerate() {
            let scaled = xhat * gamma[j].into();
            let value = (scaled + beta[j].into()).value();
            y.values.push(value);
            y.budget.push(
                gamma[j].abs() * self.xhat_error(j)
                    + 2.0 * u * scaled.value().abs()
                    + u * value.abs()
                    + self.precision.rounded(value),
            );
        }
    }

    fn backward(&self, gamma: &[f64], dy: &[f64], dx: &mut Expected) {
        let (n, u) = (dy.len() as f64, self.precision.u);
        let s = self.precision.sum(dy.len());
        let g: Vec<DoubleDouble> =
            dy.iter().zip(gamma).map(|(&dy, &w)| DoubleDouble::product(dy, w)).collect();
        let a = mean_of(g.iter().copied());
        let c = mean_of(g.iter().zip(&self.xhat).map(|(&g, &xhat)| g * xhat));
        let abs_g = g.iter().map(|g| g.value().abs()).sum::<f64>() / n;
        let abs_gx =
            g.iter().zip(&self.xhat).map(|(g, xhat)| (g.value() * xhat.value()).abs()).sum::<f64>() / n;
        let c_size = c.value().abs();
        let c_error = (s + 4.0 * u) * abs_gx + self.shift * a.value().abs() + self.rho * c_size;
        for (&g, &xhat) in g.iter().zip(&self.xhat) {
            let value = (self.rstd * (g - a - xhat * c)).value();
            let (g, xhat) = (g.value().abs(), xhat.value().abs());
            let terms = (s + 4.0 * u) * abs_g
                + 3.0 * u * g
                + xhat * c_error
                + c_size * (self.shift + self.rho * xhat)
                + 5.0 * u * xhat * c_size;
            dx.values.push(value);
            dx.budget.push(
                self.rstd.value() * terms + (self.rho + u) * value.abs() + self.precision.rounded(value),
            );
        }
    }
}

fn mean_of(terms: impl ExactSizeIterator<Item = DoubleDouble>) -> DoubleDouble {
    let count = terms.len() as f64;
    terms.fold(DoubleDouble::ZERO, |sum, term| sum + term) / count.into()
}

/// The sums over rows of one column.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Column {
    dgamma: DoubleDouble,
    dbeta: DoubleDouble,
    abs_dgamma: f64,
    abs_dbeta: f64,
    amplified: f64,
}

impl Column {
    /// Takes in one row's element.
    pub(super) fn add(&mut self, dy: f64, xhat: DoubleDouble, xhat_error: f64) {
        let term = DoubleDouble::from(dy) * xhat;
        self.dgamma += term;
        self.dbeta += dy.into();
        self.abs_dgamma += term.value().abs();
        self.abs_dbeta += dy.abs();
        self.amplified += dy.abs() * xhat_error;
    }

    /// Value and budget of dgamma, after `rows` rows.
    pub(super) fn dgamma(&self, rows: usize, precision: Precision) -> (f64, f64) {
        let value = self.dgamma.value();
        let accumulated = (precision.sum(rows) + 3.0 * precision.u) * self.abs_dgamma;
        (value, accumulated + self.amplified + precision.rounded(value))
    }

    /// Value and budget of dbeta, after `rows` rows.
    pub(super) fn dbeta(&self, rows: usize, precision: Precision) -> (f64, f64) {
        let value = self.dbeta.value();
        (value, precision.sum(rows) * self.abs_dbeta + precision.rounded(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;
    use crate::challenges::layer_norm_backward::problem::Wide;
    use rand::RngExt;
    use tribunal_contract::DType;

    fn problem(shape: &[usize], eps: f64, wide: Wide) -> Problem {
        Problem::new(DType::Float64, shape, eps, &wide)
    }

    fn random(rows: usize, cols: usize, offset: f64) -> Problem {
        let mut rng = Seed::PUBLIC.rng("oracle");
        let mut draw =
            |count: usize| -> Vec<f64> { (0..count).map(|_| rng.random::<f64>() * 4.0 - 2.0).collect() };
        let wide = Wide {
            x: draw(rows * cols).iter().map(|x| x + offset).collect(),
            gamma: draw(cols),
            beta: draw(cols),
            dy: draw(rows * cols),
        };
        problem(&[rows, cols], 1e-3, wide)
    }

    #[test]
    fn a_row_worked_by_hand() {
        // mean 2, var 1 + eps 3 = 4, rstd 1/2, xhat ∓1/2, g = (6, -2), a = 2, c = -2.
        let right = expect(&problem(
            &[1, 2],
            3.0,
            Wide { x: vec![1.0, 3.0], gamma: vec![3.0, -1.0], beta: vec![10.0, 20.0], dy: vec![2.0, 2.0] },
        ));
        assert_eq!(right.y.values, [8.5, 19.5]);
        assert_eq!(right.dx.values, [1.5, -1.5]);
        assert_eq!(right.dgamma.values, [-1.0, 1.0]);
        assert_eq!(right.dbeta.values, [2.0, 2.0]);
        assert_eq!(right.statistics, [(2.0, 0.5)]);
    }

    /// The loss whose gradient is looked for, in double-double from the definition alone.
    fn loss(problem: &Problem, nudge: impl Fn(usize, usize) -> [DoubleDouble; 3]) -> DoubleDouble {
        let (rows, cols, wide) = (problem.rows(), problem.cols(), &problem.wide);
        let mut total = DoubleDouble::ZERO;
        for r in 0..rows {
            let at = |j: usize| DoubleDouble::from(wide.x[r * cols + j]) + nudge(r, j)[0];
            let mean = mean_of((0..cols).map(at));
            let var = mean_of((0..cols).map(|j| (at(j) - mean) * (at(j) - mean)));
            let root = (var + problem.eps.into()).sqrt();
            for j in 0..cols {
                let [_, gamma, beta] = nudge(r, j);
                let gamma = gamma + wide.gamma[j].into();
                let beta = beta + wide.beta[j].into();
                total += DoubleDouble::from(wide.dy[r * cols + j]) * (gamma * (at(j) - mean) / root + beta);
            }
        }
        total
    }

    #[test]
    fn gradients_are_those_of_the_loss() {
        let problem = random(3, 5, 0.5);
        let right = expect(&problem);
        let step = 1e-9;
        let slope = |which: usize, hit: &dyn Fn(usize, usize) -> bool| {
            let nudged = |by: f64| {
                loss(&problem, |r, j| {
                    let mut nudge = [DoubleDouble::ZERO; 3];
                    if hit(r, j) {
                        nudge[which] = by.into();
                    }
                    nudge
                })
            };
            ((nudged(step) - nudged(-step)) / (2.0 * step).into()).value()
        };
        for j in 0..5 {
            for r in 0..3 {
                let dx = slope(0, &|row, col| (row, col) == (r, j));
                assert!((dx - right.dx.values[r * 5 + j]).abs() < 1e-13, "dx at {r}, {j}");
            }
            assert!((slope(1, &|_, col| col == j) - right.dgamma.values[j]).abs() < 1e-13, "dgamma at {j}");
            assert!((slope(2, &|_, col| col == j) - right.dbeta.values[j]).abs() < 1e-13, "dbeta at {j}");
        }
    }

    #[test]
    fn an_offset_of_1e14_changes_nothing() {
        let x: Vec<f64> = (0..8).map(|i| f64::from(i * i % 5)).collect();
        let at = |offset: f64| {
            let x = x.iter().map(|x| x + offset).collect();
            let wide =
                Wide { x, gamma: vec![1.5; 4], beta: vec![0.0; 4], dy: (0..8).map(f64::from).collect() };
            expect(&problem(&[2, 4], 1e-5, wide))
        };
        let (near, far) = (at(0.0), at(1e14));
        assert_eq!(near.y.values, far.y.values);
        assert_eq!(near.dx.values, far.dx.values);
        assert_eq!(near.dgamma.values, far.dgamma.values);
    }

    #[test]
    fn identities_hold() {
        let problem = random(4, 7, 100.0);
        let right = expect(&problem);
        for (row, dx) in right.dx.values.chunks(7).enumerate() {
            let sum: f64 = dx.iter().sum();
            assert!(sum.abs() < 1e-14, "row {row} of dx sums to {sum}");
        }
        let one = random(3, 1, 5.0);
        assert!(expect(&one).dx.values.iter().all(|&dx| dx == 0.0));
        assert_eq!(expect(&one).y.values, [one.wide.beta[0]; 3]);
    }

    #[test]
    fn a_constant_row_is_amplified_and_finite() {
        let right = expect(&problem(
            &[1, 2],
            1e-4,
            Wide { x: vec![7.0, 7.0], gamma: vec![1.0, 1.0], beta: vec![0.0, 0.0], dy: vec![1.0, 0.0] },
        ));
        assert_eq!(right.dgamma.values, [0.0, 0.0]);
        assert!((right.dx.values[0] - 50.0).abs() < 1e-12);
    }

    #[test]
    fn a_nan_stays_in_its_row() {
        let mut problem = random(3, 4, 0.0);
        problem.wide.x[5] = f64::NAN;
        let right = expect(&problem);
        let nans = |values: &[f64]| -> Vec<bool> { values.chunks(4).map(|row| row[0].is_nan()).collect() };
        assert_eq!(nans(&right.y.values), [false, true, false]);
        assert_eq!(nans(&right.dx.values), [false, true, false]);
        assert!(right.dbeta.values.iter().all(|v| v.is_finite()));
    }
}
