//! Both passes against the f64 definition: every instruction set of this machine, every element type, one corpus.

mod support;

use std::io::Write;

use support::plain::Real;
use support::{
    Data, EPS, Setting, acc, data, farthest, largest, oracle, plain, run_backward, run_forward, settings,
    wide,
};
use tribunal_kernels::layer_norm::{
    BackwardInputs, BackwardOptions, BackwardOutputs, ForwardInputs, ForwardOptions, ForwardOutputs,
    LayerNormError, Shape, backward, forward,
};
use tribunal_kernels::{Element, Isa, Stores, bf16};

/// How far `T` rounds at most, relative to the value: half of the last of 8, 24 or 53 bits.
fn rounding<T: Element>() -> f64 {
    match T::NAME {
        "bf16" => 1.0 / 256.0,
        "f32" => f64::from(f32::EPSILON) / 2.0,
        _ => f64::EPSILON / 2.0,
    }
}

/// Compares with the oracle. The tolerance is twice the error of the plain form; and, as that is sometimes right by luck, four
/// roundings in the arithmetic's type of the largest `term` (an output is a difference, two products and a sum, and where
/// terms cancel it is much smaller than they are), and one rounding to the type of the output.
fn assert_close<T: Element>(
    what: &str,
    context: &str,
    got: &[f64],
    expected: &[f64],
    plain: &[f64],
    term: f64,
) {
    let (_, plain_error) = farthest(plain, expected);
    let tolerance = 2.0 * plain_error + term + largest(expected) * rounding::<T>();
    let (index, error) = farthest(got, expected);
    // A NaN passes no comparison.
    assert!(
        error <= tolerance,
        "{what}[{index}]: expected {:e}, got {:e}, distance {error:e}, tolerance {tolerance:e}; {} {context}",
        expected[index],
        got[index],
        T::NAME,
    );
}

fn check_forward<T: Element<Acc: Real>>(data: &Data<T>, context: &str) {
    let cols = data.shape.cols;
    let (x, gamma, beta) = (wide(&data.x), wide(&data.gamma), wide(&data.beta));
    let expected = oracle::forward(cols, &x, &gamma, &beta, EPS);
    let narrow = |values: &[f64]| -> Vec<T::Acc> { values.iter().map(|&value| acc::<T>(value)).collect() };
    let plain = plain::forward(cols, &narrow(&x), &narrow(&gamma), &narrow(&beta), EPS).map(|v| widen(&v));
    for setting in settings() {
        let got = run_forward(data, setting).expect("the inputs are in order");
        let context = format!("{:?} {setting:?} {context}", data.shape);
        let roundings = 4.0 * <T::Acc as Real>::EPSILON / 2.0;
        let close = |what, got: &[f64], expected: &[f64], plain: &[f64]| {
            assert_close::<T>(what, &context, got, expected, plain, roundings * largest(expected));
        };
        close("y", &wide(&got.y), &expected.y, &plain[0]);
        close("mean", &widen(&got.mean), &expected.mean, &plain[1]);
        close("rstd", &widen(&got.rstd), &expected.rstd, &plain[2]);
    }
}

fn check_backward<T: Element<Acc: Real>>(data: &Data<T>, context: &str) {
    let cols = data.shape.cols;
    let (x, gamma, dy) = (wide(&data.x), wide(&data.gamma), wide(&data.dy));
    let saved = oracle::forward(cols, &x, &gamma, &gamma, EPS);
    let narrow = |values: &[f64]| -> Vec<T::Acc> { values.iter().map(|&value| acc::<T>(value)).collect() };
    // All sides get the statistics as they are saved, that is, rounded.
    let (mean, rstd) = (narrow(&saved.mean), narrow(&saved.rstd));
    let expected = oracle::backward(cols, &dy, &x, &widen(&mean), &widen(&rstd), &gamma);
    let plain =
        plain::backward(cols, &narrow(&dy), &narrow(&x), &mean, &rstd, &narrow(&gamma)).map(|v| widen(&v));
    for setting in settings() {
        let got = run_backward(data, &mean, &rstd, setting).expect("the inputs are in order");
        let context = format!("{:?} {setting:?} {context}", data.shape);
        let roundings = 4.0 * <T::Acc as Real>::EPSILON / 2.0;
        let close = |what, got: &[f64], expected: &[f64], plain: &[f64], term: f64| {
            assert_close::<T>(what, &context, got, expected, plain, roundings * term);
        };
        // What `dx` is a difference of: g, its mean, and xhat times a mean, all times rstd.
        let xhat = largest(&oracle::forward(cols, &x, &vec![1.0; cols], &vec![0.0; cols], EPS).y);
        let g = largest(&dy) * largest(&gamma);
        close("dx", &wide(&got.dx), &expected.dx, &plain[0], largest(&widen(&rstd)) * g * xhat.max(1.0));
        close(
            "dgamma",
            &wide(&got.dgamma),
            &expected.dgamma,
            &plain[1],
            largest(&expected.dgamma).max(largest(&dy) * xhat),
        );
        close(
            "dbeta",
            &wide(&got.dbeta),
            &expected.dbeta,
            &plain[2],
            largest(&expected.dbeta).max(largest(&dy)),
        );
    }
}

