//! What becomes of numbers that are kept in fewer bits.

use super::model::Flaw;

/// Numbers of one head of one token, as they were before they were stored, and how far off storage may put them.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) values: Vec<f64>,
    /// The variance of rounding to one of evenly spaced codes.
    pub(super) step_variance: f64,
    /// The relative rounding of a short float, or 0.
    relative: f64,
}

impl Stored {
    pub(super) fn zeros(dim: usize) -> Self {
        Self { values: vec![0.0; dim], step_variance: 0.0, relative: 0.0 }
    }

    /// Whether they are kept as they were.
    pub(super) fn is_exact(&self) -> bool {
        self.step_variance == 0.0 && self.relative == 0.0
    }

    /// The distance between the codes next to element `i`: for a short float, that of its magnitude.
    pub(super) fn step(&self, i: usize) -> f64 {
        (12.0 * self.step_variance).sqrt() + 2.0 * self.relative * self.values[i].abs()
    }

    /// The variance that rounding to a short float gives the sum of products with `q`.
    pub(super) fn relative_variance(&self, q: &[f64]) -> f64 {
        if self.relative == 0.0 {
            return 0.0;
        }
        self.relative.powi(2) / 3.0 * q.iter().zip(&self.values).map(|(q, x)| (q * x).powi(2)).sum::<f64>()
    }

    /// The variance of each element.
    pub(super) fn variances(&self, variances: &mut [f64]) {
        for (variance, value) in variances.iter_mut().zip(&self.values) {
            *variance = self.step_variance + (self.relative * value).powi(2) / 3.0;
        }
    }
}

/// Stores numbers in so many bits. With 8 and 4 the largest step is allowed that one scale for all of them needs, with codes on both
/// sides of zero: a 127th, or a 7th, of the largest magnitude; and a scale that is itself rounded to float16.
pub(super) fn store(values: &[f64], bits: usize, flaw: Option<Flaw>) -> Stored {
    let largest = values.iter().fold(0.0f64, |most, value| most.max(value.abs()));
    let step = match bits {
        8 => largest / 127.0,
        4 => largest / 7.0,
        _ => 0.0,
    };
    let relative = if bits == 32 { 0.0 } else { 2f64.powi(-11) };
    // Evenly spread over a step.
    let mut step_variance = step * step / 12.0;
    let values = match flaw {
        Some(Flaw::CodesWrap) if bits == 8 => {
            let (wrapped, doubt) = wrapped(values);
            step_variance += doubt;
            wrapped
        }
        Some(Flaw::NibblesSwapped) if bits == 4 => {
            values.chunks(2).flat_map(|pair| pair.iter().rev().copied()).collect()
        }
        _ => values.to_vec(),
    };
    Stored { values, step_variance, relative }
}

/// As unsigned codes of a range from the smallest to the largest, read as signed bytes; and the variance that comes of codes
/// which may or may not wrap, by how range and step were rounded.
fn wrapped(values: &[f64]) -> (Vec<f64>, f64) {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let step = (most - least) / 255.0;
    let above = |value: f64| (value - least) - 127.5 * step;
    let doubtful = values.iter().filter(|value| above(**value).abs() < 0.25 * step).count();
    let doubt = (128.0 * step).powi(2) * doubtful as f64 / values.len() as f64;
    (
        values.iter().map(|&value| if above(value) > 0.0 { value - 256.0 * step } else { value }).collect(),
        doubt,
    )
}
