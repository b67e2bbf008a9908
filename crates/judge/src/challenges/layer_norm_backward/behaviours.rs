//! What a layer norm with a known defect would answer.
//!
//! Each behaviour is computed in float64, apart from the oracle, so that a wrong answer can be compared with it.

use super::problem::Problem;

/// How the statistics of a row are wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Statistics {
    Right,
    /// The variance is multiplied by the one, the other is the epsilon.
    Scaled {
        var: f64,
        eps: f64,
    },
    /// 1 / sqrt(var), and 1 where that divides by nothing.
    GuardedDeviation,
    /// 1 / sqrt(max(var, eps)).
    EpsAsFloor,
    /// 1 / (sqrt(var) + eps).
    EpsOutside,
    /// The reciprocal deviation of that row serves all.
    RstdOfRow(usize),
    /// Sums end before the tail; the divisor is the second number.
    Truncated {
        kept: usize,
        divisor: usize,
    },
    /// One running sum in float32 for each row.
    Narrow,
    /// One running sum in float32 over all rows, of which rows take differences.
    Running,
    /// Mean and variance of the whole tensor.
    Mixed,
}

/// How the formula of dx is wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Gradient {
    Right,
    /// gamma multiplies the outside of both means.
    GammaOutside,
    /// dy stands where dy · gamma should.
    GammaOmitted,
    /// The weights of the two means.
    Weights {
        mean: f64,
        projection: f64,
    },
    /// mean(g), mean(g · xhat), or both are taken over all rows.
    Mixed {
        mean: bool,
        projection: bool,
    },
    /// The factor before the bracket is that row's rstd; xhat is right.
    RstdOfRow(usize),
    /// The two sums end before the tail; it is divided by D.
    Truncated {
        kept: usize,
    },
    /// g is projected on the unit vector along xhat, which is shorter than sqrt(D) by what eps takes.
    UnitProjection,
}

/// How the sums over rows are wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Reduction {
    Right,
    /// dy · x in dgamma; or dy · (x - mean).
    UsesX {
        centred: bool,
    },
    /// Only that row.
    OnlyRow(usize),
    /// Divided by that.
    Averaged(usize),
    /// Every `step`th row from `first` on, `count` of them.
    Part {
        first: usize,
        step: usize,
        count: usize,
    },
}

/// A defect as a behaviour.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Behaviour {
    /// The suspect's name.
    pub(super) suspect: &'static str,
    /// Completes "behaves as if …".
    pub(super) says: String,
    pub(super) statistics: Statistics,
    pub(super) gradient: Gradient,
    pub(super) reduction: Reduction,
}

/// What it answers.
#[derive(Debug, Clone)]
pub(super) struct Answers {
    pub(super) y: Vec<f64>,
    pub(super) dx: Vec<f64>,
    pub(super) dgamma: Vec<f64>,
    pub(super) dbeta: Vec<f64>,
    /// The reciprocal deviation that each row used.
    pub(super) rstd: Vec<f64>,
}

impl Behaviour {
    const RIGHT: Self = Self {
        suspect: "",
        says: String::new(),
        statistics: Statistics::Right,
        gradient: Gradient::Right,
        reduction: Reduction::Right,
    };

    pub(super) fn statistics(suspect: &'static str, statistics: Statistics, says: impl Into<String>) -> Self {
        Self { suspect, says: says.into(), statistics, ..Self::RIGHT }
    }

    pub(super) fn gradient(suspect: &'static str, gradient: Gradient, says: impl Into<String>) -> Self {
        Self { suspect, says: says.into(), gradient, ..Self::RIGHT }
    }

    fn reduction(suspect: &'static str, reduction: Reduction, says: impl Into<String>) -> Self {
        Self { suspect, says: says.into(), reduction, ..Self::RIGHT }
    }

