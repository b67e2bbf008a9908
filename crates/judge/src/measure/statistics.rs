//! Medians, intervals, slopes.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Resamples of a bootstrap.
const RESAMPLES: usize = 2000;

/// A value and the interval that holds it with 95 % confidence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The best guess.
    pub value: f64,
    /// From, to.
    pub interval: [f64; 2],
}

impl Estimate {
    /// The median of samples, with its bootstrap interval. Panics without samples.
    pub fn of_median(samples: &[f64]) -> Self {
        let value = median(samples);
        // The stream of resamples is fixed: the same samples give the same interval.
        let mut rng = ChaCha8Rng::seed_from_u64(samples.len() as u64);
        let mut medians: Vec<f64> = (0..RESAMPLES)
            .map(|_| {
                let resample: Vec<f64> =
                    samples.iter().map(|_| samples[rng.random_range(0..samples.len())]).collect();
                median(&resample)
            })
            .collect();
        medians.sort_by(f64::total_cmp);
        Self { value, interval: [quantile_of_sorted(&medians, 0.025), quantile_of_sorted(&medians, 0.975)] }
    }
}

/// The middle of samples; of an even number, the mean of the two in the middle (a lower median is biased). Panics
/// without samples.
pub fn median(samples: &[f64]) -> f64 {
    quantile(samples, 0.5)
}

/// The quantile `q` of samples, linear between neighbours. Panics without samples.
pub fn quantile(samples: &[f64], q: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile_of_sorted(&sorted, q)
}

fn quantile_of_sorted(sorted: &[f64], q: f64) -> f64 {
    let position = q * (sorted.len() - 1) as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (position - below as f64) * (sorted[above] - sorted[below])
}

/// The ratio of two things timed side by side, from the logarithms of the ratios seen in each restart of both.
///
/// Restarts are the unit of evidence, not calls: where memory happens to lie biases every call of a process alike.
/// The interval is Student's, over the medians of the restarts; with one restart it is the whole line.
pub fn ratio_over_restarts(log_ratios: &[Vec<f64>]) -> Estimate {
    let medians: Vec<f64> = log_ratios.iter().map(|blocks| median(blocks)).collect();
    let n = medians.len();
    let mean = medians.iter().sum::<f64>() / n as f64;
    let half = if n < 2 {
        f64::INFINITY
    } else {
        let variance = medians.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
        student_t(n - 1) * (variance / n as f64).sqrt()
    };
    Estimate { value: mean.exp(), interval: [(mean - half).exp(), (mean + half).exp()] }
}

/// The two-sided 95 % point of Student's distribution.
fn student_t(degrees: usize) -> f64 {
    const TABLE: [f64; 15] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131,
    ];
    TABLE.get(degrees - 1).copied().unwrap_or(2.0)
}

/// How cost grows with size: the least-squares slope of log(cost) over log(size). 1 is linear. Panics with fewer
/// than two sizes.
pub fn growth(points: &[(f64, f64)]) -> f64 {
    assert!(points.len() >= 2, "a slope needs two points");
    let n = points.len() as f64;
    let logs: Vec<(f64, f64)> = points.iter().map(|&(size, cost)| (size.ln(), cost.ln())).collect();
    let mean_x = logs.iter().map(|p| p.0).sum::<f64>() / n;
    let mean_y = logs.iter().map(|p| p.1).sum::<f64>() / n;
    let covariance: f64 = logs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    covariance / logs.iter().map(|(x, _)| (x - mean_x).powi(2)).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_lies_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(quantile(&[0.0, 10.0], 0.9), 9.0);
    }

    #[test]
    fn an_interval_holds_the_median_and_repeats_itself() {
        let samples: Vec<f64> = (0..40).map(|i| 1.0 + f64::from(i % 7) / 10.0).collect();
        let estimate = Estimate::of_median(&samples);
        assert!(estimate.interval[0] <= estimate.value && estimate.value <= estimate.interval[1]);
        assert_eq!(estimate, Estimate::of_median(&samples));
        assert_eq!(Estimate::of_median(&[2.0]).interval, [2.0, 2.0]);
    }

    #[test]
    fn a_ratio_of_equals_is_one() {
        let restarts: Vec<Vec<f64>> =
            (0..6).map(|r| vec![0.01 * f64::from(r - 3), 0.02, -0.02 + 0.005 * f64::from(r)]).collect();
        let estimate = ratio_over_restarts(&restarts);
        assert!(estimate.interval[0] < 1.0 && 1.0 < estimate.interval[1], "{estimate:?}");
        let twice: Vec<Vec<f64>> = (0..6).map(|r| vec![2f64.ln() + 0.001 * f64::from(r)]).collect();
        assert!(ratio_over_restarts(&twice).interval[0] > 1.9);
        assert_eq!(ratio_over_restarts(&twice[..1]).interval, [0.0, f64::INFINITY]);
    }

    #[test]
    fn growth_is_the_exponent() {
        let points: Vec<(f64, f64)> =
            [1.0, 2.0, 4.0, 8.0].iter().map(|&n| (n, 3.0 * f64::powf(n, 1.5))).collect();
        assert!((growth(&points) - 1.5).abs() < 1e-12);
    }
}