fn widen<R: Real>(values: &[R]) -> Vec<f64> {
    values.iter().map(|value| value.wide()).collect()
}

fn check_both(rows: usize, cols: usize, offset: f64, scale: f64) {
    fn one<T: Element<Acc: Real>>(rows: usize, cols: usize, offset: f64, scale: f64) {
        let data = data::<T>(rows, cols, offset, scale, (rows * 1_000_003 + cols) as u64);
        let context = format!("x = {offset:e} + {scale:e} u");
        check_forward(&data, &context);
        check_backward(&data, &context);
    }
    one::<f32>(rows, cols, offset, scale);
    one::<f64>(rows, cols, offset, scale);
    one::<bf16>(rows, cols, offset, scale);
}

#[test]
fn instruction_sets_of_this_machine_are_named() {
    let (run, skipped): (Vec<Isa>, Vec<Isa>) = Isa::ALL.into_iter().partition(|isa| isa.is_available());
    // Written past the test runner's capture, so that a skip is seen.
    let names = |isas: &[Isa]| isas.iter().map(|isa| isa.name()).collect::<Vec<_>>().join(", ");
    let line = format!(
        "layer_norm: {} instruction sets tested ({}), {} skipped because this CPU lacks them ({})\n",
        run.len(),
        names(&run),
        skipped.len(),
        names(&skipped)
    );
    std::io::stderr().write_all(line.as_bytes()).expect("a writable stderr");
    assert!(run.contains(&Isa::Portable));
}

#[test]
fn matches_oracle_at_every_width_around_lanes_and_unrolling() {
    for cols in [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 79, 80, 81, 127, 128, 129, 251] {
        check_both(3, cols, 0.5, 1.0);
    }
}

#[test]
fn matches_oracle_at_widths_around_column_tiles_and_row_groups() {
    for cols in [1021, 2047, 2048, 2049, 2063, 2064, 2065, 2048 + 64, 4095, 4096, 4097] {
        check_both(5, cols, -0.25, 2.0);
    }
    check_both(2, 32769, 0.0, 1.0);
}

#[test]
fn matches_oracle_at_every_count_of_rows_around_groups_and_blocks() {
    for rows in [0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 63, 64, 65, 127, 129, 521, 1025] {
        check_both(rows, 19, 0.5, 1.0);
    }
}

#[test]
fn matches_oracle_where_threads_share_the_work() {
    check_both(1103, 67, 0.5, 1.0);
}

#[test]
fn matches_oracle_at_magnitudes_from_1e_minus_3_to_1e6() {
    for exponent in -3..=6 {
        check_both(4, 37, 0.0, 10.0_f64.powi(exponent));
    }
}

#[test]
fn matches_oracle_at_offsets() {
    for exponent in 1..=8 {
        check_both(4, 100, 10.0_f64.powi(exponent), 1.0);
    }
}

#[test]
fn single_column_gives_beta_and_no_gradient() {
    fn one<T: Element>() {
        let data = data::<T>(37, 1, 1e3, 100.0, 5);
        for setting in settings() {
            let out = run_forward(&data, setting).unwrap();
            assert!(out.y.iter().all(|y| *y == data.beta[0]), "{setting:?}");
            let back = run_backward(&data, &out.mean, &out.rstd, setting).unwrap();
            assert!(back.dx.iter().all(|dx| dx.to_f64() == 0.0), "{setting:?}");
            assert_eq!(back.dgamma[0].to_f64(), 0.0, "{setting:?}");
        }
    }
    one::<f32>();
    one::<f64>();
    one::<bf16>();
}

