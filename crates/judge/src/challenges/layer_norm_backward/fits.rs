//! Defects that leave marks of their own without having one answer: which depends on the order of sums, on a weight, on
//! what lay in memory.

use super::oracle::row_errors;
use super::suspects::{Output, Wrong};
use crate::compare::Expected;
use crate::lead::{Lead, shorten};
use crate::precision::Precision;

/// The error of an element in its budget, infinite where classes differ.
fn used(expected: &Expected, actual: &[f64], index: usize) -> f64 {
    let (value, actual) = (expected.values[index], actual[index]);
    if value.is_nan() && actual.is_nan() || value == actual {
        return 0.0;
    }
    let error = (actual - value).abs() / expected.budget[index];
    if error.is_nan() { f64::INFINITY } else { error }
}

/// NaN in the rows that are constant, and everything right elsewhere.
pub(super) fn nan_at_constant_rows(wrong: Wrong<'_>, actual: &[f64]) -> Option<Lead> {
    let Wrong { problem, right, output, .. } = wrong;
    let cols = problem.cols();
    if !output.has_rows() {
        return None;
    }
    let expected = output.of_expectations(right);
    let mut rows = Vec::new();
    for (row, x) in problem.wide.x.chunks(cols).enumerate() {
        let range = row * cols..(row + 1) * cols;
        let constant = x.iter().all(|&value| value == x[0]);
        if constant && actual[range.clone()].iter().any(|value| !value.is_finite()) {
            rows.push(row);
        } else if range.into_iter().any(|index| !(used(expected, actual, index) <= 1.0)) {
            return None;
        }
    }
    (!rows.is_empty()).then(|| Lead {
        suspect: "nan_at_constant_rows",
        says: format!(
            "constant rows, and only these ({} of {}), are not finite: their variance is 0, and eps keeps the root away \
             from it",
            rows.len(),
            problem.rows()
        ),
    })
}

/// Everything right up to a column, and wrong in every row from there on.
pub(super) fn tail_unwritten(wrong: Wrong<'_>, actual: &[f64]) -> Option<Lead> {
    let Wrong { problem, right, output, .. } = wrong;
    let cols = problem.cols();
    let expected = output.of_expectations(right);
    let is_wrong: Vec<bool> =
        (0..actual.len()).map(|index| !(used(expected, actual, index) <= 1.0)).collect();
    let first = is_wrong.chunks(cols).filter_map(|row| row.iter().position(|&w| w)).min()?;
    let tail = (0..actual.len()).filter(|index| index % cols >= first);
    // What was never computed is not just beyond its budget.
    let unwritten = tail.clone().filter(|&index| used(expected, actual, index) > 20.0).count();
    let block = first.is_multiple_of(4) || first == cols - 1;
    let short = cols - first < 64.min(cols) || [256, 512, 1024].contains(&first);
    if first == 0 || !block || !short || unwritten * 10 < tail.count() * 9 {
        return None;
    }
    Some(Lead {
        suspect: "tail_skipped",
        says: format!(
            "columns 0 to {} are right in every row and the last {} of {cols} are not: the tail is skipped",
            first - 1,
            cols - first
        ),
    })
}

