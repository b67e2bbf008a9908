//! The definition, slow and obvious, and the error budget that follows from it.
//!
//! # The budget
//!
//! It is relative to each probability `p = exp(x - lse)`, with `lse = m + log(sum(exp(x - m)))` and `m` the largest logit, and
//! made for an algorithm in float32 that sums in any order, in one pass or two. With `u` the unit roundoff of float32, `V`
//! the length of the row and `s(V) = 2 √V u` the error of a sum (see [`Precision::sum`]):
//!
//! - the exponent: `x - m` is rounded, which moves `exp` by `|x - m| u`; in the form `exp(x - lse)` it is `lse` that is
//!   rounded, and `x - lse`: `(|x - lse| + 2 |lse|) u`, twice for the one rounding that alone can reach its bound. The larger of
//!   both is admitted, as it is what perturbing the logits by a rounding or two each does. The terms of the sum have the same error, each by its weight: `Σ p |x - m| u`;
//! - `exp` itself, the division, and their roundings: `8u`;
//! - the sum: `s(V)`, and `min(V, 1024) u / 2` more, so that running sums over stretches of 1024 are admitted even where all
//!   their roundings go the same way, as they may among few different values. One running sum over a whole vocabulary is not;
//! - the online form multiplies its sum by `exp(m_old - m_new)` whenever the maximum grows: `4u` for each of the `R` times, with
//!   signs that have nothing to do with each other: `2 √R 4u`. `R` is counted, in the direction in which it is larger;
//! - the result is rounded to float32, twice over: `2u`.
//!
//! And two smallest normal float32, absolutely, because flushing subnormal numbers to zero is not held against anybody.
//!
//! An index is judged by the logit that it names, never by where it stands: at rank `r` any entry will do whose probability is
//! that of rank `r`, to `2 (|x - lse| + 8) u` for each of both. That is how far two logits may be apart so that an honest
//! float32 softmax cannot tell which of them is more probable.

use tribunal_contract::DType;

use super::problem::Problem;
use crate::compare::Expected;
use crate::precision::Precision;

/// The smallest normal float32.
pub(super) const TINY: f64 = f32::MIN_POSITIVE as f64;

/// The arithmetic that the contract asks for.
fn float32() -> Precision {
    Precision::all(DType::Float32)
}

/// What a row has for a softmax.
#[derive(Debug, Clone)]
pub(super) enum Row {
    /// The usual.
    Winners(Winners),
    /// Nothing, because of a NaN.
    Nan,
    /// Nothing, because every logit is -inf.
    Masked,
}

/// The winners of a row.
#[derive(Debug, Clone)]
pub(super) struct Winners {
    /// The largest logit.
    pub(super) max: f64,
    /// The logarithm of the sum of exponentials.
    pub(super) lse: f64,
    /// The k largest logits, in descending order.
    pub(super) logits: Vec<f64>,
    /// The relative error that every probability of the row may have in common.
    common: f64,
}

impl Winners {
    /// The probability of a logit of the row.
    pub(super) fn prob(&self, logit: f64) -> f64 {
        (logit - self.lse).exp()
    }

    /// What the probabilities should be.
    pub(super) fn expected(&self) -> Expected {
        let values: Vec<f64> = self.logits.iter().map(|&logit| self.prob(logit)).collect();
        let budget = self.logits.iter().map(|&logit| self.budget(logit)).collect();
        Expected { values, budget }
    }

    /// How far off the probability of a logit may be.
    pub(super) fn budget(&self, logit: f64) -> f64 {
        let prob = self.prob(logit);
        2.0 * TINY + if prob == 0.0 { 0.0 } else { self.relative(logit) * prob }
    }

    /// The same relative to the probability.
    pub(super) fn relative(&self, logit: f64) -> f64 {
        let u = float32().u;
        let exponent = (logit - self.max).abs().max((logit - self.lse).abs() + 2.0 * self.lse.abs());
        self.common + (exponent + 10.0) * u
    }

    /// How far the named logit is from being one of that rank, in budgets.
    pub(super) fn misplacement(&self, rank: usize, named: f64) -> f64 {
        let due = self.logits[rank];
        if named == due {
            return 0.0;
        }
        let apart = (self.prob(named) - self.prob(due)).abs();
        let slack = |logit: f64| 2.0 * ((logit - self.lse).abs() + 8.0) * float32().u * self.prob(logit);
        let slack = [named, due].into_iter().filter(|logit| logit.is_finite()).map(slack).sum::<f64>() + TINY;
        if apart == 0.0 { 0.0 } else { apart / slack }
    }
}

/// What every row should give.
pub(super) fn expect(problem: &Problem) -> Vec<Row> {
    (0..problem.rows()).map(|row| expect_row(problem.row(row), problem.k.min(problem.vocab()))).collect()
}

