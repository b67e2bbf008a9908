//! A result against the oracle's, in a kernel author's words.

use tribunal_contract::{DType, Fault, Tensor};

use super::oracle::Expectations;
use super::problem::Problem;
use super::suspects::{Output, Wrong, leads, shows_everywhere};
use crate::compare::{Expected, compare};
use crate::lead::{budgets, digits, shorten};
use crate::report::Report;

/// How many elements a result must have to be named by what it equals alone.
const ENOUGH_TO_NAME: usize = 16;

/// Compares a result with the oracle's.
pub(super) fn hold(
    report: &mut Report,
    problem: &Problem,
    right: &Expectations,
    output: Output,
    actual: &Tensor,
    context: &str,
) {
    let expected = output.of_expectations(right);
    // A NaN in a row makes every dgamma NaN if it is summed. What an implementation does with such a sum is its
    // own business, and nothing can be learnt from it.
    if !output.has_rows() && expected.values.iter().any(|value| value.is_nan()) {
        return;
    }
    let comparison = compare(actual, expected);
    if comparison.holds() {
        report.pass(output.check(), Some(comparison.used));
        return;
    }
    let leads = leads(Wrong { problem, right, output, actual });
    let message =
        format!("{} is wrong{context}: {}", output.name(), describe(problem, output, actual, expected));
    let telling = actual.len() >= ENOUGH_TO_NAME;
    report.wrong(output.check(), message, Some(comparison.used), leads, telling);
}

/// A call that gave no answer where it should have.
pub(super) fn answers_not(report: &mut Report, problem: &Problem, call: &str, fault: &Fault) {
    report.fault(&format!("{call} on valid input, x {}", problem.full()), &[problem.dtype()], fault);
}

/// Gives the wrong results that have no name, or more than one, the name of another result of the same case, where
/// that defect shows in all of them.
pub(super) fn inherit(report: &mut Report) {
    let [name] = report.names(|check| check.ends_with("_within_budget"))[..] else { return };
    if shows_everywhere(name) {
        report.settle(|_, _| Some(name), "as in the other results");
    }
}

/// "in 3 of 12 rows (24 of 96 elements), worst at row 4, column 7: …".
fn describe(problem: &Problem, output: Output, actual: &Tensor, expected: &Expected) -> String {
    let (rows, cols) = (problem.rows(), problem.cols());
    let comparison = compare(actual, expected);
    let (row, col) = (comparison.worst / cols, comparison.worst % cols);
    let place = if output.has_rows() {
        let wrong = wrong_rows(problem, actual, expected).len();
        format!(
            "in {wrong} of {rows} rows ({} of {} elements), worst at row {row}, column {col}",
            comparison.over,
            actual.len()
        )
    } else {
        format!("in {} of {cols} columns, worst at column {col}", comparison.over)
    };
    let (got, should) = (actual.get(comparison.worst), expected.values[comparison.worst]);
    let (got, should) = (digits(got), digits(should));
    let off = if comparison.used.is_finite() {
        format!(", {} off", budgets(comparison.used))
    } else {
        String::new()
    };
    format!("{place}: got {got}, should be {should}{off}")
}

/// The rows of a result in which something is over its budget.
pub(super) fn wrong_rows(problem: &Problem, actual: &Tensor, expected: &Expected) -> Vec<usize> {
    let cols = problem.cols();
    let values = actual.to_f64();
    (0..problem.rows())
        .filter(|row| {
            let range = row * cols..(row + 1) * cols;
            let part = Expected {
                values: expected.values[range.clone()].to_vec(),
                budget: expected.budget[range.clone()].to_vec(),
            };
            let tensor = Tensor::from_f64(DType::Float64, [cols], &values[range]);
            !compare(&tensor, &part).holds()
        })
        .collect()
}

/// "4.2e-3 where at most 1e-6 is rounding".
pub(super) fn beyond(sum: f64, budget: f64) -> String {
    format!("{} where {} is all that rounding can do", shorten(sum), shorten(budget))
}
