//! What this machine can do at best: the rate at which one core moves memory.

use std::hint::black_box;
use std::time::Instant;

/// Rates of one core, bytes a second, counted as the program asks for them (a copy of n bytes moves 2n).
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Ceilings {
    /// Rates by working set.
    pub rates: Vec<Rate>,
}

/// The rates at one working set.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Rate {
    /// Bytes of all buffers together.
    pub working_set_bytes: usize,
    /// Reading only.
    pub read: f64,
    /// One read, one write.
    pub copy: f64,
    /// Two reads, one write.
    pub triad: f64,
}

impl Ceilings {
    /// Measures rates at working sets from a fast cache to main memory; about a second.
    pub fn measure(progress: &dyn Fn(usize)) -> Self {
        let rates = [1 << 20, 8 << 20, 64 << 20, 512 << 20]
            .into_iter()
            .map(|bytes| {
                progress(bytes);
                bandwidth(bytes, 0.15)
            })
            .collect();
        Self { rates }
    }
}

/// The best rates seen at a working set, within about `budget_s` seconds.
pub fn bandwidth(working_set_bytes: usize, budget_s: f64) -> Rate {
    let n = (working_set_bytes / 12).max(1024);
    let mut a = vec![1.0f32; n];
    let mut b = vec![2.0f32; n];
    let c = vec![3.0f32; n];
    let bytes = (4 * n) as f64;
    let read = best_rate(bytes, budget_s / 4.0, || {
        black_box(sum(black_box(&c)));
    });
    let copy = best_rate(2.0 * bytes, budget_s / 4.0, || {
        // The C library's copy picks streaming stores by size, as a good kernel would.
        b.copy_from_slice(black_box(&c));
        black_box(&mut b);
    });
    let triad = best_rate(3.0 * bytes, budget_s / 2.0, || {
        for ((a, b), c) in a.iter_mut().zip(black_box(&b)).zip(black_box(&c)) {
            *a = b + 3.0 * c;
        }
        black_box(&mut a);
    });
    Rate { working_set_bytes, read, copy, triad }
}

/// Sixteen accumulators wide, so that latency is hidden.
fn sum(values: &[f32]) -> f32 {
    let mut lanes = [0.0f32; 64];
    for chunk in values.chunks_exact(64) {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += value;
        }
    }
    lanes.iter().sum()
}

fn best_rate(bytes: f64, budget_s: f64, mut run: impl FnMut()) -> f64 {
    run();
    let start = Instant::now();
    let mut best = f64::INFINITY;
    let mut runs = 0;
    while runs < 3 || start.elapsed().as_secs_f64() < budget_s {
        let from = Instant::now();
        run();
        best = best.min(from.elapsed().as_secs_f64());
        runs += 1;
    }
    bytes / best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_positive_and_finite() {
        let rate = bandwidth(1 << 20, 0.01);
        for value in [rate.read, rate.copy, rate.triad] {
            assert!(value.is_finite() && value > 0.0);
        }
    }
}