#[test]
fn constant_rows_give_beta_and_amplified_but_finite_gradients() {
    for value in [0.0, 1.0, -3.5, 1e6] {
        let mut data = data::<f32>(6, 200, 0.0, 1.0, 6);
        data.x.fill(value);
        check_backward(&data, "constant rows");
        for setting in settings() {
            let out = run_forward(&data, setting).unwrap();
            // Such values sum without rounding.
            assert_eq!(out.y, data.beta.repeat(6), "{setting:?}, rows of {value}");
            assert!(out.rstd.iter().all(|&rstd| rstd == (1.0 / EPS.sqrt()) as f32), "{setting:?}");
            let back = run_backward(&data, &out.mean, &out.rstd, setting).unwrap();
            assert!(back.dgamma.iter().all(|&dgamma| dgamma == 0.0), "{setting:?}");
            assert!(back.dx.iter().all(|dx| dx.is_finite()), "{setting:?}");
        }
    }
}

#[test]
fn no_rows_leave_no_gradient() {
    let data = data::<f32>(0, 50, 0.0, 1.0, 7);
    for setting in settings() {
        assert!(run_forward(&data, setting).unwrap().y.is_empty());
        let back = run_backward(&data, &[], &[], setting).unwrap();
        assert_eq!((back.dgamma, back.dbeta), (vec![0.0; 50], vec![0.0; 50]));
    }
}

#[test]
fn nan_and_infinity_stay_in_their_row() {
    for poison in [f32::NAN, f32::INFINITY] {
        let clean = data::<f32>(9, 83, 0.0, 1.0, 8);
        for (row, setting) in (0..9).flat_map(|row| settings().into_iter().map(move |setting| (row, setting)))
        {
            let mut data = clean.clone();
            data.x[row * 83 + 41] = poison;
            let (expected, got) =
                (run_forward(&clean, setting).unwrap(), run_forward(&data, setting).unwrap());
            let back_expected = run_backward(&clean, &expected.mean, &expected.rstd, setting).unwrap();
            let back = run_backward(&data, &got.mean, &got.rstd, setting).unwrap();
            for r in 0..9 {
                let range = r * 83..(r + 1) * 83;
                if r == row {
                    assert!(got.y[range.clone()].iter().all(|y| y.is_nan()), "{setting:?}, row {row}");
                    assert!(back.dx[range].iter().all(|dx| dx.is_nan()), "{setting:?}, row {row}");
                } else {
                    assert_eq!(got.y[range.clone()], expected.y[range.clone()], "{setting:?}, row {row}");
                    assert_eq!(back.dx[range.clone()], back_expected.dx[range], "{setting:?}, row {row}");
                }
            }
        }
    }
}

#[test]
fn results_do_not_depend_on_threads_stores_or_alignment() {
    fn one<T: Element>(rows: usize, cols: usize) {
        let data = data::<T>(rows, cols, 0.5, 1.0, 9);
        for isa in Isa::available() {
            let run = |threads, stores, misalign| {
                let setting = Setting { isa, stores, misalign };
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
                pool.install(|| {
                    let out = run_forward(&data, setting).unwrap();
                    let back = run_backward(&data, &out.mean, &out.rstd, setting).unwrap();
                    (out, back)
                })
            };
            let expected = run(1, Stores::Cached, 0);
            for (threads, stores, misalign) in
                [(2, Stores::Cached, 0), (5, Stores::Streaming, 1), (3, Stores::Auto, 7)]
            {
                assert_eq!(run(threads, stores, misalign), expected, "{isa}, {threads} threads, {stores:?}");
            }
        }
    }
    one::<f32>(2501, 67);
    one::<bf16>(1201, 129);
    one::<f64>(130, 2100);
}

#[test]
fn row_does_not_depend_on_where_it_stands() {
    let data = data::<f32>(13, 2100, 0.5, 1.0, 10);
    for setting in settings() {
        let out = run_forward(&data, setting).unwrap();
        let back = run_backward(&data, &out.mean, &out.rstd, setting).unwrap();
        for r in 0..13 {
            let range = r * 2100..(r + 1) * 2100;
            let alone = Data {
                shape: Shape { rows: 1, cols: 2100 },
                x: data.x[range.clone()].to_vec(),
                dy: data.dy[range.clone()].to_vec(),
                ..data.clone()
            };
            let out_alone = run_forward(&alone, setting).unwrap();
            let back_alone = run_backward(&alone, &out_alone.mean, &out_alone.rstd, setting).unwrap();
            assert_eq!(out_alone.y, out.y[range.clone()], "{setting:?}, row {r}");
            assert_eq!(back_alone.dx, back.dx[range], "{setting:?}, row {r}");
        }
    }
}

