//! What follows from the formula whatever the input.

mod support;

use proptest::prelude::*;
use support::{Data, EPS, data, farthest, largest, run_backward, run_forward, settings};
use tribunal_kernels::Isa;
use tribunal_kernels::gradient_check::{CheckOptions, Entries};
use tribunal_kernels::layer_norm::check::{CheckError, CheckInputs, check};
use tribunal_kernels::layer_norm::{ForwardOptions, Shape};

fn input() -> impl Strategy<Value = Data<f64>> {
    (1..6_usize, 1..200_usize, -100.0..100.0_f64, -2..3_i32, any::<u64>()).prop_map(
        |(rows, cols, offset, exponent, seed)| data(rows, cols, offset, 10.0_f64.powi(exponent), seed),
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Adding a constant to a row changes no output, so the gradient along that direction is zero.
    #[test]
    fn rows_of_dx_sum_to_zero(data in input()) {
        for setting in settings() {
            let out = run_forward(&data, setting).unwrap();
            let back = run_backward(&data, &out.mean, &out.rstd, setting).unwrap();
            for (r, dx) in back.dx.chunks(data.shape.cols).enumerate() {
                // What rounding leaves: some of each term, and what xhat's own sum is off zero by, as the mean is rounded.
                let terms = dx.len() as f64 * (out.rstd[r] + largest(dx)) * (1.0 + out.mean[r].abs() * out.rstd[r]);
                prop_assert!(dx.iter().sum::<f64>().abs() <= 8.0 * f64::EPSILON * terms, "{:?}, row {}", setting, r);
            }
        }
    }

    #[test]
    fn forward_is_invariant_under_a_shift(data in input(), shift in -1000.0..1000.0_f64) {
        let mut shifted = data.clone();
        shifted.x.iter_mut().for_each(|x| *x += shift);
        for setting in settings() {
            let (expected, got) = (run_forward(&data, setting).unwrap(), run_forward(&shifted, setting).unwrap());
            // The shifted inputs are themselves rounded to a part of their size.
            let rounded = f64::EPSILON * largest(&shifted.x).max(largest(&data.x)) * largest(&expected.rstd);
            let tolerance = 8.0 * rounded * (1.0 + largest(&expected.y)) + 8.0 * f64::EPSILON * largest(&expected.y);
            prop_assert!(farthest(&got.y, &expected.y).1 <= tolerance, "{:?}", setting);
        }
    }

    /// `sum(dx * xhat) = rstd * sum(g * xhat) * (1 - var * rstd²)`: the gradient along the row is what eps leaves of it.
    #[test]
    fn dx_along_xhat_is_what_eps_leaves(data in input()) {
        for setting in settings() {
            let out = run_forward(&data, setting).unwrap();
            let back = run_backward(&data, &out.mean, &out.rstd, setting).unwrap();
            for r in 0..data.shape.rows {
                let range = r * data.shape.cols..(r + 1) * data.shape.cols;
                let rstd = out.rstd[r];
                let xhat: Vec<f64> = data.x[range.clone()].iter().map(|x| (x - out.mean[r]) * rstd).collect();
                let g = data.dy[range.clone()].iter().zip(&data.gamma).map(|(dy, gamma)| dy * gamma);
                let along_g: f64 = g.zip(&xhat).map(|(g, xhat)| g * xhat).sum();
                let along_dx: f64 = back.dx[range].iter().zip(&xhat).map(|(dx, xhat)| dx * xhat).sum();
                let n = data.shape.cols as f64;
                let terms = n * rstd * (1.0 + out.mean[r].abs() * rstd);
                prop_assert!((along_dx - rstd * along_g * EPS * rstd * rstd).abs() <= 32.0 * f64::EPSILON * terms);
            }
        }
    }
}

fn inputs(data: &Data<f64>) -> CheckInputs<'_> {
    CheckInputs { x: &data.x, gamma: &data.gamma, beta: &data.beta, dy: &data.dy }
}

#[test]
fn gradients_match_finite_differences_in_every_entry() {
    // (4, 8, 16): the shape that others quote 5e-11 for.
    let data = data::<f64>(4 * 8, 16, 0.0, 1.5, 12);
    for isa in Isa::available() {
        let layer_norm = ForwardOptions { isa: Some(isa), ..Default::default() };
        let reports = check(data.shape, inputs(&data), &layer_norm, &CheckOptions::default()).unwrap();
        println!("{isa}: {reports:?}");
    }
}

#[test]
fn gradients_of_large_tensors_match_in_samples_and_along_directions() {
    let data = data::<f64>(2 * 128, 1024, 0.0, 1.5, 13);
    let options = CheckOptions { entries: Entries::Sampled(8), directions: 2, ..CheckOptions::default() };
    let start = std::time::Instant::now();
    let reports = check(data.shape, inputs(&data), &ForwardOptions::default(), &options).unwrap();
    println!("{reports:?} in {:?}", start.elapsed());
}

#[test]
fn check_finds_a_gradient_of_something_else() {
    let data = data::<f64>(3, 8, 0.0, 1.0, 14);
    // A step as wide as the data is no derivative, which must not pass for one.
    let options = CheckOptions { step: 2.0, ..CheckOptions::default() };
    let result = check(data.shape, inputs(&data), &ForwardOptions::default(), &options);
    assert!(matches!(result, Err(CheckError::Gradient { of: "dx", .. })), "{result:?}");
}

#[test]
fn check_refuses_what_the_passes_refuse() {
    let data = data::<f64>(3, 8, 0.0, 1.0, 15);
    let shape = Shape { rows: 4, cols: 8 };
    let result = check(shape, inputs(&data), &ForwardOptions::default(), &CheckOptions::default());
    assert!(matches!(result, Err(CheckError::LayerNorm(_))), "{result:?}");
}
