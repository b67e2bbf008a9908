//! The one-pass variance loses all digits when the mean is large beside the deviation; the two-pass one does not.

#[path = "../examples/cancellation/figure.rs"]
mod figure;

use figure::{one_pass_f32, one_pass_f64, two_pass_f32, two_pass_f64, values_f32, values_f64};
use tribunal_kernels::Isa;
use tribunal_kernels::layer_norm::{ForwardInputs, ForwardOptions, ForwardOutputs, Shape, forward};

#[test]
fn one_pass_variance_in_f64_is_right_to_1e8_and_zero_from_1e9() {
    for exponent in 4..=14 {
        let expected = if exponent <= 8 { 2.0 } else { 0.0 };
        assert_eq!(one_pass_f64(&values_f64(exponent)), expected, "offset 1e{exponent}");
    }
}

#[test]
fn one_pass_variance_in_f32_is_right_to_1e3_then_zero_then_negative() {
    for exponent in 0..=7 {
        let expected = match exponent {
            0..=3 => 2.0,
            4..=6 => 0.0,
            _ => -8_388_608.0,
        };
        assert_eq!(one_pass_f32(&values_f32(exponent)), expected, "offset 1e{exponent}");
    }
}

#[test]
fn two_pass_variance_is_right_at_every_offset() {
    for exponent in 0..=14 {
        assert_eq!(two_pass_f64(&values_f64(exponent)), 2.0, "offset 1e{exponent}");
    }
    for exponent in 0..=7 {
        assert_eq!(two_pass_f32(&values_f32(exponent)), 2.0, "offset 1e{exponent}");
    }
}

#[test]
fn kernels_are_right_at_every_offset() {
    let shape = Shape { rows: 1, cols: 5 };
    // Rounded to the type of the statistics: what is asked for is every bit.
    let rstd_expected = 1.0 / (2.0_f64 + 1e-5).sqrt();
    for isa in Isa::available() {
        let options = ForwardOptions { isa: Some(isa), ..Default::default() };
        for exponent in 0..=14 {
            let (mut y, mut mean, mut rstd) = ([0.0_f64; 5], [0.0], [0.0]);
            let inputs = ForwardInputs { x: &values_f64(exponent), gamma: &[1.0; 5], beta: &[0.0; 5] };
            forward(shape, inputs, ForwardOutputs { y: &mut y, mean: &mut mean, rstd: &mut rstd }, &options)
                .unwrap();
            assert_eq!(rstd, [rstd_expected], "{isa}, f64, offset 1e{exponent}");
            assert_eq!(y[2], 0.0, "{isa}, f64, offset 1e{exponent}");
        }
        for exponent in 0..=7 {
            let (mut y, mut mean, mut rstd) = ([0.0_f32; 5], [0.0], [0.0]);
            let inputs = ForwardInputs { x: &values_f32(exponent), gamma: &[1.0; 5], beta: &[0.0; 5] };
            forward(shape, inputs, ForwardOutputs { y: &mut y, mean: &mut mean, rstd: &mut rstd }, &options)
                .unwrap();
            assert_eq!(rstd, [rstd_expected as f32], "{isa}, f32, offset 1e{exponent}");
            // The corrected mean is good to the last bit of the deviations, not only of the offset.
            assert!(y[2].abs() < 1e-6, "{isa}, f32, offset 1e{exponent}: {}", y[2]);
        }
    }
}

#[test]
fn committed_figure_is_what_the_code_draws() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/figures/cancellation.svg");
    let committed = std::fs::read_to_string(path).expect("the figure is in the tree");
    assert!(
        committed == figure::svg(),
        "{path} is stale; `cargo run -p tribunal-kernels --example cancellation` writes it anew"
    );
}
