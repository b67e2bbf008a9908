//! Checks a hand-derived gradient against finite differences, in f64.
//!
//! The function under test maps a vector to a vector, and the gradient is that of `cotangent · function(at)`: what
//! reverse mode computes, and what a backward pass returns. Differences are taken of the *outputs*, before they are
//! weighted and summed, so that outputs which do not depend on an entry drop out exactly.
//!
//! Each derivative is the central difference at three steps `h`, `h/2` and `h/4`, extrapolated twice (Richardson), which
//! leaves an error of order `h⁶` where the plain one has `h²`; so `h` may be large, and rounding small beside it.
//!
//! All work is done on copies: the caller's arrays are borrowed shared, and cannot change even if the function panics.
//!
//! For small problems check every entry. That costs six evaluations an entry, so for large ones check some entries and some
//! directions: a derivative along a random direction sees all entries at once, for the price of one.

/// What to check, and how closely.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CheckOptions {
    /// The largest step `h`, in the units of the argument.
    pub step: f64,
    /// Which entries are checked one by one.
    pub entries: Entries,
    /// How many derivatives along random directions of ±1 are checked.
    pub directions: usize,
    /// The largest error that passes; see [`Report`] for what is measured.
    pub tolerance: f64,
    /// Chooses entries and directions.
    pub seed: u64,
}

impl Default for CheckOptions {
    /// All entries and two directions at `h = 0.01`, to `5e-11`.
    fn default() -> CheckOptions {
        CheckOptions { step: 1e-2, entries: Entries::All, directions: 2, tolerance: 5e-11, seed: 0 }
    }
}

/// Which entries of a gradient are checked one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entries {
    /// Every one: right for hundreds.
    All,
    /// So many, chosen at random, with repetition.
    Sampled(usize),
}

/// How far the gradient is from the finite differences.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    /// `‖a - n‖ / (‖a‖ + ‖n‖)` over the checked entries `a` of the gradient and `n` of the differences; 0 if both are 0.
    pub entries_error: f64,
    /// The largest `|a·v - n| / (‖a‖ + |n|)` over the directions `v`; 0 if both are 0. A random `a·v` is about as large as
    /// `‖a‖`, but may come out small; so the norm is what it is measured by.
    pub directions_error: f64,
    /// How often the function was evaluated.
    pub evaluations: usize,
}

/// Why a gradient was not accepted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GradientError {
    /// The gradient has not as many entries as the argument.
    #[error("match a gradient of {got} entries with an argument of {expected}")]
    Length {
        /// Entries of the argument.
        expected: usize,
        /// Entries of the gradient.
        got: usize,
    },
    /// The entries differ from the differences by more than the tolerance, or one of them is not a number.
    #[error(
        "match the gradient's entries with finite differences: error {error:e} where {tolerance:e} is allowed; \
         worst at entry {index}: {analytic:e} against {numeric:e}"
    )]
    Entries {
        /// See [`Report::entries_error`].
        error: f64,
        /// The largest error allowed.
        tolerance: f64,
        /// The entry that differs most.
        index: usize,
        /// What the gradient says there.
        analytic: f64,
        /// What the differences say there.
        numeric: f64,
    },
    /// A derivative along a random direction differs by more than the tolerance, or is not a number.
    #[error("match the gradient along a direction: error {error:e} where {tolerance:e} is allowed")]
    Direction {
        /// See [`Report::directions_error`].
        error: f64,
        /// The largest error allowed.
        tolerance: f64,
    },
}

