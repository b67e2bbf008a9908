//! Semantic parameters of a layer norm, and whether an error points along one.

use super::behaviours::{Behaviour, Gradient, Statistics, answer};
use super::problem::Problem;
use super::suspects::{Output, Wrong};
use crate::direction::{self, Finding, Projection, Residual};
use crate::lead::{Lead, shorten};
use crate::precision::Precision;

/// A parameter that has a right value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parameter {
    /// The logarithm of eps.
    Eps,
    /// k in var = Σ(x - mean)² / (D - k).
    Divisor,
    /// The weight of mean(g).
    Mean,
    /// The weight of xhat · mean(g · xhat).
    Projection,
    /// How much of gamma stands outside the means instead of inside.
    Gamma,
}

impl Parameter {
    fn of(output: Output) -> &'static [Self] {
        match output {
            Output::Y => &[Self::Eps, Self::Divisor],
            Output::Dx => &[Self::Eps, Self::Divisor, Self::Mean, Self::Projection, Self::Gamma],
            _ => &[],
        }
    }

    fn at(self, problem: &Problem, shift: f64) -> Behaviour {
        let n = problem.cols() as f64;
        let scaled = |var, eps| Behaviour::statistics("", Statistics::Scaled { var, eps }, "");
        let weights = |mean, projection| Behaviour::gradient("", Gradient::Weights { mean, projection }, "");
        match self {
            Self::Eps => scaled(1.0, problem.eps * (1.0 + shift)),
            Self::Divisor => scaled(n / (n - shift), problem.eps),
            Self::Mean => weights(1.0 + shift, 1.0),
            Self::Projection => weights(1.0, 1.0 + shift),
            Self::Gamma => Behaviour::gradient(
                "",
                if shift > 0.0 { Gradient::GammaOutside } else { Gradient::Right },
                "",
            ),
        }
    }

    /// The derivative of a result, by a difference; gamma's is the step from inside to outside.
    fn derivative(self, problem: &Problem, output: Output) -> Vec<f64> {
        let (up, down) = if self == Self::Gamma { (1.0, 0.0) } else { (1e-4, -1e-4) };
        let at = |shift| output.of_answers(&answer(problem, &self.at(problem, shift))).to_vec();
        at(up).iter().zip(at(down)).map(|(high, low)| (high - low) / (up - down)).collect()
    }

    fn suspect(self, shift: f64) -> Option<&'static str> {
        match self {
            Self::Eps if shift < -0.95 => Some("eps_dropped"),
            Self::Eps => (shift.abs() > 0.02).then_some("eps_ignored"),
            Self::Divisor => (0.7..1.3).contains(&shift).then_some("unbiased_variance"),
            Self::Mean | Self::Projection if shift.abs() < 1e-3 => None,
            Self::Mean => (shift < -0.95).then_some("mean_term_missing"),
            Self::Projection => Some("projection_term_scaled"),
            Self::Gamma => (shift > 0.9).then_some("gamma_outside_means"),
        }
    }

    fn says(self, problem: &Problem, shift: f64) -> String {
        match self {
            Self::Eps => {
                format!(
                    "eps seems to be {:.2e} where {:e} was given",
                    problem.eps * (1.0 + shift),
                    problem.eps
                )
            }
            Self::Divisor => format!("the variance seems to be divided by D - {}", shorten(shift)),
            Self::Mean => format!("mean(g) seems to have weight {:.4}; it should be 1", 1.0 + shift),
            Self::Projection => {
                format!("xhat · mean(g · xhat) seems to have weight {:.4}; it should be 1", 1.0 + shift)
            }
            Self::Gamma => format!("{} of gamma seems to stand outside the means", shorten(shift)),
        }
    }
}

/// Looks for the parameter that explains most of a residual, over many rows.
///
/// A systematic bias of rounding (a reciprocal root that is always half a unit low, outputs that are truncated) points
/// along such parameters too. Its effect is a unit roundoff or less, so nothing smaller than that is believed.
pub(super) fn strongest(wrong: Wrong<'_>) -> Option<Finding> {
    let actual = wrong.actual.to_f64();
    let (parameter, found) = best(wrong, &actual)?;
    let precision = Precision::of(wrong.problem.dtype());
    let least = (4.0 * precision.u).max(1.5 * precision.out);
    let says = parameter.says(wrong.problem, found.shift);
    let rows = format!("{} rows", wrong.problem.rows());
    Finding::new(found, least, parameter.suspect(found.shift), &says, &rows)
}

/// A shift of one parameter that leaves next to nothing of the error.
pub(super) fn explanation(wrong: Wrong<'_>, actual: &[f64]) -> Option<Lead> {
    let (parameter, found) = best(wrong, actual)?;
    // The weights enter dx linearly, the others nearly so.
    let linear = matches!(parameter, Parameter::Mean | Parameter::Projection | Parameter::Gamma);
    let enough = found.explained > if linear { 0.9999 } else { 0.98 } && found.shift.abs() < 0.3;
    let suspect = parameter.suspect(found.shift).filter(|_| enough)?;
    Some(Lead {
        suspect,
        says: format!(
            "{}, which explains {:.1} % of the error",
            parameter.says(wrong.problem, found.shift),
            100.0 * found.explained
        ),
    })
}

fn best(wrong: Wrong<'_>, actual: &[f64]) -> Option<(Parameter, Projection)> {
    let Wrong { problem, right, output, .. } = wrong;
    let expected = output.of_expectations(right);
    let error: Vec<f64> = actual.iter().zip(&expected.values).map(|(actual, value)| actual - value).collect();
    let residual =
        Residual { error: &error, values: &expected.values, budget: &expected.budget, group: problem.cols() };
    let derivatives =
        Parameter::of(output).iter().map(|&parameter| (parameter, parameter.derivative(problem, output)));
    direction::best(direction::projections(residual, derivatives))
}
