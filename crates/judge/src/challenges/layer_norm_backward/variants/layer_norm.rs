//! A layer norm in plain Rust, in one of several honest ways or with one of many defects.

use tribunal_contract::{DType, Tensor};

use super::{Backward, Defect, LayerNorm};
use crate::arithmetic::{Real, Sum};

/// Rows of a partial sum.
const PARTIAL: usize = 64;

/// What forward leaves for backward, in doubles that hold the working precision's values.
#[derive(Debug, Clone)]
pub(super) struct Cache {
    pub(super) dtype: DType,
    pub(super) shape: Vec<usize>,
    x: Vec<f64>,
    xhat: Vec<f64>,
    mean: Vec<f64>,
    rstd: Vec<f64>,
    gamma: Vec<f64>,
    pub(super) uses: usize,
}

impl Cache {
    fn cols(&self) -> usize {
        self.gamma.len()
    }
}

/// The inputs of forward.
pub(super) struct Inputs<'a> {
    pub(super) x: &'a Tensor,
    pub(super) gamma: &'a Tensor,
    pub(super) beta: &'a Tensor,
    pub(super) eps: f64,
}

/// Forward in the working precision `T`.
pub(super) fn forward<T: Real>(variant: &LayerNorm, inputs: &Inputs<'_>) -> (Vec<f64>, Cache) {
    let cols = inputs.gamma.len();
    let (x, gamma, beta) = (inputs.x.to_f64(), inputs.gamma.to_f64(), inputs.beta.to_f64());
    let mut statistics: Vec<(T, T)> =
        x.chunks(cols).map(|row| statistics::<T>(variant, row, inputs.eps)).collect();
    if variant.has(Defect::RstdOfFirstRow) {
        let first = statistics[0].1;
        statistics.iter_mut().for_each(|row| row.1 = first);
    }
    if variant.has(Defect::RowsMixed) {
        let all = self::statistics::<T>(variant, &x, inputs.eps);
        statistics.fill(all);
    }
    let mut xhat: Vec<f64> = x
        .iter()
        .enumerate()
        .map(|(index, &x)| {
            let (mean, rstd) = statistics[index / cols];
            ((T::of(x) - mean) * rstd).wide()
        })
        .collect();
    if variant.has(Defect::HalfXhat) {
        xhat = Tensor::from_f64(DType::Float16, [xhat.len()], &xhat).to_f64();
    }
    let y = (0..x.len())
        .map(|index| {
            let (gamma, beta) = (T::of(gamma[index % cols]), T::of(beta[index % cols]));
            gamma.mul_add_if(variant, T::of(xhat[index]), beta)
        })
        .collect();
    if variant.has(Defect::HalfCache) {
        xhat = Tensor::from_f64(DType::Float16, [xhat.len()], &xhat).to_f64();
    }
    let cache = Cache {
        dtype: inputs.x.dtype(),
        shape: inputs.x.shape().to_vec(),
        x,
        xhat,
        mean: statistics.iter().map(|row| row.0.wide()).collect(),
        rstd: statistics.iter().map(|row| row.1.wide()).collect(),
        gamma,
        uses: 0,
    };
    (y, cache)
}

trait MulAddIf: Real {
    fn mul_add_if(self, variant: &LayerNorm, factor: Self, term: Self) -> f64 {
        if matches!(variant.sum, Sum::Lanes(_)) {
            self.mul_add(factor, term).wide()
        } else {
            (self * factor + term).wide()
        }
    }
}

impl<T: Real> MulAddIf for T {}

/// mean and rstd of a row.
fn statistics<T: Real>(variant: &LayerNorm, row: &[f64], eps: f64) -> (T, T) {
    let n = T::of(row.len() as f64);
    let at = |index: usize| T::of(row[index]);
    let count = if variant.has(Defect::TailOutOfSums) { row.len() - row.len() % 8 } else { row.len() };
    if let Some(share) = variant.welford {
        return welford(row, share, eps, !variant.has(Defect::MergeWithoutDelta));
    }
    let mean = variant.sum.terms(count, at) / n;
    let squares = variant.sum.products(count, |index| (at(index) - mean, at(index) - mean));
    let mut var = squares / n;
    if variant.has(Defect::OnePassVariance) || variant.has(Defect::OnePassClamped) {
        var = variant.sum.products(count, |index| (at(index), at(index))) / n - mean * mean;
        if variant.has(Defect::OnePassClamped) && var < T::of(0.0) {
            var = T::of(0.0);
        }
    }
    if variant.has(Defect::UnbiasedVariance) {
        var = squares / (n - T::of(1.0));
    }
    let eps = match variant.defect {
        Some(Defect::EpsDropped) => 0.0,
        Some(Defect::NanAtConstantRows) if !(var > T::of(0.0)) => 0.0,
        Some(Defect::EpsIgnored) => 1e-5,
        Some(Defect::EpsTenPercent) => eps * 1.1,
        _ => eps,
    };
    if variant.has(Defect::EpsOutside) {
        return (mean, T::of(1.0) / (var.sqrt() + T::of(eps)));
    }
    if variant.has(Defect::EpsAsFloor) {
        let least = T::of(eps);
        return (mean, T::of(1.0) / (if var > least { var } else { least }).sqrt());
    }
    (mean, T::of(1.0) / (var + T::of(eps)).sqrt())
}

