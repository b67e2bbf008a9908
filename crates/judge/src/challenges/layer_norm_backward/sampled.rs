//! A large problem against the oracle, at a few places: every timed answer is checked, and must not cost more than
//! it took.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use tribunal_contract::Tensor;

use super::oracle::{Column, expect, row_errors};
use super::problem;
use super::suspects::Output;
use crate::compare::compare;
use crate::lead::budgets;
use crate::precision::Precision;

/// How many rows and columns are looked at.
const PLACES: usize = 3;

/// The inputs of one forward and one backward, `(rows, D)`, by reference.
#[derive(Clone, Copy)]
pub(super) struct Problem<'a> {
    pub(super) x: &'a Tensor,
    pub(super) gamma: &'a Tensor,
    pub(super) beta: &'a Tensor,
    pub(super) dy: &'a Tensor,
    pub(super) eps: f64,
}

/// Where a large answer is looked at.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    rows: Vec<usize>,
    columns: Vec<usize>,
}

impl Sample {
    /// A few places that nobody can foresee, and the last row and column: tails are what gets skipped.
    pub(super) fn draw(rng: &mut ChaCha8Rng, rows: usize, cols: usize) -> Self {
        let mut some = |count: usize| -> Vec<usize> {
            (1..PLACES).map(|_| rng.random_range(0..count)).chain([count - 1]).collect()
        };
        Self { rows: some(rows), columns: some(cols) }
    }
}

impl Problem<'_> {
    /// The first thing that is wrong at the sampled places: rows of y and dx, columns of dgamma and dbeta.
    /// `gradients` are dx, dgamma and dbeta.
    pub(super) fn verify(&self, sample: &Sample, y: &Tensor, gradients: &[Tensor]) -> Option<String> {
        let [dx, dgamma, dbeta] = gradients else { return Some("backward gave no three results".to_owned()) };
        self.verify_rows(&sample.rows, y, dx).or_else(|| self.verify_columns(&sample.columns, dgamma, dbeta))
    }

    fn verify_rows(&self, rows: &[usize], y: &Tensor, dx: &Tensor) -> Option<String> {
        let cols = self.gamma.len();
        let all = take(rows, cols, self.x);
        let problem = problem::Problem::new(
            self.x.dtype(),
            &[rows.len(), cols],
            self.eps,
            &problem::Wide {
                x: all,
                gamma: self.gamma.to_f64(),
                beta: self.beta.to_f64(),
                dy: take(rows, cols, self.dy),
            },
        );
        let right = expect(&problem);
        [(Output::Y, y), (Output::Dx, dx)].into_iter().find_map(|(output, actual)| {
            let actual = Tensor::from_f64(actual.dtype(), [rows.len(), cols], &take(rows, cols, actual));
            let comparison = compare(&actual, output.of_expectations(&right));
            (!comparison.holds()).then(|| {
                let (row, column) = (rows[comparison.worst / cols], comparison.worst % cols);
                format!("{} at row {row}, column {column} is {} off", output.name(), budgets(comparison.used))
            })
        })
    }

    /// Columns need the statistics of every row; those are taken in float64, two passes, which for inputs of 32 bits is
    /// exact enough by nine digits.
    fn verify_columns(&self, columns: &[usize], dgamma: &Tensor, dbeta: &Tensor) -> Option<String> {
        let cols = self.gamma.len();
        let rows = self.x.len() / cols;
        let precision = Precision::of(self.x.dtype());
        let statistics: Vec<Statistics> =
            (0..rows).into_par_iter().map(|row| self.statistics(row, precision)).collect();
        columns.iter().find_map(|&column| {
            let mut sums = Column::default();
            for (row, statistics) in statistics.iter().enumerate() {
                let index = row * cols + column;
                let xhat = (self.x.get(index) - statistics.mean) * statistics.rstd;
                let error = statistics.shift + (statistics.rho + 2.0 * precision.u) * xhat.abs();
                sums.add(self.dy.get(index), xhat.into(), error);
            }
            [("dgamma", dgamma, sums.dgamma(rows, precision)), ("dbeta", dbeta, sums.dbeta(rows, precision))]
                .into_iter()
                .find_map(|(name, actual, (value, budget))| {
                    let error = (actual.get(column) - value).abs();
                    (!(error <= budget))
                        .then(|| format!("{name} at column {column} is {} off", budgets(error / budget)))
                })
        })
    }

    fn statistics(&self, row: usize, precision: Precision) -> Statistics {
        let cols = self.gamma.len();
        let x = self.x.range_to_f64(row * cols..(row + 1) * cols);
        let n = cols as f64;
        let mean = sum(&x, |x| x) / n;
        let var = sum(&x, |x| (x - mean) * (x - mean)) / n;
        let magnitude = sum(&x, f64::abs) / n;
        Statistics::new(mean, var, magnitude, cols, self.eps, precision)
    }
}

