//! Calls that must not disturb each other, input that must be refused, and experiments that tell defects apart.

use tribunal_contract::{Fault, Tensor};
use tribunal_runner::MachineError;

use super::checks::{GRADIENTS, Gradients, Opened, Trial, USED_UP};
use super::problem::Problem;
use super::recipes::{Dy, Gamma, Recipe, X};
use super::report::{answers_not, inherit};
use super::suspects::{Output, Wrong, leads};
use crate::Severity;
use crate::lead::Lead;
use crate::report::{Report, Step, Stop};

/// Caches that are alive at a time.
const LAYERS: usize = 5;

impl Trial<'_, '_, '_> {
    /// Forwards of several problems of one shape, as the layers of a network are, then their backwards.
    pub(super) fn interleaved(&mut self) -> Step<()> {
        let problems = (0..LAYERS).map(|which| self.case.problem(self.court, which)).collect();
        self.interleave(problems)
    }

    /// The same with three shapes.
    pub(super) fn interleaved_shapes(&mut self) -> Step<()> {
        let shape = &self.case.shape;
        let halved: Vec<usize> = shape.iter().map(|extent| extent.div_ceil(2)).collect();
        let mut longer = shape.clone();
        longer[0] += 3;
        let shapes = [shape.clone(), halved, longer];
        let problems =
            (0..3).map(|which| self.case.problem_of_shape(self.court, which, &shapes[which])).collect();
        self.interleave(problems)
    }

    fn interleave(&mut self, problems: Vec<Problem>) -> Step<()> {
        let first = problems[0].clone();
        let result = self.forwards_then_backwards(&problems);
        let faulted = match result {
            Err(Stop::Fault { call, fault }) => {
                answers_not(&mut self.report, &first, call, &fault);
                true
            }
            other => {
                other?;
                false
            }
        };
        // What is right without the others in between is wrong because of them.
        if faulted || self.report.has_failed_any(&GRADIENTS.map(Output::check)) {
            for problem in problems {
                if !self.is_right(problem, &GRADIENTS)? {
                    return Ok(());
                }
            }
            self.report.blame(
                "cache_shared",
                "backward is right directly after its forward, and wrong when other forwards come between: the \
                 cache is shared",
            );
        }
        Ok(())
    }

    fn forwards_then_backwards(&mut self, problems: &[Problem]) -> Step<()> {
        let mut opened = Vec::new();
        for problem in problems {
            opened.push(self.open(problem.clone(), "")?);
        }
        for (index, opened) in opened.iter().enumerate() {
            let context = format!(" for forward {} after {} forwards", index + 1, problems.len());
            self.close(opened, &context)?;
        }
        for opened in opened {
            self.court.release(opened.cache)?;
        }
        Ok(())
    }

    /// One cache for the same gradient twice, then for another.
    pub(super) fn used_twice(&mut self) -> Step<()> {
        let problem = self.case.problem(self.court, 0);
        let opened = self.open(problem, "")?;
        self.close(&opened, "")?;
        if self.report.has_failed() {
            return Ok(());
        }
        let other: Vec<f64> = opened.problem.wide.dy.iter().rev().copied().collect();
        let other = opened.problem.with_dy(&other);
        let again =
            self.again(&opened, &opened.problem.dy.clone(), " the second time that backward uses its cache");
        let again = again.and_then(|()| {
            let gradients = self.backward(&other.dy, &opened)?;
            self.compare(
                &other,
                &self.right(&other),
                &gradients,
                " the third time that backward uses its cache",
            );
            Ok(())
        });
        if let Err(Stop::Fault { call, fault }) = again {
            answers_not(&mut self.report, &opened.problem, call, &fault);
        } else {
            again?;
        }
        if self.report.has_failed() && self.is_right(other, &GRADIENTS)? {
            self.report.blame("cache_used_up", USED_UP);
        }
        self.court.release(opened.cache)?;
        Ok(())
    }

    fn again(&mut self, opened: &Opened, dy: &Tensor, context: &str) -> Step<()> {
        let gradients = self.backward(dy, opened)?;
        self.compare(&opened.problem, &opened.right, &gradients, context);
        Ok(())
    }

    /// Gamma and beta are a column longer than x.
    pub(super) fn long_gamma(&mut self) -> Step<()> {
        let mut problem = self.case.problem(self.court, 0);
        let longer = |values: &[f64]| {
            let values: Vec<f64> = values.iter().copied().chain([1.0]).collect();
            Tensor::from_f64(problem.dtype(), [values.len()], &values)
        };
        let (gamma, beta) = (longer(&problem.wide.gamma), longer(&problem.wide.beta));
        let what = format!("forward of gamma and beta {} for rows of {}", gamma.spec(), problem.cols());
        (problem.gamma, problem.beta) = (gamma, beta);
        let right = self.right(&problem);
        self.court.doubt(true);
        let outcome = self.forward(problem, right).map(drop);
        self.court.doubt(false);
        let refusal = self.court.refusal("forward", "elements(gamma) != D || elements(beta) != D");
        self.report.must_be_refused(outcome, &what, refusal)
    }

    /// dy has a row more than x.
    pub(super) fn long_dy(&mut self) -> Step<()> {
        let problem = self.case.problem(self.court, 0);
        let right = self.right(&problem);
        // Whether y is right is for other cases to say.
        let opened = self.forward(problem, right)?;
        let mut shape = opened.problem.shape().to_vec();
        shape[0] += 1;
        let count = shape.iter().product();
        let dy = Tensor::from_f64(opened.problem.dtype(), shape, &vec![0.5; count]);
        let call = opened.problem.backward(&dy, opened.cache);
        let what = format!("backward of dy {} for x {}", dy.spec(), opened.problem.full());
        self.court.doubt(true);
        let outcome = self.court.call(&call).map(drop).map_err(Stop::at("backward"));
        self.court.doubt(false);
        let refusal = self.court.refusal("backward", "elements(dy) != elements(x)");
        self.report.must_be_refused(outcome, &what, refusal)
    }

    /// A fault where an answer was due, and what explains it.
    pub(super) fn fault(&mut self, call: &'static str, fault: &Fault) -> Result<(), MachineError> {
        let problem = self.case.problem(self.court, 0);
        answers_not(&mut self.report, &problem, call, fault);
        let is_shape = matches!(fault, Fault::WrongResult { .. });
        if is_shape && call == "backward" && problem.shape().len() == 3 {
            let right = self.is_right(problem.flat(), &GRADIENTS).or_else(machine_only)?;
            if right {
                self.report.blame(
                    "reduction_over_one_axis",
                    "the same numbers as (rows, D) are answered rightly, as (B, T, D) they are not: dgamma and dbeta \
                     are sums over all axes but the last",
                );
            }
        }
        Ok(())
    }

    /// Gives names to wrong results that have none, or several: from the other results, then from a probe made to tell
    /// defects apart.
    pub(super) fn settle(&mut self) -> Result<(), MachineError> {
        inherit(&mut self.report);
        if !self.report.is_unsettled() {
            return Ok(());
        }
        let names = self.probe()?;
        let named = |check: &str, leads: &[Lead]| {
            let candidates =
                names.iter().find(|(of, _)| of.check() == check).map(|(_, leads)| leads.as_slice())?;
            let fits = |lead: &&Lead| leads.is_empty() || leads.iter().any(|l| l.suspect == lead.suspect);
            let fitting: Vec<&Lead> = candidates.iter().filter(fits).collect();
            match fitting[..] {
                [only] => Some(only.suspect),
                _ => None,
            }
        };
        self.report.settle(named, "on an input that tells such defects apart");
        inherit(&mut self.report);
        Ok(())
    }

    /// What each result of a small problem looks like in which rows differ in scale, eps matters, gamma is random and
    /// there are three axes: no two known defects answer it alike.
    fn probe(&mut self) -> Result<Vec<(Output, Vec<Lead>)>, MachineError> {
        let recipe = Recipe { x: X::Deviations, gamma: Gamma::Random, dy: Dy::Normal(1.0), eps: 2e-3 };
        let problem = recipe.draw(self.court.seed.rng("probe"), &[2, 3, 13], self.case.dtype);
        let before = std::mem::replace(&mut self.report, Report::new(Severity::Note));
        let tried = self.answers_of(problem);
        self.report = before;
        let (opened, gradients): (Opened, Gradients) = match tried {
            Err(Stop::Machine(error)) => return Err(error),
            Err(Stop::Fault { .. }) => return Ok(Vec::new()),
            Ok(answers) => answers,
        };
        let look = |(output, actual): (Output, &Tensor)| {
            let wrong = Wrong { problem: &opened.problem, right: &opened.right, output, actual };
            let within = crate::compare::compare(actual, output.of_expectations(&opened.right)).holds();
            (output, if within { Vec::new() } else { leads(wrong) })
        };
        Ok([(Output::Y, &opened.y)].into_iter().chain(gradients.each()).map(look).collect())
    }
}

fn machine_only(stop: Stop) -> Result<bool, MachineError> {
    match stop {
        Stop::Machine(error) => Err(error),
        Stop::Fault { .. } => Ok(false),
    }
}