/// Welford's moments of shares, and Chan's merge of them: squares about two means are those about either and delta² n m / (n + m).
fn welford<T: Real>(row: &[f64], share: usize, eps: f64, delta_counts: bool) -> (T, T) {
    let (mut mean, mut squares, mut count) = (T::of(0.0), T::of(0.0), 0);
    for share in row.chunks(share) {
        let (own_mean, own_squares) = moments::<T>(share);
        let delta = own_mean - mean;
        let (before, after) = (T::of(count as f64), T::of((count + share.len()) as f64));
        let part = T::of(share.len() as f64) / after;
        mean = mean + delta * part;
        squares = squares + own_squares;
        if delta_counts {
            squares = squares + delta * delta * before * part;
        }
        count += share.len();
    }
    (mean, T::of(1.0) / (squares / T::of(row.len() as f64) + T::of(eps)).sqrt())
}

/// The mean, and the sum of squares about it.
fn moments<T: Real>(values: &[f64]) -> (T, T) {
    let (mut mean, mut squares) = (T::of(0.0), T::of(0.0));
    for (index, &x) in values.iter().enumerate() {
        let delta = T::of(x) - mean;
        mean = mean + delta / T::of((index + 1) as f64);
        squares = squares + delta * (T::of(x) - mean);
    }
    (mean, squares)
}

/// The three gradients, in the working precision `T`.
pub(super) fn backward<T: Real>(variant: &LayerNorm, cache: &Cache, dy: &[f64]) -> [Vec<f64>; 3] {
    let cols = cache.cols();
    let rows = dy.len() / cols;
    let mut dx = Vec::with_capacity(dy.len());
    let mut means = Vec::with_capacity(rows);
    for row in 0..rows {
        let row = Row::<T>::new(variant, cache, dy, row);
        means.push(row.means());
    }
    if variant.has(Defect::MeansMixed) {
        let all = means.iter().fold(T::of(0.0), |sum, means| sum + means.0) / T::of(rows as f64);
        means.iter_mut().for_each(|means| means.0 = all);
    }
    for (index, &means) in means.iter().enumerate() {
        dx.extend(Row::<T>::new(variant, cache, dy, index).gradient(means));
    }
    let (dgamma, dbeta) = columns::<T>(variant, cache, dy, rows);
    [dx, dgamma, dbeta]
}

struct Row<'a, T> {
    variant: &'a LayerNorm,
    x: Vec<T>,
    xhat: Vec<T>,
    g: Vec<T>,
    gamma: Vec<T>,
    mean: T,
    rstd: T,
}

impl<'a, T: Real> Row<'a, T> {
    fn new(variant: &'a LayerNorm, cache: &Cache, dy: &[f64], row: usize) -> Self {
        let cols = cache.cols();
        let range = row * cols..(row + 1) * cols;
        let narrow = |values: &[f64]| -> Vec<T> { values.iter().map(|&value| T::of(value)).collect() };
        let (mean, rstd) = (T::of(cache.mean[row]), T::of(cache.rstd[row]));
        let x = narrow(&cache.x[range.clone()]);
        let mut xhat = narrow(&cache.xhat[range.clone()]);
        if variant.backward != Backward::KeptXhat {
            xhat = x.iter().map(|&x| (x - mean) * rstd).collect();
        }
        let (dy, gamma) = (narrow(&dy[range]), narrow(&cache.gamma));
        let without = variant.has(Defect::GammaOutsideMeans) || variant.has(Defect::GammaOmitted);
        let g = if without { dy } else { dy.iter().zip(&gamma).map(|(&dy, &w)| dy * w).collect() };
        Self { variant, x, xhat, g, gamma, mean, rstd }
    }