/// Compares `gradient` with finite differences of `cotangent · function` around `at`.
///
/// `function` writes its value at the first argument to the second, which has the length of `cotangent`.
///
/// # Errors
/// [`GradientError`] if the lengths disagree or a difference exceeds the tolerance. NaN anywhere is an error.
///
/// # Example
/// ```
/// use tribunal_kernels::gradient_check::{CheckOptions, check};
///
/// // cotangent · (x0 * x1, sin x0)
/// let function = |x: &[f64], y: &mut [f64]| y.copy_from_slice(&[x[0] * x[1], x[0].sin()]);
/// let gradient = [2.0 * 3.0 + 5.0 * 0.5_f64.cos(), 2.0 * 0.5];
/// let report = check(function, &[0.5, 3.0], &[2.0, 5.0], &gradient, &CheckOptions::default())?;
/// assert!(report.entries_error < 1e-13);
/// # Ok::<(), tribunal_kernels::gradient_check::GradientError>(())
/// ```
pub fn check(
    function: impl Fn(&[f64], &mut [f64]),
    at: &[f64],
    cotangent: &[f64],
    gradient: &[f64],
    options: &CheckOptions,
) -> Result<Report, GradientError> {
    if gradient.len() != at.len() {
        return Err(GradientError::Length { expected: at.len(), got: gradient.len() });
    }
    let mut random = SplitMix64(options.seed);
    let mut differences = Differences::new(function, at, cotangent, options.step);
    let entries_error = check_entries(&mut differences, gradient, options, &mut random)?;
    let directions_error = check_directions(&mut differences, gradient, options, &mut random)?;
    Ok(Report { entries_error, directions_error, evaluations: differences.evaluations })
}

fn check_entries(
    differences: &mut Differences<'_, impl Fn(&[f64], &mut [f64])>,
    gradient: &[f64],
    options: &CheckOptions,
    random: &mut SplitMix64,
) -> Result<f64, GradientError> {
    let len = gradient.len();
    let indices: Vec<usize> = match options.entries {
        Entries::All => (0..len).collect(),
        Entries::Sampled(n) if len > 0 => (0..n).map(|_| (random.next() % len as u64) as usize).collect(),
        Entries::Sampled(_) => Vec::new(),
    };
    let (mut distance, mut analytic_norm, mut numeric_norm) = (0.0, 0.0, 0.0);
    let mut worst = (0, 0.0, 0.0);
    for index in indices {
        let (analytic, numeric) = (gradient[index], differences.entry(index));
        distance += (analytic - numeric).powi(2);
        analytic_norm += analytic.powi(2);
        numeric_norm += numeric.powi(2);
        // By total order, NaN counts as worst.
        if (analytic - numeric).abs().total_cmp(&f64::abs(worst.1 - worst.2)).is_gt() {
            worst = (index, analytic, numeric);
        }
    }
    let error = relative(distance.sqrt(), analytic_norm.sqrt() + numeric_norm.sqrt());
    if error <= options.tolerance {
        return Ok(error);
    }
    let (index, analytic, numeric) = worst;
    Err(GradientError::Entries { error, tolerance: options.tolerance, index, analytic, numeric })
}

fn check_directions(
    differences: &mut Differences<'_, impl Fn(&[f64], &mut [f64])>,
    gradient: &[f64],
    options: &CheckOptions,
    random: &mut SplitMix64,
) -> Result<f64, GradientError> {
    let norm = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
    let mut worst = 0.0_f64;
    for _ in 0..options.directions {
        let direction: Vec<f64> =
            gradient.iter().map(|_| if random.next() & 1 == 0 { 1.0 } else { -1.0 }).collect();
        let analytic: f64 = gradient.iter().zip(&direction).map(|(g, v)| g * v).sum();
        let numeric = differences.direction(&direction);
        let error = relative((analytic - numeric).abs(), norm + numeric.abs());
        if error.is_nan() || error > options.tolerance {
            return Err(GradientError::Direction { error, tolerance: options.tolerance });
        }
        worst = worst.max(error);
    }
    Ok(worst)
}

/// `distance / scale`, where nothing by nothing is no error.
fn relative(distance: f64, scale: f64) -> f64 {
    if distance == 0.0 && scale == 0.0 { 0.0 } else { distance / scale }
}

/// Finite differences of a function around a point, with the copies they are taken on.
struct Differences<'a, F> {
    function: F,
    at: &'a [f64],
    cotangent: &'a [f64],
    step: f64,
    argument: Vec<f64>,
    above: Vec<f64>,
    below: Vec<f64>,
    evaluations: usize,
}