/// dx with other weights of its two means: the weights that fit best, if they explain everything.
pub(super) fn weights_of_terms(wrong: Wrong<'_>, actual: &[f64]) -> Option<Lead> {
    let Wrong { problem, right, output, .. } = wrong;
    let cols = problem.cols();
    if output != Output::Dx || actual.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut terms = Vec::with_capacity(actual.len());
    for (row, &(mean, rstd)) in right.statistics.iter().enumerate() {
        let range = row * cols..(row + 1) * cols;
        let xhat: Vec<f64> = problem.wide.x[range.clone()].iter().map(|x| (x - mean) * rstd).collect();
        let g: Vec<f64> =
            problem.wide.dy[range].iter().zip(&problem.wide.gamma).map(|(dy, w)| dy * w).collect();
        let a = g.iter().sum::<f64>() / cols as f64;
        let c = g.iter().zip(&xhat).map(|(g, xhat)| g * xhat).sum::<f64>() / cols as f64;
        terms.extend(xhat.iter().map(|xhat| (rstd * a, rstd * xhat * c)));
    }
    // actual = right + p · first + q · second, least squares in budgets.
    let expected = &right.dx;
    let [mut aa, mut ab, mut bb, mut ar, mut br] = [0.0; 5];
    for (index, &(first, second)) in terms.iter().enumerate() {
        let budget = expected.budget[index];
        let (a, b, r) = (first / budget, second / budget, (actual[index] - expected.values[index]) / budget);
        (aa, ab, bb, ar, br) = (aa + a * a, ab + a * b, bb + b * b, ar + a * r, br + b * r);
    }
    let determinant = aa * bb - ab * ab;
    if !(determinant > 1e-6 * aa * bb) {
        return None;
    }
    let (p, q) = ((ar * bb - br * ab) / determinant, (br * aa - ar * ab) / determinant);
    let precision = Precision::of(problem.dtype());
    let relative = 2.0 * precision.sum(cols) + 8.0 * precision.u + 2.0 * precision.out;
    let explained = terms.iter().enumerate().all(|(index, &(first, second))| {
        let value = expected.values[index] + p * first + q * second;
        let slack = relative * (value.abs() + (p * first).abs() + (q * second).abs());
        (actual[index] - value).abs() <= expected.budget[index] + slack
    });
    let (mean, projection) = (1.0 - p, 1.0 - q);
    let near = |weight: f64, to: f64| (weight - to).abs() < (4.0 * precision.out).max(1e-3);
    let suspect = match (near(mean, 1.0), near(projection, 1.0)) {
        _ if !explained => return None,
        (true, false) if projection.abs() < 0.02 => "projection_term_missing",
        (true, false) => "projection_term_scaled",
        (false, true) if mean.abs() < 0.02 => "mean_term_missing",
        _ => return None,
    };
    Some(Lead {
        suspect,
        says: format!(
            "the term xhat · mean(g · xhat) has weight {} and mean(g) has weight {}; both should be 1",
            shorten(projection),
            shorten(mean)
        ),
    })
}

/// y whose rows have another scale than they should, the more so the farther they stand from zero.
pub(super) fn one_pass_variance(wrong: Wrong<'_>, actual: &[f64]) -> Option<Lead> {
    let Wrong { problem, right, output, .. } = wrong;
    let cols = problem.cols();
    if output != Output::Y || cols < 4 {
        return None;
    }
    let precision = Precision::of(problem.dtype());
    let mut worst: Option<(usize, f64, f64, f64)> = None;
    let mut ratios = Vec::new();
    for (row, &(mean, rstd)) in right.statistics.iter().enumerate() {
        let range = row * cols..(row + 1) * cols;
        let var = 1.0 / (rstd * rstd) - problem.eps;
        let one_pass_error = 16.0 * precision.u * (cols as f64).sqrt() * (mean * mean + var);
        let seen = if actual[range.clone()].iter().all(|value| value.is_nan()) {
            // A negative variance, if lost digits can make one.
            if one_pass_error < var + problem.eps {
                return None;
            }
            var - one_pass_error
        } else {
            let scale = row_scale(wrong, actual, row)?;
            1.0 / (scale * scale) - problem.eps
        };
        let magnitude = mean.abs() + var.sqrt();
        let (_, rho) = row_errors(precision, cols, mean, magnitude, var, problem.eps);
        let narrow_output = if precision.out > precision.u { 4.0 * precision.out * var } else { 0.0 };
        let honest_error = 2.0 * rho * (var + problem.eps) + narrow_output;
        if !((seen - var).abs() <= one_pass_error + 4.0 * honest_error) {
            return None;
        }
        let off = (seen - var).abs() / honest_error;
        if off <= 2.0 || (seen - var).abs() < 0.1 * precision.u * mean * mean {
            continue;
        }
        if mean.abs() * rstd < 4.0 {
            return None;
        }
        ratios.push(seen / var);
        if worst.is_none_or(|(.., known)| off > known) {
            worst = Some((row, var, seen, off));
        }
    }
    let (row, var, seen, _) = worst?;
    // Off by the same factor everywhere is another divisor, not lost digits.
    let spread = |ratio: &f64| (ratio - ratios[0]).abs() < 0.1 * (ratios[0] - 1.0).abs();
    if ratios.len() > 1 && ratios.iter().all(spread) {
        return None;
    }
    let mean = right.statistics[row].0;
    let seen = if seen < 0.0 { "a negative one".to_owned() } else { shorten(seen) };
    Some(Lead {
        suspect: "one_pass_variance",
        says: format!(
            "only the variances are off, and only as far as E[x²] - E[x]² loses digits: row {row} has mean {} and \
             variance {}, and was given {seen}",
            shorten(mean),
            shorten(var)
        ),
    })
}

