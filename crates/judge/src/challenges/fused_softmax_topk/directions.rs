//! Semantic parameters of a softmax with top-k, and whether an error points along one.

use super::diagnosis::{Seen, Wrong};
use crate::direction::{self, Finding, Projection, Residual};
use crate::precision::Precision;
use tribunal_contract::DType;

/// A parameter that has a right value. `p` is `exp(scale · x)` over the sum of the same, and every term of the sum has weight 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parameter {
    /// What the logits are multiplied by: an inverse temperature, or the logarithm of the base.
    Scale,
    /// What is added to the sum, with the largest term as 1; the weight of the largest term is the same.
    Extra,
    /// The weight in the sum of what is not among the winners.
    Rest,
    /// What all probabilities are multiplied by.
    Factor,
}

impl Parameter {
    const ALL: [Self; 4] = [Self::Scale, Self::Extra, Self::Rest, Self::Factor];

    /// The derivative of a row's probabilities, at the right values of all parameters.
    fn derivative(self, wrong: &Wrong<'_>, seen: &Seen<'_>) -> Vec<f64> {
        let right = seen.right;
        let of_logarithm = |logit: f64| match self {
            Self::Scale => logit - mean(wrong.problem.row(seen.row), |x| right.prob(x)),
            Self::Extra => -right.prob(right.max),
            Self::Rest => right.logits.iter().map(|&x| right.prob(x)).sum::<f64>() - 1.0,
            Self::Factor => 1.0,
        };
        right.logits.iter().map(|&logit| right.prob(logit) * of_logarithm(logit)).collect()
    }

    fn suspect(self) -> Option<&'static str> {
        match self {
            Self::Scale => Some("scale_off"),
            Self::Extra => Some("extra_term_in_denominator"),
            Self::Rest | Self::Factor => None,
        }
    }

    fn says(self, shift: f64) -> String {
        match self {
            Self::Scale => format!("the logits seem to be multiplied by {}", direction::one_and(shift)),
            Self::Extra => format!(
                "{shift:.1e} seems to be added to the sum of exp(x - max), or the largest term to have weight {}",
                direction::one_and(shift)
            ),
            Self::Rest => format!(
                "what is not among the winners seems to enter the sum with weight {}",
                direction::one_and(shift)
            ),
            Self::Factor => {
                format!("all probabilities seem to be multiplied by {}", direction::one_and(shift))
            }
        }
    }
}

/// The mean of finite logits under their probabilities.
fn mean(row: &[f64], prob: impl Fn(f64) -> f64) -> f64 {
    row.iter().filter(|logit| logit.is_finite()).map(|&logit| prob(logit) * logit).sum()
}

/// What biased arithmetic may do to the size of a probability and no parameter be accused, in unit roundoffs: an exponential that is
/// always 2 ulp low (4u), and a quotient that is so as well. Of honest variants, the largest effect is 1.9 of them, of sums whose
/// roundings go the same way; with such exponentials and quotients it is 1.6, for the sum has the same error.
const BELIEVABLE: f64 = 8.0;

/// Looks for the parameter that explains most of the error of an answer within its budget.
pub(super) fn strongest(wrong: &Wrong<'_>) -> Option<Finding> {
    let rows = wrong.rows();
    let (parameter, found) = direction::best(projections(wrong, &rows))?;
    let least = BELIEVABLE * Precision::of(DType::Float32).u;
    let groups = format!("{} rows", rows.len());
    Finding::new(found, least, parameter.suspect(), &parameter.says(found.shift), &groups)
}

fn projections(wrong: &Wrong<'_>, rows: &[Seen<'_>]) -> Vec<(Parameter, Projection)> {
    let (mut values, mut budget, mut error) = (Vec::new(), Vec::new(), Vec::new());
    for seen in rows {
        let expected = seen.right.expected();
        error.extend(seen.probs.iter().zip(&expected.values).map(|(actual, due)| actual - due));
        values.extend(expected.values);
        budget.extend(expected.budget);
    }
    let residual = Residual { error: &error, values: &values, budget: &budget, group: wrong.answer.k };
    let derivatives = Parameter::ALL.map(|parameter| {
        let of_rows = rows.iter().flat_map(|seen| parameter.derivative(wrong, seen));
        (parameter, of_rows.collect::<Vec<f64>>())
    });
    direction::projections(residual, derivatives)
}

