//! Names for what is wrong.
//!
//! An answer that is over its budget is compared with the answers of known wrong behaviours. One that it equals, on an
//! input where that behaviour and the right one differ, is a lead; so is a defect of arithmetic whose marks the error
//! bears. Several leads are no name: they are told apart by another input, see [`super::checks`].

use tribunal_contract::{DType, Tensor};

use super::behaviours::{Answers, Behaviour, answer, of_gradient, of_reduction, of_statistics};
use super::directions;
use super::fits;
use super::oracle::{Expectations, expect_at};
use super::problem::Problem;
use crate::compare::{Expected, compare};
use crate::lead::{Lead, budgets};
use crate::precision::Precision;

/// One of the four results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    Y,
    Dx,
    Dgamma,
    Dbeta,
}

impl Output {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Y => "y",
            Self::Dx => "dx",
            Self::Dgamma => "dgamma",
            Self::Dbeta => "dbeta",
        }
    }

    pub(super) fn check(self) -> &'static str {
        match self {
            Self::Y => "y_within_budget",
            Self::Dx => "dx_within_budget",
            Self::Dgamma => "dgamma_within_budget",
            Self::Dbeta => "dbeta_within_budget",
        }
    }

    /// Whether it has a row of elements for each row of x.
    pub(super) fn has_rows(self) -> bool {
        matches!(self, Self::Y | Self::Dx)
    }

    pub(super) fn of_expectations(self, right: &Expectations) -> &Expected {
        match self {
            Self::Y => &right.y,
            Self::Dx => &right.dx,
            Self::Dgamma => &right.dgamma,
            Self::Dbeta => &right.dbeta,
        }
    }

    pub(super) fn of_answers(self, answers: &Answers) -> &[f64] {
        match self {
            Self::Y => &answers.y,
            Self::Dx => &answers.dx,
            Self::Dgamma => &answers.dgamma,
            Self::Dbeta => &answers.dbeta,
        }
    }
}

/// Whether a defect of that name shows in all results, so that one named by its y explains dx and dgamma too.
pub(super) fn shows_everywhere(suspect: &str) -> bool {
    [
        "unbiased_variance",
        "eps_outside_root",
        "eps_dropped",
        "eps_ignored",
        "rstd_shared_by_rows",
        "tail_skipped",
        "one_pass_variance",
        "narrow_accumulation",
        "half_precision_inside",
        "float32_inside",
        "nan_at_constant_rows",
    ]
    .contains(&suspect)
}

/// Everything needed to look into one wrong result.
#[derive(Clone, Copy)]
pub(super) struct Wrong<'a> {
    pub(super) problem: &'a Problem,
    pub(super) right: &'a Expectations,
    pub(super) output: Output,
    pub(super) actual: &'a Tensor,
}

/// The defects that would explain a wrong result, each once.
pub(super) fn leads(wrong: Wrong<'_>) -> Vec<Lead> {
    let actual = wrong.actual.to_f64();
    // One number everywhere is no computation; it equals whatever happens to be small.
    if actual.len() > 1 && actual.iter().all(|value| *value == actual[0]) {
        return Vec::new();
    }
    // So is a NaN, unless the rows themselves give a reason.
    if actual.iter().all(|value| value.is_nan()) {
        return fits::nan_at_constant_rows(wrong, &actual).into_iter().collect();
    }
    let (mut equal, has_numbers) = equal_behaviours(wrong, &actual);
    if !equal.is_empty() {
        if !has_numbers {
            equal.extend(fits::nan_at_constant_rows(wrong, &actual));
        }
        return equal;
    }
    [
        fits::nan_at_constant_rows,
        fits::tail_unwritten,
        fits::weights_of_terms,
        directions::explanation,
        fits::one_pass_variance,
        narrow_arithmetic,
    ]
    .iter()
    .find_map(|look| look(wrong, &actual))
    .into_iter()
    .collect()
}