impl<'a, F: Fn(&[f64], &mut [f64])> Differences<'a, F> {
    fn new(function: F, at: &'a [f64], cotangent: &'a [f64], step: f64) -> Self {
        let (above, below) = (vec![0.0; cotangent.len()], vec![0.0; cotangent.len()]);
        Differences { function, at, cotangent, step, argument: at.to_vec(), above, below, evaluations: 0 }
    }

    /// The derivative along one axis.
    fn entry(&mut self, index: usize) -> f64 {
        let derivative = self.extrapolated(|at, argument, step| argument[index] = at[index] + step);
        self.argument[index] = self.at[index];
        derivative
    }

    /// The derivative along `direction`.
    fn direction(&mut self, direction: &[f64]) -> f64 {
        let derivative = self.extrapolated(|at, argument, step| {
            for ((argument, at), v) in argument.iter_mut().zip(at).zip(direction) {
                *argument = at + step * v;
            }
        });
        self.argument.copy_from_slice(self.at);
        derivative
    }

    /// Central differences at `h`, `h/2` and `h/4`, extrapolated to `h = 0`.
    fn extrapolated(&mut self, set: impl Fn(&[f64], &mut [f64], f64)) -> f64 {
        let [wide, middle, narrow] = [1.0, 0.5, 0.25].map(|scale| self.central(&set, self.step * scale));
        let (first, second) = ((4.0 * middle - wide) / 3.0, (4.0 * narrow - middle) / 3.0);
        (16.0 * second - first) / 15.0
    }

    fn central(&mut self, set: &impl Fn(&[f64], &mut [f64], f64), step: f64) -> f64 {
        set(self.at, &mut self.argument, step);
        (self.function)(&self.argument, &mut self.above);
        set(self.at, &mut self.argument, -step);
        (self.function)(&self.argument, &mut self.below);
        self.evaluations += 2;
        let outputs = self.above.iter().zip(&self.below).zip(self.cotangent);
        outputs.map(|((above, below), weight)| (above - below) * weight).sum::<f64>() / (2.0 * step)
    }
}

/// Steele, Lea, Flood 2014: small, and good enough to pick entries and signs.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cubes(x: &[f64], y: &mut [f64]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y = x.powi(3);
        }
    }

    #[test]
    fn right_gradient_passes_to_rounding() {
        let report =
            check(cubes, &[1.0, -2.0, 0.5], &[1.0, 2.0, 3.0], &[3.0, 24.0, 2.25], &CheckOptions::default());
        assert!(report.is_ok_and(|report| report.entries_error < 1e-13 && report.evaluations == 6 * 5));
    }

    #[test]
    fn wrong_entry_is_named() {
        let result = check(cubes, &[1.0, -2.0], &[1.0, 1.0], &[3.0, 12.001], &CheckOptions::default());
        assert!(matches!(result, Err(GradientError::Entries { index: 1, .. })), "{result:?}");
    }

    #[test]
    fn direction_alone_finds_a_wrong_entry() {
        let options = CheckOptions { entries: Entries::Sampled(0), ..CheckOptions::default() };
        let result = check(cubes, &[1.0, -2.0], &[1.0, 1.0], &[3.0, 12.001], &options);
        assert!(matches!(result, Err(GradientError::Direction { .. })), "{result:?}");
    }

    #[test]
    fn nan_is_an_error() {
        let result = check(cubes, &[1.0], &[1.0], &[f64::NAN], &CheckOptions::default());
        assert!(matches!(result, Err(GradientError::Entries { .. })), "{result:?}");
    }

    #[test]
    fn lengths_must_agree() {
        let result = check(cubes, &[1.0], &[1.0], &[3.0, 3.0], &CheckOptions::default());
        assert_eq!(result, Err(GradientError::Length { expected: 1, got: 2 }));
    }

    #[test]
    fn arguments_are_left_alone_by_a_panic() {
        let at = [1.0, 2.0];
        let result = std::panic::catch_unwind(|| {
            check(|_, _| panic!("interrupted"), &at, &[1.0], &[0.0, 0.0], &CheckOptions::default())
        });
        assert!(result.is_err());
        assert_eq!(at, [1.0, 2.0]);
    }
}