#[cfg(test)]
mod tests {
    use super::super::answer::Answer;
    use super::super::{cases, oracle, variants};
    use super::*;
    use crate::variant::Variant;
    use crate::{Case, Court, Observation, Outcome, Seed};

    const DTYPES: [DType; 3] = [DType::Float32, DType::Float16, DType::BFloat16];

    fn measured(variant: &Variant, dtype: DType, seed: Seed) -> Vec<(Parameter, Projection)> {
        let case = cases::parse(&format!("adversarial/directions/2x256x257/k16/{dtype}")).expect("a case");
        let mut subject = variant.stand();
        let mut court = Court::new(subject.as_mut(), seed);
        let problem = case.problem(&court, 0);
        let answer = Answer::new(&problem, &court.call(&problem.call()).expect("an answer").outputs);
        let right = oracle::expect(&problem);
        let wrong = Wrong { problem: &problem, right: &right, answer: &answer };
        projections(&wrong, &wrong.rows())
    }

    fn observed(variant: &Variant, dtype: DType, seed: u64) -> Vec<Observation> {
        let case = cases::parse(&format!("adversarial/directions/2x256x257/k16/{dtype}")).expect("a case");
        let mut subject = variant.stand();
        case.examine(&mut Court::new(subject.as_mut(), Seed(Seed::PUBLIC.0 + seed)))
            .expect("no machine is involved")
    }

    #[test]
    fn honest_softmaxes_point_nowhere() {
        for variant in variants::all().honest {
            for (seed, dtype) in (1..).zip(DTYPES) {
                for seen in observed(&variant, dtype, seed) {
                    let Observation { outcome, message, .. } = seen;
                    assert_eq!((outcome, message.as_str()), (Outcome::Pass, ""), "{}, {dtype}", variant.name);
                }
            }
        }
    }

    #[test]
    fn a_shift_within_every_tolerance_is_found_and_told() {
        for (name, says) in [
            ("logits times 1.0000005", "the logits seem to be multiplied by 1.0000004"),
            ("2.5e-6 added to the sum", "e-6 seems to be added to the sum of exp(x - max)"),
            (
                "losers weigh 1.0000015",
                "what is not among the winners seems to enter the sum with weight 1.00000",
            ),
            ("probabilities times 1.000001", "all probabilities seem to be multiplied by 1.00000"),
        ] {
            let mutants = variants::all().mutants;
            let mutant = mutants.iter().find(|mutant| mutant.variant.name == name).expect("a mutant");
            for (seed, dtype) in (1..).zip(DTYPES) {
                let seen = observed(&mutant.variant, dtype, seed);
                let failed: Vec<_> = seen.iter().filter(|seen| seen.outcome != Outcome::Pass).collect();
                let [only] = failed[..] else { panic!("{name}: {seen:?}") };
                assert_eq!(
                    (only.check, only.suspect),
                    ("probs_error_without_direction", mutant.suspect),
                    "{name}: {only:?}"
                );
                assert!(only.message.contains(says), "{}", only.message);
            }
        }
    }

    #[test]
    #[ignore = "prints what docs/directions.md states"]
    fn figures() {
        let all = variants::all();
        let u = Precision::of(DType::Float32).u;
        for dtype in DTYPES {
            for variant in all.honest.iter().chain(all.mutants.iter().map(|mutant| &mutant.variant)) {
                let shifted = variant.name.contains("1.0000") || variant.name.contains("added to the sum");
                if !shifted && !all.honest.iter().any(|honest| honest.name == variant.name) {
                    continue;
                }
                for seed in 0..8 {
                    let found = measured(variant, dtype, Seed(Seed::PUBLIC.0 + seed));
                    let words = found.iter().map(|(parameter, found)| {
                        let Projection { z, effect, shift, explained } = found;
                        format!(
                            "{parameter:?} z {z:.1} effect {:.1}u shift {:.1}u explained {explained:.2}",
                            effect / u,
                            shift / u
                        )
                    });
                    println!("{dtype} {} {seed}: {}", variant.name, words.collect::<Vec<_>>().join("; "));
                }
            }
        }
    }
}
