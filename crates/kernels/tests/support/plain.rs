//! The plain two-pass form, in the kernels' own precision: what their accuracy is measured by.

use std::iter::Sum;
use std::ops::{Add, Div, Mul, Sub};

/// f32 or f64.
pub(crate) trait Real:
    Copy + Sum + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self>
{
    fn of(value: f64) -> Self;
    fn wide(self) -> f64;
    fn sqrt(self) -> Self;
    /// The distance from 1 to the next number.
    const EPSILON: f64;
}

impl Real for f32 {
    fn of(value: f64) -> f32 {
        value as f32
    }
    fn wide(self) -> f64 {
        f64::from(self)
    }
    fn sqrt(self) -> f32 {
        f32::sqrt(self)
    }
    const EPSILON: f64 = f32::EPSILON as f64;
}

impl Real for f64 {
    fn of(value: f64) -> f64 {
        value
    }
    fn wide(self) -> f64 {
        self
    }
    fn sqrt(self) -> f64 {
        f64::sqrt(self)
    }
    const EPSILON: f64 = f64::EPSILON;
}

/// `y`, mean and rstd.
pub(crate) fn forward<R: Real>(cols: usize, x: &[R], gamma: &[R], beta: &[R], eps: f64) -> [Vec<R>; 3] {
    let (mut y, mut means, mut rstds) = (Vec::new(), Vec::new(), Vec::new());
    let n = R::of(cols as f64);
    for row in x.chunks(cols) {
        let mean = row.iter().copied().sum::<R>() / n;
        let var = row.iter().map(|&x| (x - mean) * (x - mean)).sum::<R>() / n;
        let rstd = R::of(1.0) / (var + R::of(eps)).sqrt();
        y.extend((0..cols).map(|c| (row[c] - mean) * rstd * gamma[c] + beta[c]));
        means.push(mean);
        rstds.push(rstd);
    }
    [y, means, rstds]
}

/// `dx`, `dgamma` and `dbeta`.
pub(crate) fn backward<R: Real>(
    cols: usize,
    dy: &[R],
    x: &[R],
    mean: &[R],
    rstd: &[R],
    gamma: &[R],
) -> [Vec<R>; 3] {
    let (zero, n) = (R::of(0.0), R::of(cols as f64));
    let (mut dx, mut dgamma, mut dbeta) = (Vec::new(), vec![zero; cols], vec![zero; cols]);
    for (r, (dy, x)) in dy.chunks(cols).zip(x.chunks(cols)).enumerate() {
        let (mut g_sum, mut g_xhat_sum) = (zero, zero);
        for c in 0..cols {
            let xhat = (x[c] - mean[r]) * rstd[r];
            g_sum = g_sum + dy[c] * gamma[c];
            g_xhat_sum = g_xhat_sum + dy[c] * gamma[c] * xhat;
            dgamma[c] = dgamma[c] + dy[c] * xhat;
            dbeta[c] = dbeta[c] + dy[c];
        }
        let (g_mean, g_xhat_mean) = (g_sum / n, g_xhat_sum / n);
        dx.extend(
            (0..cols)
                .map(|c| rstd[r] * (dy[c] * gamma[c] - g_mean - (x[c] - mean[r]) * rstd[r] * g_xhat_mean)),
        );
    }
    [dx, dgamma, dbeta]
}
