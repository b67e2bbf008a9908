//! What must hold, and the calls that show whether it does.

use tribunal_contract::{DType, StateId, Tensor};
use tribunal_runner::MachineError;

use super::cases::{LayerNormCase, Procedure};
use super::directions;
use super::oracle::{Expectations, expect};
use super::problem::Problem;
use super::report::{beyond, hold, wrong_rows};
use super::suspects::{Output, Wrong};
use crate::compare::{Expected, compare};
use crate::direction::Finding;
use crate::lead::some_rows;
use crate::report::{Report, Step, Stop};
use crate::{Court, Observation, Severity};

const LAUNCHES: &str = "can_be_launched";

pub(super) const GRADIENTS: [Output; 3] = [Output::Dx, Output::Dgamma, Output::Dbeta];

/// Why a second backward from the same cache is wrong.
pub(super) const USED_UP: &str = "backward is right once and not again: it uses up its cache";

/// Puts the subject to a case.
pub(super) fn examine(case: &LayerNormCase, court: &mut Court<'_>) -> Result<Vec<Observation>, MachineError> {
    let mut trial = Trial { court, case, report: Report::new(case.severity()) };
    let outcome = match case.kind.procedure {
        Procedure::Plain => trial.plain().map(drop),
        Procedure::RowsApart => trial.rows_apart(),
        Procedure::Shifted => trial.shifted(),
        Procedure::Laws => trial.laws(),
        Procedure::Linear => trial.linear(),
        Procedure::Interleaved => trial.interleaved(),
        Procedure::InterleavedShapes => trial.interleaved_shapes(),
        Procedure::UsedTwice => trial.used_twice(),
        Procedure::LongGamma => trial.long_gamma(),
        Procedure::LongDy => trial.long_dy(),
        Procedure::Directions => trial.directions(),
        Procedure::ManyRows => trial.many_rows(),
    };
    match outcome {
        Err(Stop::Machine(error)) => return Err(error),
        Err(Stop::Fault { call, fault }) => trial.fault(call, &fault)?,
        Ok(()) => {}
    }
    trial.settle()?;
    Ok(trial.report.finish())
}

/// A problem, what should come of it, and the cache that forward made.
pub(super) struct Opened {
    pub(super) problem: Problem,
    pub(super) right: Expectations,
    pub(super) y: Tensor,
    pub(super) cache: StateId,
}

/// The three gradients.
pub(super) struct Gradients {
    dx: Tensor,
    dgamma: Tensor,
    dbeta: Tensor,
}

pub(super) struct Trial<'c, 's, 'k> {
    pub(super) court: &'c mut Court<'s>,
    pub(super) case: &'k LayerNormCase,
    pub(super) report: Report,
}

