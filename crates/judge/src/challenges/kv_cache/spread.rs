//! Errors of storage in few bits, taken together: a single one tells nothing.

use super::model::Attended;

/// They may be so many times as large as their standard deviation.
pub(super) const DEVIATIONS: f64 = 3.0;

/// Errors against their standard deviations, over many outputs. Rows count alike whatever the magnitude of their values: each is
/// taken in units of what storage of the values alone explains there.
#[derive(Debug, Default)]
pub(super) struct Spread {
    errors: f64,
    variances: f64,
}

impl Spread {
    pub(super) fn of(attended: &Attended, actual: &[f64]) -> Self {
        let mut spread = Self::default();
        for each in Self::of_each(attended, actual) {
            spread.add(&each);
        }
        spread
    }

    /// The output that adds most to the errors of a call.
    pub(super) fn worst(attended: &Attended, actual: &[f64]) -> usize {
        let errors = Self::of_each(attended, actual).map(|each| each.errors);
        errors.enumerate().max_by(|(_, a), (_, b)| a.abs().total_cmp(&b.abs())).map_or(0, |(index, _)| index)
    }

    fn of_each(attended: &Attended, actual: &[f64]) -> impl Iterator<Item = Self> {
        let dim = actual.len() / attended.own_variance.len().max(1);
        actual.iter().enumerate().map(move |(index, actual)| {
            // Where all values are zero, so must be what comes of them.
            let unit = attended.own_variance[index / dim].max(f64::MIN_POSITIVE);
            let error = (actual - attended.values[index]).abs() - attended.budget[index];
            Self {
                // So that a NaN counts.
                errors: if error <= 0.0 { 0.0 } else { error * error / unit },
                variances: attended.variance[index] / unit,
            }
        })
    }

    /// The share of what is allowed that one call used. It has few numbers, and may be off by twice as much as many calls.
    pub(super) fn of_call(attended: &Attended, actual: &[f64]) -> f64 {
        Self::of(attended, actual).used() / 2.0
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.errors += other.errors;
        self.variances += other.variances;
    }

    pub(super) fn used(&self) -> f64 {
        match self.errors {
            0.0 => 0.0,
            errors if errors.is_nan() => f64::INFINITY,
            errors => (errors / self.variances).sqrt() / DEVIATIONS,
        }
    }
}