/// Whether some mean and some deviation for each row explain all of a result's errors. A narrower type rounds each element for itself,
/// which a scale and a shift do not undo; in rows as short as what is fitted, nothing tells.
pub(super) fn is_of_statistics(wrong: Wrong<'_>, actual: &[f64]) -> bool {
    let Wrong { problem, right, output, .. } = wrong;
    let (cols, wide) = (problem.cols(), &problem.wide);
    let expected = output.of_expectations(right);
    right.statistics.iter().enumerate().all(|(row, &(mean, rstd))| {
        let range = row * cols..(row + 1) * cols;
        let budget = &expected.budget[range.clone()];
        let in_budgets = |value: &dyn Fn(usize) -> f64| -> Vec<f64> {
            range.clone().zip(budget).map(|(index, budget)| value(index) / budget).collect()
        };
        let xhat = |index: usize| (wide.x[index] - mean) * rstd;
        let gamma = |index: usize| wide.gamma[index % cols];
        // Whatever mean and deviation are, y - beta is a sum of the first two, and dx of the last three.
        let terms = match output {
            Output::Y => vec![in_budgets(&|index| gamma(index) * xhat(index)), in_budgets(&gamma)],
            _ => vec![
                in_budgets(&|index| wide.dy[index] * gamma(index)),
                in_budgets(&xhat),
                in_budgets(&|_| 1.0),
            ],
        };
        let rest = without(in_budgets(&|index| actual[index] - expected.values[index]), terms);
        rest.iter().all(|rest| rest.abs() <= 1.0) || rstd.is_nan()
    })
}

/// What no sum of the terms has of a vector: least squares, by Gram and Schmidt.
fn without(mut vector: Vec<f64>, terms: Vec<Vec<f64>>) -> Vec<f64> {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let subtract = |from: &mut [f64], term: &[f64]| {
        let weight = dot(from, term) / dot(term, term);
        from.iter_mut().zip(term).for_each(|(value, term)| *value -= weight * term);
    };
    let mut apart: Vec<Vec<f64>> = Vec::new();
    for mut term in terms {
        let length = dot(&term, &term);
        apart.iter().for_each(|other| subtract(&mut term, other));
        // What is left of one that the others contain is rounding.
        if dot(&term, &term) > 1e-20 * length {
            subtract(&mut vector, &term);
            apart.push(term);
        }
    }
    vector
}

/// The reciprocal deviation that a row of y was made with, if one explains the row.
fn row_scale(wrong: Wrong<'_>, actual: &[f64], row: usize) -> Option<f64> {
    let Wrong { problem, right, .. } = wrong;
    let (cols, wide) = (problem.cols(), &problem.wide);
    let (mean, rstd) = right.statistics[row];
    let at = |j: usize| (wide.gamma[j], wide.x[row * cols + j] - mean, actual[row * cols + j] - wide.beta[j]);
    // y - beta = gamma (scale (x - mean) + shift), least squares.
    let [mut w, mut d, mut dd, mut r, mut dr] = [0.0; 5];
    for j in 0..cols {
        let (gamma, deviation, y) = at(j);
        let weight = gamma * gamma;
        w += weight;
        d += weight * deviation;
        dd += weight * deviation * deviation;
        r += gamma * y;
        dr += gamma * y * deviation;
    }
    let determinant = w * dd - d * d;
    let scale = (w * dr - d * r) / determinant;
    let shift = (r * dd - d * dr) / determinant;
    let growth = (scale / rstd).abs().max(1.0);
    let precision = Precision::of(problem.dtype());
    let explained = (0..cols).all(|j| {
        let (gamma, deviation, y) = at(j);
        let fitted = gamma * (scale * deviation + shift);
        let slack = (2.0 * precision.sum(cols) + 8.0 * precision.u + 2.0 * precision.out) * fitted.abs();
        (y - fitted).abs() <= growth * right.y.budget[row * cols + j] + slack
    });
    (explained && scale > 0.0).then_some(scale)
}