impl Trial<'_, '_, '_> {
    /// What the oracle says.
    pub(super) fn right(&self, problem: &Problem) -> Expectations {
        self.court.recall(problem, || expect(problem))
    }

    /// Forward, against the oracle.
    pub(super) fn open(&mut self, problem: Problem, context: &str) -> Step<Opened> {
        let right = self.right(&problem);
        let opened = self.forward(problem, right)?;
        self.exhibit("forward", "y", &opened.right.y, &opened.y);
        hold(&mut self.report, &opened.problem, &opened.right, Output::Y, &opened.y, context);
        Ok(opened)
    }

    pub(super) fn forward(&mut self, problem: Problem, right: Expectations) -> Step<Opened> {
        let cache = self.court.new_state();
        let mut answer = self.court.call(&problem.forward(cache)).map_err(Stop::at("forward"))?;
        self.report.conduct("forward", &["x", "gamma", "beta", "eps"], &answer);
        Ok(Opened { y: answer.outputs.remove(0), problem, right, cache })
    }

    /// Backward, unjudged.
    pub(super) fn backward(&mut self, dy: &Tensor, opened: &Opened) -> Step<Gradients> {
        let answer =
            self.court.call(&opened.problem.backward(dy, opened.cache)).map_err(Stop::at("backward"))?;
        self.report.conduct("backward", &["dy", "cache"], &answer);
        let [dx, dgamma, dbeta]: [Tensor; 3] =
            answer.outputs.try_into().expect("the runner has checked the number of results");
        Ok(Gradients { dx, dgamma, dbeta })
    }

    /// Backward, against the oracle.
    pub(super) fn close(&mut self, opened: &Opened, context: &str) -> Step<Gradients> {
        let gradients = self.backward(&opened.problem.dy, opened)?;
        self.compare(&opened.problem, &opened.right, &gradients, context);
        Ok(gradients)
    }

    pub(super) fn compare(
        &mut self,
        problem: &Problem,
        right: &Expectations,
        gradients: &Gradients,
        context: &str,
    ) {
        for (output, actual) in gradients.each() {
            self.exhibit("backward", output.name(), output.of_expectations(right), actual);
            hold(&mut self.report, problem, right, output, actual, context);
        }
    }

    fn exhibit(&mut self, operation: &'static str, name: &str, expected: &Expected, actual: &Tensor) {
        let wide = |values: &[f64]| Tensor::from_f64(DType::Float64, actual.shape(), values);
        self.court.exhibit(operation, "expected", name, || wide(&expected.values));
        self.court.exhibit(operation, "budget", name, || wide(&expected.budget));
    }

    /// Forward and backward against the oracle. Rows that are wrong are tried alone.
    fn plain(&mut self) -> Step<(Opened, Gradients)> {
        let problem = self.case.problem(self.court, 0);
        let opened = self.open(problem, "")?;
        let gradients = self.close(&opened, "")?;
        self.court.release(opened.cache)?;
        for (output, actual) in [(Output::Y, &opened.y), (Output::Dx, &gradients.dx)] {
            self.alone(&opened, output, actual)?;
        }
        Ok((opened, gradients))
    }

    /// As many rows as batches have in training, of next to nothing.
    fn many_rows(&mut self) -> Step<()> {
        let (problem, cache) = (self.case.problem(self.court, 0), self.court.new_state());
        let calls = [problem.forward(cache), problem.backward(&problem.dy, cache)];
        let Some(planned) = self.court.plan(&calls) else { return Ok(()) };
        planned.map_err(|(index, fault)| Stop::Fault { call: calls[index].operation, fault })?;
        self.report.pass(LAUNCHES, None);
        Ok(())
    }

    /// Whether a row that is wrong in the batch is right alone.
    fn alone(&mut self, opened: &Opened, output: Output, actual: &Tensor) -> Step<()> {
        let problem = &opened.problem;
        let wrong = wrong_rows(problem, actual, output.of_expectations(&opened.right));
        let Some(&row) = wrong.first().filter(|_| problem.rows() > 1) else { return Ok(()) };
        if self.is_right(problem.with_rows(&[row]), &[output])? {
            let among = if wrong.len() == 1 { String::new() } else { format!("of {}, ", some_rows(&wrong)) };
            let remark = format!("{among}row {row} is right alone and wrong in a batch");
            self.report.remark(output.check(), &remark);
        }
        Ok(())
    }

    /// Whether those results of a problem are right, tried on the side: nothing of it is reported.
    pub(super) fn is_right(&mut self, problem: Problem, outputs: &[Output]) -> Step<bool> {
        let before = std::mem::replace(&mut self.report, Report::new(Severity::Note));
        let tried = self.answers_of(problem);
        self.report = before;
        match tried {
            Err(Stop::Machine(error)) => Err(error.into()),
            Err(Stop::Fault { .. }) => Ok(false),
            Ok((opened, gradients)) => Ok(outputs.iter().all(|output| {
                let actual = if *output == Output::Y { &opened.y } else { gradients.get(*output) };
                compare(actual, output.of_expectations(&opened.right)).holds()
            })),
        }
    }

    /// Forward and backward, unjudged.
    pub(super) fn answers_of(&mut self, problem: Problem) -> Step<(Opened, Gradients)> {
        let right = self.right(&problem);
        let opened = self.forward(problem, right)?;
        let gradients = self.backward(&opened.problem.dy, &opened)?;
        self.court.release(opened.cache)?;
        Ok((opened, gradients))
    }

    /// Rows alone and in reverse order: their answers are within the same budgets.
    fn rows_apart(&mut self) -> Step<()> {
        let (opened, _) = self.plain()?;
        if self.report.has_failed() {
            return Ok(());
        }
        let rows = opened.problem.rows();
        let reversed: Vec<usize> = (0..rows).rev().collect();
        for order in [vec![0], vec![rows - 1], reversed] {
            let context = if order.len() == 1 {
                format!(" for row {} alone, though right in a batch", order[0])
            } else {
                " when the same rows come in reverse order".to_owned()
            };
            let opened = self.open(opened.problem.with_rows(&order), &context)?;
            self.close(&opened, &context)?;
            self.court.release(opened.cache)?;
        }
        Ok(())
    }

    /// y does not move with x, as long as the move is exact.
    fn shifted(&mut self) -> Step<()> {
        let (opened, _) = self.plain()?;
        if self.report.has_failed() {
            return Ok(());
        }
        let shift = 64.0;
        let x: Vec<f64> = opened.problem.wide.x.iter().map(|x| x + shift).collect();
        let context =
            format!(" after {shift} was added to every x, which changes nothing in exact arithmetic");
        let opened = self.open(opened.problem.with_x(&x), &context)?;
        self.close(&opened, &context)?;
        self.court.release(opened.cache)?;
        Ok(())
    }

    /// Σ dx = 0 and Σ dx · xhat = rstd · Σ g · xhat · eps / (var + eps), in each row.
    fn laws(&mut self) -> Step<()> {
        let (Opened { problem, right, .. }, gradients) = self.plain()?;
        let (cols, wide) = (problem.cols(), &problem.wide);
        let dx = gradients.dx.to_f64();
        let (mut sums, mut products) = (Law::default(), Law::default());
        for (row, &(mean, rstd)) in right.statistics.iter().enumerate() {
            let (mut sum, mut sum_budget, mut product, mut product_budget, mut along) =
                (0.0, 0.0, 0.0, 0.0, 0.0);
            for j in 0..cols {
                let index = row * cols + j;
                let xhat = (wide.x[index] - mean) * rstd;
                sum += dx[index];
                sum_budget += right.dx.budget[index];
                product += dx[index] * xhat;
                product_budget += right.dx.budget[index] * xhat.abs();
                along += wide.dy[index] * wide.gamma[j] * xhat;
            }
            sums.see(row, sum, sum_budget);
            products.see(row, product - rstd.powi(3) * along * problem.eps, product_budget);
        }
        self.law("dx_rows_sum_to_zero", sums, "the sum of a row of dx must be 0, and is");
        self.law(
            "dx_along_xhat",
            products,
            "the sum of dx · xhat over a row must be rstd³ · eps · sum(g · xhat), and is off by",
        );
        Ok(())
    }

    fn law(&mut self, check: &'static str, law: Law, says: &str) {
        if law.used <= 1.0 {
            self.report.pass(check, Some(law.used));
        } else {
            let suspect = self.report.suspect_of(Output::Dx.check());
            let message = format!("{says} {} in row {}", beyond(law.off, law.budget), law.row);
            self.report.fail(check, suspect, message);
        }
    }

    /// Twice dy gives twice the gradients.
    fn linear(&mut self) -> Step<()> {
        let problem = self.case.problem(self.court, 0);
        let opened = self.open(problem, "")?;
        self.close(&opened, "")?;
        let double: Vec<f64> = opened.problem.wide.dy.iter().map(|dy| -2.0 * dy).collect();
        let twice = opened.problem.with_dy(&double);
        let gradients = self.backward(&twice.dy, &opened)?;
        self.court.release(opened.cache)?;
        let before = self.report.has_failed();
        self.compare(
            &twice,
            &self.right(&twice),
            &gradients,
            " for -2 dy, on the cache of the first backward",
        );
        if !before && self.report.has_failed() && self.is_right(twice, &GRADIENTS)? {
            self.report.blame("cache_used_up", USED_UP);
        }
        Ok(())
    }

    /// Forward and backward, and whether what rounding leaves points along a semantic parameter.
    fn directions(&mut self) -> Step<()> {
        let (Opened { problem, right, y, .. }, gradients) = self.plain()?;
        for (output, actual, check) in [
            (Output::Y, &y, "y_error_without_direction"),
            (Output::Dx, &gradients.dx, "dx_error_without_direction"),
        ] {
            if !compare(actual, output.of_expectations(&right)).holds() {
                continue;
            }
            let wrong = Wrong { problem: &problem, right: &right, output, actual };
            Finding::report(directions::strongest(wrong), &mut self.report, check, output.name());
        }
        Ok(())
    }
}

/// The row where a law is broken most.
#[derive(Default)]
struct Law {
    used: f64,
    off: f64,
    budget: f64,
    row: usize,
}

impl Law {
    fn see(&mut self, row: usize, off: f64, budget: f64) {
        let used = if off == 0.0 { 0.0 } else { (off / budget).abs() };
        if !(used <= self.used) {
            *self = Self { used: if used.is_nan() { f64::INFINITY } else { used }, off, budget, row };
        }
    }
}

impl Gradients {
    pub(super) fn each(&self) -> [(Output, &Tensor); 3] {
        [(Output::Dx, &self.dx), (Output::Dgamma, &self.dgamma), (Output::Dbeta, &self.dbeta)]
    }

    pub(super) fn get(&self, output: Output) -> &Tensor {
        match output {
            Output::Dgamma => &self.dgamma,
            Output::Dbeta => &self.dbeta,
            Output::Y | Output::Dx => &self.dx,
        }
    }
}
