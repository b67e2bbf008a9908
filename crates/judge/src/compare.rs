//! Answers against an oracle, element by element.

use tribunal_contract::Tensor;

/// What a tensor should be, and how far off each element may be.
#[derive(Debug, Clone)]
pub struct Expected {
    /// The oracle's values, in float64 or better, rounded to it.
    pub values: Vec<f64>,
    /// The error budget of each element, in the same order; never negative.
    pub budget: Vec<f64>,
}

/// The result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// The largest error in units of its budget; infinite where a class (NaN, +inf, -inf, finite) differs.
    pub used: f64,
    /// Where.
    pub worst: usize,
    /// How many elements are over their budget.
    pub over: usize,
}

impl Comparison {
    /// Whether every element is within its budget.
    pub fn holds(&self) -> bool {
        self.over == 0
    }
}

/// Compares an answer with what was expected. Classes come first; the arithmetic is written so that a NaN fails.
///
/// Panics if the lengths differ: shapes are checked where the answer is read.
pub fn compare(actual: &Tensor, expected: &Expected) -> Comparison {
    assert_eq!(actual.len(), expected.values.len());
    let mut result = Comparison { used: 0.0, worst: 0, over: 0 };
    for (index, (actual, (&value, &budget))) in
        actual.to_f64().into_iter().zip(expected.values.iter().zip(&expected.budget)).enumerate()
    {
        let used = error_in_budgets(actual, value, budget);
        if !(used <= 1.0) {
            result.over += 1;
        }
        if !(used <= result.used) {
            result.used = if used.is_nan() { f64::INFINITY } else { used };
            result.worst = index;
        }
    }
    result
}

fn error_in_budgets(actual: f64, expected: f64, budget: f64) -> f64 {
    if expected.is_nan() || actual.is_nan() {
        return if expected.is_nan() && actual.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if expected.is_infinite() || actual.is_infinite() {
        return if expected == actual { 0.0 } else { f64::INFINITY };
    }
    let error = (actual - expected).abs();
    if error == 0.0 { 0.0 } else { error / budget }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tribunal_contract::DType;

    fn used(actual: f64, value: f64, budget: f64) -> f64 {
        let actual = Tensor::from_f64(DType::Float64, [1], &[actual]);
        compare(&actual, &Expected { values: vec![value], budget: vec![budget] }).used
    }

    #[test]
    fn errors_are_counted_in_budgets() {
        assert_eq!(used(1.5, 1.0, 1.0), 0.5);
        assert_eq!(used(-1.0, 1.0, 1.0), 2.0);
        assert_eq!(used(1.0, 1.0, 0.0), 0.0);
        assert_eq!(used(1.5, 1.0, 0.0), f64::INFINITY);
    }

    #[test]
    fn classes_come_before_arithmetic() {
        for (actual, expected) in [
            (f64::NAN, 1.0),
            (1.0, f64::NAN),
            (f64::INFINITY, 1.0),
            (1.0, f64::INFINITY),
            (f64::INFINITY, f64::NEG_INFINITY),
            (f64::INFINITY, f64::NAN),
        ] {
            assert_eq!(used(actual, expected, 1e300), f64::INFINITY, "{actual} for {expected}");
        }
        assert_eq!(used(f64::NAN, f64::NAN, 0.0), 0.0);
        assert_eq!(used(f64::NEG_INFINITY, f64::NEG_INFINITY, 0.0), 0.0);
    }

    #[test]
    fn the_worst_element_is_named_and_all_are_counted() {
        let actual = Tensor::from_f64(DType::Float32, [4], &[0.0, 2.0, f64::NAN, 5.0]);
        let expected = Expected { values: vec![0.0; 4], budget: vec![1.0; 4] };
        let comparison = compare(&actual, &expected);
        assert_eq!((comparison.over, comparison.worst), (3, 2));
        assert!(!comparison.holds());
    }
}