#[test]
fn refusals_leave_buffers_untouched() {
    let shape = Shape { rows: 2, cols: 3 };
    let (x, gamma, beta) = ([1.0_f32; 6], [1.0_f32; 3], [1.0_f32; 3]);
    let run =
        |shape, x: &[f32], gamma: &[f32], beta: &[f32], lengths: [usize; 3], options: ForwardOptions| {
            let (mut y, mut mean, mut rstd) =
                (vec![9.0_f32; lengths[0]], vec![9.0_f32; lengths[1]], vec![9.0_f32; lengths[2]]);
            let outputs = ForwardOutputs { y: &mut y, mean: &mut mean, rstd: &mut rstd };
            let result = forward(shape, ForwardInputs { x, gamma, beta }, outputs, &options);
            assert!(
                y.iter().chain(&mean).chain(&rstd).all(|&value| value == 9.0),
                "written to despite {result:?}"
            );
            result.unwrap_err()
        };
    let options = ForwardOptions::default();
    let length = |buffer, expected, got| LayerNormError::Length { buffer, expected, got };
    assert_eq!(run(shape, &x[1..], &gamma, &beta, [6, 2, 2], options), length("x", 6, 5));
    assert_eq!(run(shape, &x, &gamma[1..], &beta, [6, 2, 2], options), length("gamma", 3, 2));
    assert_eq!(run(shape, &x, &gamma, &beta[1..], [6, 2, 2], options), length("beta", 3, 2));
    assert_eq!(run(shape, &x, &gamma, &beta, [7, 2, 2], options), length("y", 6, 7));
    assert_eq!(run(shape, &x, &gamma, &beta, [6, 1, 2], options), length("mean", 2, 1));
    assert_eq!(run(shape, &x, &gamma, &beta, [6, 2, 3], options), length("rstd", 2, 3));
    let none = Shape { rows: 2, cols: 0 };
    assert_eq!(run(none, &[], &[], &[], [0, 2, 2], options), LayerNormError::NoColumns);
    let large = Shape { rows: usize::MAX, cols: 3 };
    assert_eq!(run(large, &x, &gamma, &beta, [6, 2, 2], options), LayerNormError::TooLarge(large));
    let negative = ForwardOptions { eps: -1.0, ..options };
    assert_eq!(run(shape, &x, &gamma, &beta, [6, 2, 2], negative), LayerNormError::Eps(-1.0));
    if let Some(isa) = Isa::ALL.into_iter().find(|isa| !isa.is_available()) {
        let lacking = ForwardOptions { isa: Some(isa), ..options };
        assert_eq!(run(shape, &x, &gamma, &beta, [6, 2, 2], lacking), LayerNormError::Unavailable(isa));
    }

    let run = |lengths: [usize; 8]| {
        let inputs: Vec<Vec<f32>> = lengths[..5].iter().map(|&n| vec![1.0; n]).collect();
        let mut outputs: Vec<Vec<f32>> = lengths[5..].iter().map(|&n| vec![9.0; n]).collect();
        let [dx, dgamma, dbeta] = &mut outputs[..] else { unreachable!("three lengths") };
        let result = backward(
            shape,
            BackwardInputs {
                dy: &inputs[0],
                x: &inputs[1],
                mean: &inputs[2],
                rstd: &inputs[3],
                gamma: &inputs[4],
            },
            BackwardOutputs { dx, dgamma, dbeta },
            &BackwardOptions::default(),
        );
        (result, outputs.concat().iter().all(|&value| value == 9.0))
    };
    let right = [6, 6, 2, 2, 3, 6, 3, 3];
    assert_eq!(run(right), (Ok(()), false));
    for (i, buffer) in ["dy", "x", "mean", "rstd", "gamma", "dx", "dgamma", "dbeta"].into_iter().enumerate() {
        let mut lengths = right;
        lengths[i] += 1;
        assert_eq!(run(lengths), (Err(length(buffer, right[i], right[i] + 1)), true));
    }
}

/// The oracle itself, by a row worked by hand: {1, 3}, mean 2, variance 1, and eps 0.
#[test]
fn oracle_agrees_with_a_row_worked_by_hand() {
    let out = oracle::forward(2, &[1.0, 3.0], &[2.0, 4.0], &[0.5, -0.5], 0.0);
    assert_eq!((out.mean, out.rstd, out.y), (vec![2.0], vec![1.0], vec![-1.5, 3.5]));
    // g = {2, 0}; mean of g 1; mean of g * xhat -1; dx = {2 - 1 - 1, 0 - 1 + 1}.
    let back = oracle::backward(2, &[1.0, 0.0], &[1.0, 3.0], &[2.0], &[1.0], &[2.0, 4.0]);
    assert_eq!((back.dx, back.dgamma, back.dbeta), (vec![0.0, 0.0], vec![-1.0, 0.0], vec![1.0, 0.0]));
}