    /// Every columns' tail that is left out, where this is such a behaviour.
    pub(super) fn kept(&self) -> Option<usize> {
        match self.statistics {
            Statistics::Truncated { kept, .. } => Some(kept),
            _ => None,
        }
    }
}

/// Defects that show in the statistics, and so in y, dx and dgamma.
pub(super) fn of_statistics(problem: &Problem) -> Vec<Behaviour> {
    use Statistics::*;
    let (rows, cols) = (problem.rows(), problem.cols());
    let mut list = vec![
        Behaviour::statistics(
            "unbiased_variance",
            Scaled { var: cols as f64 / (cols as f64 - 1.0), eps: problem.eps },
            format!("the variance were divided by D - 1 = {}", cols - 1),
        ),
        Behaviour::statistics("eps_outside_root", EpsOutside, "eps were added outside the root"),
        Behaviour::statistics("eps_dropped", Scaled { var: 1.0, eps: 0.0 }, "there were no eps"),
        Behaviour::statistics(
            "eps_dropped",
            GuardedDeviation,
            "there were no eps, and constant rows were spared",
        ),
        Behaviour::statistics(
            "eps_dropped",
            EpsAsFloor,
            "eps were the least that a variance may be, and not added to it",
        ),
    ];
    for eps in [1e-5, 1e-8, 1e-6, 1e-3] {
        if eps != problem.eps {
            let says = format!("eps were {eps:e}, whatever is given ({:e} here)", problem.eps);
            list.push(Behaviour::statistics("eps_ignored", Scaled { var: 1.0, eps }, says));
        }
    }
    if rows > 1 {
        for row in [0, rows - 1] {
            let says = format!("the rstd of row {row} served all {rows} rows");
            list.push(Behaviour::statistics("rstd_shared_by_rows", RstdOfRow(row), says));
        }
    }
    if rows > 1 {
        let says = "mean and variance were those of the whole tensor";
        list.push(Behaviour::statistics("rows_mixed", Mixed, says));
    }
    for kept in tails(cols) {
        for divisor in [cols, kept] {
            let says =
                format!("sums over a row ended after {kept} of its {cols} columns, divided by {divisor}");
            list.push(Behaviour::statistics("tail_skipped", Truncated { kept, divisor }, says));
        }
    }
    if rows > 1 && problem.dtype().size_bytes() < 8 {
        let says = "rows took their sums as differences of one running sum in float32 over all rows";
        list.push(Behaviour::statistics("narrow_accumulation", Running, says));
    }
    if cols >= 4096 && problem.dtype().size_bytes() < 8 {
        list.push(Behaviour::statistics(
            "narrow_accumulation",
            Narrow,
            format!("all {cols} columns went into one running sum in float32"),
        ));
    }
    list
}

/// How many columns may be left of a row whose tail is left out.
fn tails(cols: usize) -> Vec<usize> {
    let mut tails: Vec<usize> = [4, 8, 16, 32, 64].iter().map(|lane| cols - cols % lane).collect();
    tails.extend([cols - 1, 256, 512, 1024]);
    tails.retain(|&kept| 0 < kept && kept < cols);
    tails.sort_unstable();
    tails.dedup();
    tails
}

