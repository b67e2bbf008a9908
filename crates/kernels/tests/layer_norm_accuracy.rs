//! Where rounding accumulates: long rows, many rows, large offsets. In f32, every error at most twice the plain two-pass
//! form's, both from the f64 definition; and the figures that the documentation gives.

mod support;

use support::{EPS, data, farthest, oracle, plain, run_backward, run_forward, settings, wide};

/// Runs both passes, and returns (ours, plain) for `y`, `dx`, `dgamma` and `dbeta`, by the largest error over all settings.
fn errors(rows: usize, cols: usize, offset: f64) -> [(&'static str, f64, f64); 4] {
    let data = data::<f32>(rows, cols, offset, 1.0, 11);
    let (x, gamma, beta, dy) = (wide(&data.x), wide(&data.gamma), wide(&data.beta), wide(&data.dy));
    let expected = oracle::forward(cols, &x, &gamma, &beta, EPS);
    let [y, _, _] = plain::forward(cols, &data.x, &data.gamma, &data.beta, EPS);
    // The statistics of the definition, rounded once, for all.
    let mean: Vec<f32> = expected.mean.iter().map(|&mean| mean as f32).collect();
    let rstd: Vec<f32> = expected.rstd.iter().map(|&rstd| rstd as f32).collect();
    let back = oracle::backward(cols, &dy, &x, &wide(&mean), &wide(&rstd), &gamma);
    let [dx, dgamma, dbeta] = plain::backward(cols, &data.dy, &data.x, &mean, &rstd, &data.gamma);
    let distance = |got: &[f32], expected: &[f64]| farthest(&wide(got), expected).1;
    let mut errors = [
        ("y", 0.0, distance(&y, &expected.y)),
        ("dx", 0.0, distance(&dx, &back.dx)),
        ("dgamma", 0.0, distance(&dgamma, &back.dgamma)),
        ("dbeta", 0.0, distance(&dbeta, &back.dbeta)),
    ];
    for setting in settings() {
        let forward = run_forward(&data, setting).unwrap();
        let backward = run_backward(&data, &mean, &rstd, setting).unwrap();
        let got = [
            distance(&forward.y, &expected.y),
            distance(&backward.dx, &back.dx),
            distance(&backward.dgamma, &back.dgamma),
            distance(&backward.dbeta, &back.dbeta),
        ];
        for (error, got) in errors.iter_mut().zip(got) {
            error.1 = got.max(error.1);
        }
    }
    errors
}

fn assert_at_most_twice_the_plain_form(rows: usize, cols: usize, offset: f64) {
    for (what, ours, plain) in errors(rows, cols, offset) {
        println!("{rows} x {cols}, offset {offset:e}: {what} ours {ours:.2e}, plain {plain:.2e}");
        assert!(
            ours <= 2.0 * plain,
            "{what} at {rows} x {cols}, offset {offset:e}: {ours:e} against {plain:e}"
        );
    }
}

#[test]
fn long_rows_are_as_accurate_as_short_ones() {
    assert_at_most_twice_the_plain_form(1, 1 << 20, 0.0);
    assert_at_most_twice_the_plain_form(2, 300_007, 3.0);
}

#[test]
fn sums_over_many_rows_are_more_accurate_than_plain_ones() {
    for (what, ours, plain) in errors(40_000, 17, 0.0).into_iter().skip(2) {
        // Blocks of 128 rows in f32, then f64: the plain form adds 40 000 numbers in a row.
        assert!(ours <= plain / 2.0, "{what}: {ours:e} against {plain:e}");
    }
    assert_at_most_twice_the_plain_form(8192, 33, 0.0);
}

#[test]
fn large_offsets_cost_the_forward_pass_nothing() {
    for exponent in [2, 4, 6] {
        let [(_, ours, _), ..] = errors(4, 5000, 10.0_f64.powi(exponent));
        // The row is read exactly and its mean kept beyond f32, so an offset rounds nothing that zero would not.
        assert!(ours < 1e-6, "offset 1e{exponent}: {ours:e}");
        assert_at_most_twice_the_plain_form(4, 5000, 10.0_f64.powi(exponent));
    }
}