/// Statistics of a row and their errors, as the oracle has them.
struct Statistics {
    mean: f64,
    rstd: f64,
    shift: f64,
    rho: f64,
}

impl Statistics {
    fn new(mean: f64, var: f64, magnitude: f64, cols: usize, eps: f64, precision: Precision) -> Self {
        let rstd = 1.0 / (var + eps).sqrt();
        let (shift, rho) = row_errors(precision, cols, mean, magnitude, var, eps);
        Self { mean, rstd, shift: shift * rstd, rho }
    }
}

/// These rows of a tensor, widened.
fn take(rows: &[usize], cols: usize, tensor: &Tensor) -> Vec<f64> {
    let mut taken = Vec::with_capacity(rows.len() * cols);
    for row in rows {
        taken.extend(tensor.range_to_f64(row * cols..(row + 1) * cols));
    }
    taken
}

/// Eight sums at a time: each addition of one alone waits for the one before.
fn sum(values: &[f64], term: impl Fn(f64) -> f64) -> f64 {
    let mut sums = [0.0; 8];
    let (chunks, rest) = values.as_chunks::<8>();
    for chunk in chunks {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum += term(*value);
        }
    }
    sums.into_iter().chain(rest.iter().map(|value| term(*value))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;
    use crate::challenges::layer_norm_backward::recipes::{Dy, Gamma, Recipe, X};
    use tribunal_contract::DType;

    #[test]
    fn right_answers_pass_and_a_wrong_place_that_is_looked_at_does_not() {
        let x = X::Normal { offset: 3.0, scale: 1.0 };
        let recipe = Recipe { x, gamma: Gamma::Random, dy: Dy::Normal(1.0), eps: 1e-5 };
        let mut rng = Seed::PUBLIC.rng("sampled");
        let whole = recipe.draw(rng.clone(), &[40, 33], DType::Float32);
        let right = expect(&whole);
        let tensor = |shape: &[usize], values: &[f64]| Tensor::from_f64(DType::Float32, shape, values);
        let y = tensor(&[40, 33], &right.y.values);
        let gradients = [
            tensor(&[40, 33], &right.dx.values),
            tensor(&[33], &right.dgamma.values),
            tensor(&[33], &right.dbeta.values),
        ];
        let problem =
            Problem { x: &whole.x, gamma: &whole.gamma, beta: &whole.beta, dy: &whole.dy, eps: whole.eps };
        let sample = Sample::draw(&mut rng, 40, 33);
        assert_eq!(problem.verify(&sample, &y, &gradients), None);

        for (index, name) in ["dx", "dgamma", "dbeta"].into_iter().enumerate() {
            let mut values = gradients[index].to_f64();
            *values.last_mut().unwrap() += 0.01;
            let mut wrong = gradients.clone();
            wrong[index] = tensor(gradients[index].shape(), &values);
            let said = problem.verify(&sample, &y, &wrong).unwrap();
            assert!(said.starts_with(name), "{said}");
        }
    }
}