    fn means(&self) -> (T, T) {
        let n = T::of(self.g.len() as f64);
        let sum = self.variant.sum;
        let lost = if self.variant.has(Defect::TailOutOfSums) { self.g.len() % 8 } else { 0 };
        let count = self.g.len() - lost;
        let mean = sum.terms(count, |index| self.g[index]) / n;
        let along = sum.products(count, |index| (self.g[index], self.xhat[index]));
        let along = match self.variant.defect {
            Some(Defect::ProjectionWithoutEps) => {
                let square = sum.products(self.g.len(), |index| (self.xhat[index], self.xhat[index]));
                if square > T::of(0.0) { along / square } else { T::of(0.0) }
            }
            _ => along / n,
        };
        let weight = |value: T, weight: f64| value * T::of(weight);
        match self.variant.defect {
            Some(Defect::MeanTermMissing) => (T::of(0.0), along),
            Some(Defect::ProjectionTermMissing) => (mean, T::of(0.0)),
            Some(Defect::ProjectionTermDoubled) => (mean, weight(along, 2.0)),
            Some(Defect::ProjectionTermSlightlyOff) => (mean, weight(along, 1.01)),
            _ => (mean, along),
        }
    }

    fn gradient(&self, (mean, along): (T, T)) -> Vec<f64> {
        let (n, rstd, count) = (T::of(self.g.len() as f64), self.rstd, self.g.len());
        let sum = self.variant.sum;
        let each = |value: &dyn Fn(usize) -> T| (0..count).map(|index| value(index).wide()).collect();
        match self.variant.backward {
            // By way of the derivatives of variance and mean, as textbooks have it.
            Backward::Chain => {
                let half = T::of(-0.5);
                let deviation = |index: usize| self.x[index] - self.mean;
                let dvar = sum.products(count, |index| (self.g[index], deviation(index)));
                let dvar = dvar * half * rstd * rstd * rstd;
                let dmean = T::of(-1.0) * rstd * sum.terms(count, |index| self.g[index])
                    + dvar * T::of(-2.0) * sum.terms(count, deviation) / n;
                each(&|index| self.g[index] * rstd + dvar * T::of(2.0) * deviation(index) / n + dmean / n)
            }
            // Projected first, centred afterwards.
            Backward::Centred => {
                let projected: Vec<T> =
                    (0..count).map(|index| rstd * (self.g[index] - self.xhat[index] * along)).collect();
                let centre = sum.terms(count, |index| projected[index]) / n;
                each(&|index| projected[index] - centre)
            }
            Backward::KeptXhat | Backward::Recomputed => each(&|index| {
                let inner = self.g[index] - mean - self.xhat[index] * along;
                let outer = rstd * inner;
                if self.variant.has(Defect::GammaOutsideMeans) { outer * self.gamma[index] } else { outer }
            }),
        }
    }
}

/// dgamma and dbeta.
fn columns<T: Real>(variant: &LayerNorm, cache: &Cache, dy: &[f64], rows: usize) -> (Vec<f64>, Vec<f64>) {
    let cols = cache.cols();
    let first_axis = cache.shape[0];
    let counted = match variant.defect {
        Some(Defect::ReductionOverFirstAxis) if cache.shape.len() == 3 => 0..first_axis,
        Some(Defect::ReductionOverwritten) => rows - 1..rows,
        Some(Defect::RowsBeyond4096) => 0..rows.min(4096),
        _ => 0..rows,
    };
    let (start, count) = (counted.start, counted.len());
    let divisor = T::of(if variant.has(Defect::ReductionAveraged) { rows as f64 } else { 1.0 });
    let factor = |row: usize, column: usize| {
        let index = row * cols + column;
        let (x, mean, rstd) = (T::of(cache.x[index]), T::of(cache.mean[row]), T::of(cache.rstd[row]));
        match (variant.defect, variant.backward) {
            (Some(Defect::DgammaUsesX), _) => x,
            (_, Backward::KeptXhat) => T::of(cache.xhat[index]),
            _ => (x - mean) * rstd,
        }
    };
    let at = |row: usize, column: usize| T::of(dy[row * cols + column]);
    let gather = |sum: &dyn Fn(usize, usize, usize) -> T| -> Vec<f64> {
        let parted = match (variant.defect, cache.dtype) {
            (Some(Defect::PartialsIn(of @ DType::BFloat16)), DType::BFloat16)
            | (Some(Defect::PartialsIn(of @ DType::Float32)), DType::Float64)
                if count > PARTIAL =>
            {
                Some(of)
            }
            _ => None,
        };
        let of_column = |j: usize| match parted {
            None => sum(j, start, count).wide(),
            Some(dtype) => (0..count).step_by(PARTIAL).fold(0.0, |all, first| {
                let partial = sum(j, start + first, PARTIAL.min(count - first)).wide();
                Tensor::from_f64(dtype, [1], &[all + partial]).get(0)
            }),
        };
        (0..cols).map(|j| (T::of(of_column(j)) / divisor).wide()).collect()
    };
    let dgamma = gather(&|j, start, count| {
        variant.sum.products(count, |row| (at(start + row, j), factor(start + row, j)))
    });
    let dbeta = gather(&|j, start, count| variant.sum.terms(count, |row| at(start + row, j)));
    (dgamma, dbeta)
}
