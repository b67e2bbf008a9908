//! What holds whatever the row.

mod support;

use proptest::prelude::*;
use support::softmax::{assert_answer, run_f32};
use tribunal_kernels::Isa;
use tribunal_kernels::softmax_topk::Options;

/// Rows of many kinds: few values or many, some masked, sorted in part.
fn row() -> impl Strategy<Value = Vec<f32>> {
    let value = prop_oneof![
        8 => -5.0..5.0_f32,
        2 => (-3..4_i32).prop_map(|i| i as f32),
        1 => Just(f32::NEG_INFINITY),
        1 => -1e4..1e4_f32,
    ];
    let part =
        (prop::collection::vec(value, 1..40), 1..80_usize, 0..3_u8).prop_map(|(values, times, order)| {
            let mut part = values.repeat(times);
            match order {
                0 => part.sort_by(f32::total_cmp),
                1 => part.sort_by(|a, b| b.total_cmp(a)),
                _ => {}
            }
            part
        });
    prop::collection::vec(part, 1..8).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn indices_are_exactly_those_of_the_largest(row in row(), k in 1..400_usize) {
        let k = k.min(row.len());
        for isa in Isa::available() {
            let got = run_f32(&row, k, &Options { isa: Some(isa), ..Options::default() }, row.len() % 5);
            assert_answer(&got, &row, k, 1.0, isa.name());
            let mut distinct = got.indices.clone();
            distinct.sort_unstable();
            distinct.dedup();
            prop_assert_eq!(distinct.len(), k);
        }
    }

    /// Adding a number that rounds nothing changes no probability but by rounding, and moves the logarithm of the sum.
    #[test]
    fn a_shift_moves_only_lse(quarters in prop::collection::vec(-64..64_i32, 1..3000), shift in -1000..1000_i32) {
        let row: Vec<f32> = quarters.iter().map(|&q| q as f32 / 4.0).collect();
        let shifted: Vec<f32> = quarters.iter().map(|&q| (q + shift * 4) as f32 / 4.0).collect();
        let k = row.len().min(20);
        for isa in Isa::available() {
            let options = Options { isa: Some(isa), ..Options::default() };
            let (a, b) = (run_f32(&row, k, &options, 0), run_f32(&shifted, k, &options, 0));
            prop_assert_eq!(&a.indices, &b.indices);
            let budget = 2.0 * support::softmax::budget(row.len());
            for (a, b) in a.probs.iter().zip(&b.probs) {
                prop_assert!(f64::from((a - b).abs()) <= budget * f64::from(*a));
            }
            let moved = f64::from(b.lse[0]) - f64::from(a.lse[0]) - f64::from(shift);
            prop_assert!(moved.abs() <= budget + 1e-6 * f64::from(shift.abs()).max(32.0));
        }
    }
}
