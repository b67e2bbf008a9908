//! What the tests of softmax and top-k share: the definition in f64, its error budget, and guarded calls.

use tribunal_kernels::Isa;
use tribunal_kernels::softmax_topk::{Logit, Options, Outputs, Shape, SoftmaxTopkError, softmax_topk};

use super::Guarded;

/// The answer for some rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer<F> {
    pub(crate) probs: Vec<F>,
    pub(crate) indices: Vec<u32>,
    pub(crate) lse: Vec<F>,
}

/// The bits of an answer, so that NaNs compare equal.
pub(crate) fn bits(answer: &Answer<f32>) -> (Vec<u32>, Vec<u32>, Vec<u32>) {
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect();
    (bits(&answer.probs), answer.indices.clone(), bits(&answer.lse))
}

/// The definition, for one row of logits to which the bias has been added.
pub(crate) fn oracle(row: &[f32], k: usize, temperature: f32) -> Answer<f64> {
    let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let wide = |x: f32| f64::from(x) / f64::from(temperature);
    if row.iter().any(|x| x.is_nan() || *x == f32::INFINITY) || max == f32::NEG_INFINITY {
        let lse = if max == f32::NEG_INFINITY && !row.iter().any(|x| x.is_nan()) {
            f64::NEG_INFINITY
        } else {
            f64::NAN
        };
        return Answer { probs: vec![f64::NAN; k], indices: (0..k as u32).collect(), lse: vec![lse] };
    }
    let mut order: Vec<u32> = (0..row.len() as u32).collect();
    // Stable, so the smaller index comes first; zero equals minus zero.
    order.sort_by(|&a, &b| row[b as usize].partial_cmp(&row[a as usize]).expect("no NaN"));
    order.truncate(k);
    // Smallest terms first, so that a sum of many small ones is not lost.
    let mut terms: Vec<f64> = row.iter().map(|&x| (wide(x) - wide(max)).exp()).collect();
    terms.sort_by(f64::total_cmp);
    let sum: f64 = terms.iter().sum();
    let prob = |&i: &u32| (wide(row[i as usize]) - wide(max)).exp() / sum;
    Answer { probs: order.iter().map(prob).collect(), indices: order, lse: vec![wide(max) + sum.ln()] }
}

/// How far a probability may be from the definition, relative to it.
///
/// With `u` the rounding of f32, half of its epsilon: a term of the sum is off by `6 u` (polynomial 2.4 u, its evaluation) and
/// by the rounding of its exponent, `ln(2) u` for each of the bits that it is below the largest; weighted by the terms, these
/// are at most `log2(vocab)` bits and the five by which the reference may be above. 64 terms are added to a lane in f32 and
/// five more times until there is one sum. The result is rounded once.
pub(crate) fn budget(vocab: usize) -> f64 {
    let u = f64::from(f32::EPSILON) / 2.0;
    (6.0 + 0.7 * ((vocab as f64).log2() + 5.0) + 69.0 + 1.0) * u
}

/// Below this a probability is no normal number of f32, and rounds by a fixed step.
const SMALLEST: f64 = f32::MIN_POSITIVE as f64;

/// Asserts that an answer is the oracle's: exactly the same indices, probabilities within the budget.
pub(crate) fn assert_answer(got: &Answer<f32>, row: &[f32], k: usize, temperature: f32, context: &str) {
    let expected = oracle(row, k, temperature);
    assert_eq!(got.indices, expected.indices, "{context}");
    let budget = budget(row.len());
    for (i, (&got, &expected)) in got.probs.iter().zip(&expected.probs).enumerate() {
        let close = (f64::from(got) - expected).abs() <= budget * expected.max(SMALLEST);
        assert!(
            close || got.is_nan() && expected.is_nan(),
            "probs[{i}]: {got:e}, not {expected:e}; {context}"
        );
    }
    assert!(got.probs.is_sorted_by(|a, b| a >= b || a.is_nan()), "{context}");
    let (got, expected) = (f64::from(got.lse[0]), expected.lse[0]);
    // The logarithm of a sum that is off by a part is off by that, and the result is rounded.
    let close = (got - expected).abs() <= budget + f64::from(f32::EPSILON) * expected.abs();
    assert!(
        close || got == f64::from(expected as f32) || got.is_nan() && expected.is_nan(),
        "lse: {got}, not {expected}; {context}"
    );
}

/// Calls the kernel with all buffers between guards, `misalign` elements past a cache line.
pub(crate) fn run<T: Logit + PartialEq>(
    shape: Shape,
    k: usize,
    logits: &[T],
    options: &Options<'_>,
    misalign: usize,
    guard: T,
) -> Result<Answer<f32>, SoftmaxTopkError> {
    let logits = Guarded::of(logits, misalign, guard);
    let mut probs = Guarded::new(shape.rows * k, misalign, -7.0_f32);
    let mut indices = Guarded::new(shape.rows * k, misalign, u32::MAX);
    let mut lse = Guarded::new(shape.rows, misalign, -7.0_f32);
    let outputs = Outputs { probs: probs.get_mut(), indices: indices.get_mut(), lse: Some(lse.get_mut()) };
    softmax_topk(shape, k, logits.get(), outputs, options)?;
    Ok(Answer { probs: probs.into_vec(), indices: indices.into_vec(), lse: lse.into_vec() })
}

/// Checks one row of f32 on every instruction set of this machine.
pub(crate) fn check(row: &[f32], k: usize, context: &str) {
    for isa in Isa::available() {
        let options = Options { isa: Some(isa), ..Options::default() };
        let got = run_f32(row, k, &options, row.len() % 3);
        assert_answer(&got, row, k, 1.0, &format!("{context}, vocab {}, k {k}, {isa}", row.len()));
    }
}

/// One row of f32, guarded by values larger than any logit: read as one, they would be among the largest.
pub(crate) fn run_f32(row: &[f32], k: usize, options: &Options<'_>, misalign: usize) -> Answer<f32> {
    run(Shape { rows: 1, vocab: row.len() }, k, row, options, misalign, 3e38).expect("lengths agree")
}