/// Defects that show in dx alone.
pub(super) fn of_gradient(problem: &Problem) -> Vec<Behaviour> {
    use Gradient::*;
    let mixed = |mean, projection, which: &str| {
        Behaviour::gradient("rows_mixed", Mixed { mean, projection }, format!("{which} went over all rows"))
    };
    let weights = |mean, projection| Weights { mean, projection };
    let mut list = vec![
        Behaviour::gradient("gamma_outside_means", GammaOutside, "gamma stood outside both means"),
        Behaviour::gradient("gamma_omitted", GammaOmitted, "there were no gamma in it"),
        Behaviour::gradient("mean_term_missing", weights(0.0, 1.0), "mean(g) were not subtracted"),
        Behaviour::gradient(
            "projection_term_missing",
            weights(1.0, 0.0),
            "xhat · mean(g · xhat) were not subtracted",
        ),
        Behaviour::gradient("projection_term_missing", weights(0.0, 0.0), "neither mean were subtracted"),
        Behaviour::gradient(
            "projection_without_eps",
            UnitProjection,
            "xhat were divided by its own length in the projection, not by sqrt(D)",
        ),
    ];
    for kept in tails(problem.cols()) {
        let says = format!(
            "mean(g) and mean(g · xhat) ended after {kept} of {} columns, divided by all",
            problem.cols()
        );
        list.push(Behaviour::gradient("tail_skipped", Truncated { kept }, says));
    }
    if problem.rows() > 1 {
        list.push(mixed(true, false, "mean(g)"));
        list.push(mixed(false, true, "mean(g · xhat)"));
        list.push(mixed(true, true, "mean(g) and mean(g · xhat)"));
        for row in [0, problem.rows() - 1] {
            let says = format!("the rstd of row {row} stood before the bracket in all rows");
            list.push(Behaviour::gradient("rstd_shared_by_rows", RstdOfRow(row), says));
        }
    }
    list
}

/// Defects that show in dgamma and dbeta alone.
pub(super) fn of_reduction(problem: &Problem) -> Vec<Behaviour> {
    use Reduction::*;
    let rows = problem.rows();
    let mut list = vec![
        Behaviour::reduction("dgamma_uses_x", UsesX { centred: false }, "x stood in the place of xhat"),
        Behaviour::reduction("dgamma_uses_x", UsesX { centred: true }, "x - mean stood in the place of xhat"),
    ];
    if rows == 1 {
        return list;
    }
    for row in [rows - 1, 0] {
        let says = format!("each row overwrote the sum, and only row {row} of {rows} were left");
        list.push(Behaviour::reduction("reduction_overwritten", OnlyRow(row), says));
    }
    let mut averaged = |divisor: usize| {
        let says = format!("the sum over rows were divided by {divisor}");
        list.push(Behaviour::reduction("reduction_averaged", Averaged(divisor), says));
    };
    averaged(rows);
    if let &[b, t, _] = problem.shape()
        && t > 1
    {
        for divisor in [b, t] {
            if divisor > 1 && divisor < rows {
                averaged(divisor);
            }
        }
        let mut part = |first, step, count, says: String| {
            list.push(Behaviour::reduction("reduction_over_one_axis", Part { first, step, count }, says));
        };
        part(0, 1, b, format!("only the first B = {b} of {rows} rows were summed"));
        for batch in [0, b - 1] {
            part(batch * t, 1, t, format!("only the rows of batch {batch} were summed"));
        }
        for token in [0, t - 1] {
            part(token, t, b, format!("only the rows at t = {token} were summed"));
        }
    }
    list
}