/// Behaviours that the answer equals, where they differ from the right one, and whether numbers say so; otherwise it is
/// only that both have NaNs in the same places.
fn equal_behaviours(wrong: Wrong<'_>, actual: &[f64]) -> (Vec<Lead>, bool) {
    let mut behaviours = match wrong.output {
        Output::Y => of_statistics(wrong.problem),
        Output::Dx => [of_gradient(wrong.problem), of_statistics(wrong.problem)].concat(),
        Output::Dgamma => [of_reduction(wrong.problem), of_statistics(wrong.problem)].concat(),
        Output::Dbeta => of_reduction(wrong.problem),
    };
    behaviours.retain(|behaviour| !(wrong.output == Output::Dbeta && behaviour.suspect == "dgamma_uses_x"));
    let mut leads: Vec<(f64, Lead)> = Vec::new();
    let mut has_numbers = false;
    let mut has_classes = false;
    for behaviour in behaviours {
        let Some(match_) = equality(wrong, actual, &behaviour) else { continue };
        let Match { used, apart, elements, classes_differ } = match_;
        has_numbers |= apart > TELLING;
        has_classes |= classes_differ && wrong.output.has_rows();
        let says = format!(
            "it behaves as if {}: equal to that to {} in all {elements} elements, {} from the right answer",
            behaviour.says,
            budgets(used),
            budgets(apart),
        );
        let lead = Lead { suspect: behaviour.suspect, says };
        match leads.iter_mut().find(|(_, other)| other.suspect == lead.suspect) {
            Some(known) if used < known.0 => *known = (used, lead),
            Some(_) => {}
            None => leads.push((used, lead)),
        }
    }
    if !has_numbers && !has_classes {
        leads.clear();
    }
    (leads.into_iter().map(|(_, lead)| lead).collect(), has_numbers)
}

/// How well an answer equals a behaviour, in units of what rounding may do to either.
struct Match {
    used: f64,
    /// How far the behaviour is from the right answer, where both are numbers.
    apart: f64,
    /// Whether one of them is a number somewhere, and the other is not.
    classes_differ: bool,
    elements: usize,
}

/// How far a behaviour must be from the right answer for an equality to mean anything. One that is half as far is not
/// named on its own, but another is not named against it either.
const TELLING: f64 = 4.0;

/// How far an answer may be from a behaviour's that it is called equal to: as far as honest variants come from the
/// right answer.
const EQUAL: f64 = 0.5;

fn equality(wrong: Wrong<'_>, actual: &[f64], behaviour: &Behaviour) -> Option<Match> {
    let Wrong { problem, right, output, .. } = wrong;
    let answers = answer(problem, behaviour);
    let expected = output.of_expectations(right);
    let precision = Precision::of(problem.dtype());
    let relative = 2.0 * precision.sum(problem.cols()) + 8.0 * precision.u + 2.0 * precision.out;
    // What a larger rstd does to the errors of xhat and c, which both enter dx.
    let growths: Vec<f64> = answers
        .rstd
        .iter()
        .zip(&right.statistics)
        .map(|(wrong, &(_, right))| (wrong / right).powi(2))
        .map(|growth| if growth.is_finite() { growth.max(1.0) } else { 1.0 })
        .collect();
    let largest = growths.iter().copied().fold(1.0, f64::max);
    let kept = behaviour.kept().unwrap_or(problem.cols());
    let mut result = Match { used: 0.0, apart: 0.0, classes_differ: false, elements: 0 };
    for (index, &value) in output.of_answers(&answers).iter().enumerate() {
        if index % problem.cols() >= kept {
            continue;
        }
        let growth = if output.has_rows() { growths[index / problem.cols()] } else { largest };
        let tolerance = expected.budget[index] * growth + relative * value.abs();
        let tolerance = if tolerance.is_finite() { tolerance } else { 0.0 };
        let distance = |a: f64, b: f64| match (a.is_nan(), b.is_nan()) {
            (true, true) => 0.0,
            _ if a == b => 0.0,
            (false, false) if (a - b).is_finite() => (a - b).abs() / tolerance,
            _ => f64::INFINITY,
        };
        result.used = result.used.max(distance(actual[index], value));
        match distance(value, expected.values[index]) {
            apart if apart.is_finite() => result.apart = result.apart.max(apart),
            _ => result.classes_differ = true,
        }
        result.elements += 1;
        if result.used > EQUAL {
            return None;
        }
    }
    let distinct = result.apart > TELLING / 2.0 || result.classes_differ && output.has_rows();
    distinct.then_some(result)
}