/// What one row should give.
pub(super) fn expect_row(row: &[f64], k: usize) -> Row {
    // Without a way out on the way, several at once.
    if row.iter().fold(false, |found, logit| found | logit.is_nan()) {
        return Row::Nan;
    }
    let (growths, max) = records(row.iter());
    if max == f64::NEG_INFINITY {
        return Row::Masked;
    }
    let (mut sum, mut weighed) = (0.0, 0.0);
    for logit in row {
        let term = (logit - max).exp();
        sum += term;
        if logit.is_finite() {
            weighed += term * (logit - max).abs();
        }
    }
    let precision = float32();
    let growths = growths.max(records(row.iter().rev()).0);
    let stretch = 0.5 * row.len().min(1024) as f64 * precision.u;
    let common =
        precision.sum(row.len()) + stretch + 4.0 * precision.sum(growths) + weighed / sum * precision.u;
    Row::Winners(Winners { max, lse: max + sum.ln(), logits: largest(row.iter().copied(), k), common })
}

/// How often the maximum grows along the way, and what it is in the end.
fn records<'a>(row: impl Iterator<Item = &'a f64>) -> (usize, f64) {
    let (mut count, mut max) = (0, f64::NEG_INFINITY);
    for &logit in row {
        // Seldom, so that it is foreseen.
        if logit > max {
            (count, max) = (count + 1, logit);
        }
    }
    (count, max)
}

/// The k largest values in descending order; fewer where there are fewer.
pub(super) fn largest(values: impl Iterator<Item = f64>, k: usize) -> Vec<f64> {
    let mut largest = Vec::new();
    if k == 0 {
        return largest;
    }
    let descending = |a: &f64, b: &f64| b.total_cmp(a);
    // The k-th of those seen when there were last too many: most of a long row are no larger.
    let mut least: Option<f64> = None;
    for value in values {
        if least.is_some_and(|least| value.total_cmp(&least).is_le()) {
            continue;
        }
        largest.push(value);
        if largest.len() == 2 * k + 64 {
            least = Some(*largest.select_nth_unstable_by(k - 1, descending).1);
            largest.truncate(k);
        }
    }
    largest.sort_unstable_by(descending);
    largest.truncate(k);
    largest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Ties, infinities, NaNs and zeros of both signs come where a whole sort puts them, to the bit.
        #[test]
        fn the_largest_are_the_first_of_all_sorted(
            values in prop::collection::vec(
                prop_oneof![any::<f64>(), (-3i8..3).prop_map(f64::from), Just(-0.0), Just(f64::NEG_INFINITY)],
                0..600,
            ),
            k in 0..150usize,
        ) {
            let mut sorted = values.clone();
            sorted.sort_by(|a, b| b.total_cmp(a));
            sorted.truncate(k);
            let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&largest(values.into_iter(), k)), bits(&sorted));
        }
    }

    fn winners(row: &[f64], k: usize) -> Winners {
        match expect_row(row, k) {
            Row::Winners(winners) => winners,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_row_worked_by_hand() {
        // Weights 1, 2, 4, 1 of 8.
        let ln2 = std::f64::consts::LN_2;
        let right = winners(&[0.0, ln2, 2.0 * ln2, 0.0], 3);
        for (value, due) in right.expected().values.iter().zip([0.5, 0.25, 0.125]) {
            assert!((value - due).abs() < 1e-15, "{value} {due}");
        }
        assert_eq!(right.logits, [2.0 * ln2, ln2, 0.0]);
        assert!((right.lse - 3.0 * ln2).abs() < 1e-15);
    }

    #[test]
    fn a_constant_added_changes_no_probability_and_none_overflows() {
        let row = [1.5, -0.25, 3.0, 0.0];
        let near = winners(&row, 4).expected().values;
        for offset in [1e4, -1e4, 1e6] {
            let far = winners(&row.map(|logit| logit + offset), 4).expected().values;
            for (near, far) in near.iter().zip(far) {
                assert!((near - far).abs() < 1e-9, "{near} {far}");
            }
        }
    }

    #[test]
    fn masked_entries_have_no_probability_and_rows_without_a_softmax_are_told_apart() {
        let right = winners(&[f64::NEG_INFINITY, 2.0, f64::NEG_INFINITY], 3);
        assert_eq!(right.expected().values, [1.0, 0.0, 0.0]);
        assert_eq!(right.expected().budget[1], 2.0 * TINY);
        assert!(matches!(expect_row(&[f64::NEG_INFINITY; 3], 1), Row::Masked));
        assert!(matches!(expect_row(&[1.0, f64::NAN], 1), Row::Nan));
    }

    #[test]
    fn an_index_may_name_a_tie_and_nothing_else() {
        let next = f64::from(1.0f32.next_down());
        let right = winners(&[1.0, next, 0.99, -200.0, -300.0], 4);
        assert_eq!(right.misplacement(0, 1.0), 0.0);
        assert!(right.misplacement(0, next) < 0.1, "no float32 softmax can tell these apart");
        assert!(right.misplacement(0, 0.99) > 1e3);
        assert!(right.misplacement(3, -300.0) < 1.0, "both have probability 0 in float32");
        assert!(right.misplacement(2, f64::NEG_INFINITY) > 1e3);
    }

    #[test]
    fn rising_maxima_have_a_larger_budget_than_falling_ones_only_by_the_direction() {
        let rising: Vec<f64> = (0..100).map(f64::from).collect();
        let falling: Vec<f64> = rising.iter().rev().copied().collect();
        assert_eq!(winners(&rising, 1).common, winners(&falling, 1).common);
        assert_eq!(records(rising.iter()), (100, rising[99]));
        assert_eq!(records(falling.iter()), (1, falling[0]));
    }
}
