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
    let least = believable(wrong.problem);
    let says = parameter.says(wrong.problem, found.shift);
    let rows = format!("{} rows", wrong.problem.rows());
    Finding::new(found, least, parameter.suspect(found.shift), &says, &rows)
}

/// The effect beyond which a parameter is believed to be off.
fn believable(problem: &Problem) -> f64 {
    let precision = Precision::of(problem.dtype());
    (4.0 * precision.u).max(1.5 * precision.out)
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

#[cfg(test)]
mod tests {
    use super::super::variants;
    use super::super::{cases, oracle::expect};
    use super::*;
    use crate::compare::compare;
    use crate::direction::DECISIVE;
    use crate::variant::Variant;
    use crate::{Case, Court, Outcome, Seed};
    use tribunal_contract::Tensor;

    const CASES: [&str; 2] =
        ["adversarial/directions/256x64/float32", "adversarial/directions/128x64/float64"];

    fn problem(id: &str, variant: &Variant, seed: u64) -> Problem {
        let mut subject = variant.stand();
        let court = Court::new(subject.as_mut(), Seed(Seed::PUBLIC.0 + seed));
        cases::parse(id).expect("a case").problem(&court, 0)
    }

    #[test]
    fn honest_layer_norms_point_nowhere() {
        for variant in variants::all().honest {
            for (seed, id) in (1..).zip(CASES) {
                let case = cases::parse(id).expect("a case");
                let mut subject = variant.stand();
                let mut court = Court::new(subject.as_mut(), Seed(Seed::PUBLIC.0 + seed));
                for seen in case.examine(&mut court).expect("no machine is involved") {
                    let told = (seen.outcome, seen.message.as_str());
                    assert_eq!(told, (Outcome::Pass, ""), "{}, {id}", variant.name);
                }
            }
        }
    }

    /// What a variant answers.
    fn results(problem: &Problem, variant: &Variant) -> [(Output, Tensor); 2] {
        let mut subject = variant.stand();
        let mut court = Court::new(subject.as_mut(), Seed::PUBLIC);
        let cache = court.new_state();
        let y = court.call(&problem.forward(cache)).expect("an answer").outputs.remove(0);
        let dx = court.call(&problem.backward(&problem.dy, cache)).expect("an answer").outputs.remove(0);
        [(Output::Y, y), (Output::Dx, dx)]
    }

    /// What a shift of one parameter, the results rounded, is taken for, and the largest error in budgets.
    fn shifted(
        problem: &Problem,
        output: Output,
        parameter: Parameter,
        shift: f64,
    ) -> Option<(Parameter, Projection, f64)> {
        let right = expect(problem);
        let expected = output.of_expectations(&right);
        let slopes = parameter.derivative(problem, output);
        let values: Vec<f64> =
            expected.values.iter().zip(slopes).map(|(value, slope)| value + shift * slope).collect();
        let actual = Tensor::from_f64(problem.dtype(), [problem.rows(), problem.cols()], &values);
        let used = compare(&actual, expected).used;
        let wrong = Wrong { problem, right: &right, output, actual: &actual };
        let (best, found) = best(wrong, &actual.to_f64())?;
        Some((best, found, used))
    }

    /// The smallest shift that is found, of which each is twice the one before, and the largest error in budgets.
    fn smallest(problem: &Problem, output: Output, parameter: Parameter) -> Option<(f64, f64)> {
        (0..80).map(|power| 1e-17 * 2f64.powi(power)).find_map(|shift| {
            let (best, found, used) = shifted(problem, output, parameter, shift)?;
            let is_found =
                best == parameter && found.z.abs() > DECISIVE && found.effect > believable(problem);
            is_found.then_some((shift, used))
        })
    }

    #[test]
    fn a_shift_of_dx_within_every_tolerance_is_found() {
        for id in CASES {
            let problem = problem(id, &variants::all().honest[0], 0);
            for &parameter in Parameter::of(Output::Dx) {
                let (shift, used) = smallest(&problem, Output::Dx, parameter).expect("some shift is found");
                assert!(used < 1.0, "{id} {parameter:?}: {shift:e} takes {used:.2} budgets");
                let (best, found, _) = shifted(&problem, Output::Dx, parameter, shift).expect("it was found");
                assert!(
                    best == parameter && (found.shift / shift - 1.0).abs() < 0.2,
                    "{id} {parameter:?}: {found:?}"
                );
            }
        }
    }

    #[test]
    #[ignore = "prints what docs/directions.md states"]
    fn figures() {
        let all = variants::all();
        for id in CASES {
            let u = Precision::of(problem(id, &all.honest[0], 0).dtype()).u;
            for output in [Output::Y, Output::Dx] {
                for &parameter in Parameter::of(output) {
                    let each =
                        (0..8).map(|seed| smallest(&problem(id, &all.honest[0], seed), output, parameter));
                    println!("{id} {} {parameter:?}: {:?}", output.name(), each.collect::<Vec<_>>());
                }
            }
            for variant in &all.honest {
                for seed in 0..8 {
                    let problem = problem(id, variant, seed);
                    let right = expect(&problem);
                    for (output, actual) in results(&problem, variant) {
                        let wrong = Wrong { problem: &problem, right: &right, output, actual: &actual };
                        if let Some((parameter, found)) = best(wrong, &actual.to_f64()) {
                            println!(
                                "{id} {} {seed} {}: {parameter:?} z {:.1} effect {:.2}u",
                                variant.name,
                                output.name(),
                                found.z,
                                found.effect / u
                            );
                        }
                    }
                }
            }
        }
    }
}