/// The answer of a behaviour, without forward's statistics being right or wrong for any other reason.
pub(super) fn answer(problem: &Problem, behaviour: &Behaviour) -> Answers {
    let (rows, cols, wide) = (problem.rows(), problem.cols(), &problem.wide);
    let statistics: Vec<(f64, f64)> = match behaviour.statistics {
        Statistics::Mixed => vec![row_statistics(&wide.x, problem.eps, Statistics::Right); rows],
        Statistics::Running => running_statistics(problem),
        of_row => wide.x.chunks(cols).map(|x| row_statistics(x, problem.eps, of_row)).collect(),
    };
    let rstd_of = |r: usize| match behaviour.statistics {
        Statistics::RstdOfRow(other) => statistics[other].1,
        _ => statistics[r].1,
    };
    let mut answers = Answers {
        y: Vec::with_capacity(rows * cols),
        dx: Vec::with_capacity(rows * cols),
        dgamma: vec![0.0; cols],
        dbeta: vec![0.0; cols],
        rstd: (0..rows).map(rstd_of).collect(),
    };
    let means = gradient_means(problem, behaviour, &statistics, &answers.rstd);
    for r in 0..rows {
        let (mean, rstd) = (statistics[r].0, answers.rstd[r]);
        let range = r * cols..(r + 1) * cols;
        let (x, dy) = (&wide.x[range.clone()], &wide.dy[range]);
        let xhat: Vec<f64> = x.iter().map(|x| (x - mean) * rstd).collect();
        answers.y.extend((0..cols).map(|j| wide.gamma[j] * xhat[j] + wide.beta[j]));
        let (a, c) = means[r];
        let rstd = match behaviour.gradient {
            Gradient::RstdOfRow(other) => answers.rstd[other],
            _ => rstd,
        };
        answers.dx.extend((0..cols).map(|j| {
            let gamma = wide.gamma[j];
            match behaviour.gradient {
                Gradient::GammaOutside => gamma * rstd * (dy[j] - a - xhat[j] * c),
                Gradient::GammaOmitted => rstd * (dy[j] - a - xhat[j] * c),
                _ => rstd * (dy[j] * gamma - a - xhat[j] * c),
            }
        }));
        let Some(weight) = row_weight(behaviour.reduction, r, rows) else { continue };
        for j in 0..cols {
            let factor = match behaviour.reduction {
                Reduction::UsesX { centred } => x[j] - if centred { mean } else { 0.0 },
                _ => xhat[j],
            };
            answers.dgamma[j] += dy[j] * factor * weight;
            answers.dbeta[j] += dy[j] * weight;
        }
    }
    answers
}

/// With what weight a row enters the sums over rows; none where it does not.
fn row_weight(reduction: Reduction, row: usize, rows: usize) -> Option<f64> {
    match reduction {
        Reduction::OnlyRow(only) => (row == only).then_some(1.0),
        Reduction::Averaged(divisor) => Some(1.0 / divisor as f64),
        Reduction::Part { first, step, count } => {
            let inside = row >= first && (row - first).is_multiple_of(step) && (row - first) / step < count;
            (inside && row < rows).then_some(1.0)
        }
        Reduction::Right | Reduction::UsesX { .. } => Some(1.0),
    }
}

fn row_statistics(x: &[f64], eps: f64, statistics: Statistics) -> (f64, f64) {
    let (kept, divisor) = match statistics {
        Statistics::Truncated { kept, divisor } => (kept, divisor),
        _ => (x.len(), x.len()),
    };
    if statistics == Statistics::Narrow {
        return narrow_statistics(x, eps);
    }
    let x = &x[..kept];
    let mean = x.iter().sum::<f64>() / divisor as f64;
    let squares: f64 = x.iter().map(|x| (x - mean) * (x - mean)).sum();
    let var = squares / divisor as f64;
    let rstd = match statistics {
        Statistics::EpsAsFloor => 1.0 / var.max(eps).sqrt(),
        Statistics::EpsOutside => 1.0 / (var.sqrt() + eps),
        Statistics::GuardedDeviation => {
            if var > 0.0 {
                1.0 / var.sqrt()
            } else {
                1.0
            }
        }
        // One column: 0 · inf, as 0 / 0 would be.
        Statistics::Scaled { var: factor, eps } => 1.0 / (var * factor + eps).sqrt(),
        _ => 1.0 / (var + eps).sqrt(),
    };
    (mean, rstd)
}

fn narrow_statistics(x: &[f64], eps: f64) -> (f64, f64) {
    let n = x.len() as f32;
    let mean = x.iter().fold(0.0f32, |sum, &x| sum + x as f32) / n;
    let squares = x.iter().fold(0.0f32, |sum, &x| sum + (x as f32 - mean) * (x as f32 - mean));
    (f64::from(mean), 1.0 / (f64::from(squares / n) + eps).sqrt())
}