/// An error of the size that a narrower type makes, wherever one looks.
///
/// Only on rows whose mean is small beside their deviation, where no defect of the statistics makes such errors, and
/// only where the narrower type's budget is still small enough to exclude something. An error of one in a thousand is also what a slip in a
/// formula makes of a variance, so that no statistics may explain what is laid to half precision. A slip as small as float32's, in an eps, is
/// told from it by rows of which each has an error of its own, where there are several. Into a long row's dx halves of xhat enter by a mean,
/// which makes them as small as float32's budget.
fn narrow_arithmetic(wrong: Wrong<'_>, values: &[f64]) -> Option<Lead> {
    let Wrong { problem, right, output, actual } = wrong;
    let far = right.statistics.iter().any(|&(mean, rstd)| mean.abs() * rstd > 4.0);
    let own = compare(actual, output.of_expectations(right));
    // float16 and float32 are 2^13 and 2^29 steps apart from the next wider type: an error of a few budgets is
    // something else. Sums over rows inherit the name.
    if far || !output.has_rows() || own.over * 10 < actual.len() || own.used < 50.0 {
        return None;
    }
    let narrower: &[DType] = match problem.dtype() {
        DType::Float64 => &[DType::Float32, DType::Float16, DType::BFloat16],
        DType::Float32 => &[DType::Float16, DType::BFloat16],
        _ => &[],
    };
    let of_statistics = fits::is_of_statistics(wrong, values);
    let tells = |dtype| match dtype {
        DType::Float32 => {
            let has_others = problem.rows() > 1 || !of_statistics;
            has_others && (output == Output::Y || problem.cols() <= 1024)
        }
        _ => !of_statistics,
    };
    narrower.iter().filter(|&&dtype| tells(dtype)).find_map(|&dtype| {
        let precision = Precision::all(dtype);
        let then = compare(actual, output.of_expectations(&expect_at(problem, precision)));
        // At twice that, bfloat16's budget over 36 columns explained what a race had left of dx.
        let excludes = precision.sum(problem.cols().max(problem.rows())) < 0.03;
        (excludes && then.holds() && then.used > 0.003).then(|| Lead {
            suspect: if dtype == DType::Float32 { "float32_inside" } else { "half_precision_inside" },
            says: format!(
                "its errors are those of arithmetic in {dtype}: {} of that type's, {} of {}'s",
                budgets(then.used),
                budgets(own.used),
                problem.dtype(),
            ),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::behaviours::Statistics;
    use super::super::oracle::expect;
    use super::super::recipes::{Dy, Gamma, Recipe, X};
    use super::*;
    use crate::Seed;

    fn problem(cols: usize) -> Problem {
        let x = X::Normal { offset: 0.0, scale: 1.0 };
        let recipe = Recipe { x, gamma: Gamma::Random, dy: Dy::Normal(1.0), eps: 1e-5 };
        recipe.draw(Seed::PUBLIC.rng("suspects"), &[3, cols], DType::Float32)
    }

    fn names(problem: &Problem, output: Output, actual: &Tensor) -> Vec<&'static str> {
        let right = expect(problem);
        let half =
            compare(actual, output.of_expectations(&expect_at(problem, Precision::all(DType::Float16))));
        assert!(half.holds(), "half precision is no explanation");
        leads(Wrong { problem, right: &right, output, actual }).iter().map(|lead| lead.suspect).collect()
    }

    #[test]
    fn what_is_rounded_element_by_element_is_a_narrow_type() {
        for cols in [7, 300] {
            let problem = problem(cols);
            let right = expect(&problem);
            for output in [Output::Y, Output::Dx] {
                let values = &output.of_expectations(&right).values;
                let actual = Tensor::from_f64(DType::Float16, [values.len()], values);
                assert_eq!(names(&problem, output, &actual), ["half_precision_inside"], "{output:?}, {cols}");
            }
        }
    }

    #[test]
    fn what_is_nan_everywhere_has_no_name_but_where_rows_are_constant() {
        let nowhere_constant = problem(7);
        let constant = nowhere_constant.with_x(&[2.0; 21]);
        for (problem, due) in [(nowhere_constant, &[][..]), (constant, &["nan_at_constant_rows"])] {
            let right = expect(&problem);
            for output in [Output::Y, Output::Dx] {
                let nan = Tensor::from_f64(DType::Float32, [3, 7], &[f64::NAN; 21]);
                let leads = leads(Wrong { problem: &problem, right: &right, output, actual: &nan });
                let names: Vec<_> = leads.iter().map(|lead| lead.suspect).collect();
                assert_eq!(names, due, "{output:?}");
            }
        }
    }

    #[test]
    fn what_statistics_explain_is_not() {
        for cols in [3, 7, 300] {
            let problem = problem(cols);
            let slip = Statistics::Scaled { var: 0.997, eps: problem.eps };
            let answers = answer(&problem, &Behaviour::statistics("", slip, ""));
            for output in [Output::Y, Output::Dx] {
                let values = output.of_answers(&answers);
                let actual = Tensor::from_f64(DType::Float32, [values.len()], values);
                assert_eq!(names(&problem, output, &actual), [""; 0], "{output:?}, {cols}");
            }
        }
    }
}