/// What is subtracted from g in each row: the mean of g, and the factor of xhat.
fn gradient_means(
    problem: &Problem,
    behaviour: &Behaviour,
    statistics: &[(f64, f64)],
    rstd: &[f64],
) -> Vec<(f64, f64)> {
    let (cols, wide) = (problem.cols(), &problem.wide);
    let (kept, divisor) = match (behaviour.statistics, behaviour.gradient) {
        (Statistics::Truncated { kept, divisor }, _) => (kept, divisor as f64),
        (_, Gradient::Truncated { kept }) => (kept, cols as f64),
        _ => (cols, cols as f64),
    };
    let without_gamma = matches!(behaviour.gradient, Gradient::GammaOutside | Gradient::GammaOmitted);
    let mut means: Vec<(f64, f64)> = (0..problem.rows())
        .map(|r| {
            let (mut sum, mut along, mut square) = (0.0, 0.0, 0.0);
            for j in 0..kept {
                let g = wide.dy[r * cols + j] * if without_gamma { 1.0 } else { wide.gamma[j] };
                let xhat = (wide.x[r * cols + j] - statistics[r].0) * rstd[r];
                sum += g;
                along += g * xhat;
                square += xhat * xhat;
            }
            let (mean, projection) = (sum / divisor, along / divisor);
            match behaviour.gradient {
                Gradient::Weights { mean: p, projection: q } => (p * mean, q * projection),
                Gradient::UnitProjection if square > 0.0 => (mean, along / square),
                _ => (mean, projection),
            }
        })
        .collect();
    if let Gradient::Mixed { mean, projection } = behaviour.gradient {
        let rows = means.len() as f64;
        let all = means.iter().fold((0.0, 0.0), |sum, row| (sum.0 + row.0 / rows, sum.1 + row.1 / rows));
        for row in &mut means {
            *row = (if mean { all.0 } else { row.0 }, if projection { all.1 } else { row.1 });
        }
    }
    means
}

fn running_statistics(problem: &Problem) -> Vec<(f64, f64)> {
    let cols = problem.cols();
    let means_of = |values: &[f32]| -> Vec<f32> {
        let (mut sum, mut before) = (0.0f32, 0.0f32);
        let ends = values.chunks(cols).map(|row| {
            sum = row.iter().fold(sum, |sum, value| sum + value);
            sum
        });
        ends.map(|end| (end - std::mem::replace(&mut before, end)) / cols as f32).collect()
    };
    let x: Vec<f32> = problem.wide.x.iter().map(|&x| x as f32).collect();
    let means = means_of(&x);
    let squares: Vec<f32> =
        x.iter().enumerate().map(|(index, x)| (x - means[index / cols]).powi(2)).collect();
    let variances = means_of(&squares);
    means
        .iter()
        .zip(variances)
        .map(|(&mean, var)| (f64::from(mean), 1.0 / (f64::from(var.max(0.0)) + problem.eps).sqrt()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::oracle::expect;
    use super::super::recipes::{Dy, Gamma, Recipe, X};
    use super::*;
    use crate::Seed;
    use tribunal_contract::{DType, Tensor};

    #[test]
    fn without_a_defect_the_answer_is_the_oracles() {
        let recipe = Recipe { x: X::Deviations, gamma: Gamma::Random, dy: Dy::Normal(1.0), eps: 1e-3 };
        let problem = recipe.draw(Seed::PUBLIC.rng("behaviours"), &[2, 5, 33], DType::Float64);
        let right = expect(&problem);
        let answers = answer(&problem, &Behaviour::RIGHT);
        for (values, right) in [
            (&answers.y, &right.y),
            (&answers.dx, &right.dx),
            (&answers.dgamma, &right.dgamma),
            (&answers.dbeta, &right.dbeta),
        ] {
            let tensor = Tensor::from_f64(DType::Float64, [values.len()], values);
            assert!(crate::compare::compare(&tensor, right).used < 0.5);
        }
    }
}
