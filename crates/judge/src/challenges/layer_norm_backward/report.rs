//! What a case saw, in a kernel author's words.

use tribunal_contract::{Answer, DType, Fault, Tensor};
use tribunal_runner::{MachineError, Trouble};

use super::oracle::Expectations;
use super::problem::Problem;
use super::suspects::{Lead, Output, Wrong, budgets, leads, shorten, shows_everywhere};
use crate::compare::{Expected, compare};
use crate::{Observation, Outcome, Severity, conduct};

/// How many elements a result must have to be named by what it equals alone.
const ENOUGH_TO_NAME: usize = 16;

/// Why a case went no further.
pub(super) enum Stop {
    /// The machine's fault.
    Machine(MachineError),
    /// The submission's fault, in that call.
    Fault { call: &'static str, fault: Fault },
}

impl Stop {
    pub(super) fn at(call: &'static str) -> impl FnOnce(Trouble) -> Self {
        move |trouble| match trouble {
            Trouble::Machine(error) => Self::Machine(error),
            Trouble::Fault(fault) => Self::Fault { call, fault },
        }
    }
}

impl From<MachineError> for Stop {
    fn from(error: MachineError) -> Self {
        Self::Machine(error)
    }
}

/// One wrong result, kept until it is named.
pub(super) struct Suspicion {
    pub(super) output: Output,
    pub(super) leads: Vec<Lead>,
    /// Where its observation is.
    observation: usize,
}

/// The observations of a case.
pub(super) struct Report {
    severity: Severity,
    observations: Vec<Observation>,
    suspicions: Vec<Suspicion>,
}

impl Report {
    pub(super) fn new(severity: Severity) -> Self {
        Self { severity, observations: Vec::new(), suspicions: Vec::new() }
    }

    pub(super) fn finish(self) -> Vec<Observation> {
        self.observations
    }

    pub(super) fn pass(&mut self, check: &'static str, used: Option<f64>) {
        self.add(Observation::pass(check, used));
    }

    pub(super) fn fail(&mut self, check: &'static str, suspect: Option<&'static str>, message: String) {
        let severity = self.severity;
        self.add(Observation { check, outcome: Outcome::Fail, severity, message, suspect, used: None });
    }

    /// Fails a check that spoils nothing.
    pub(super) fn fail_lightly(
        &mut self,
        check: &'static str,
        suspect: Option<&'static str>,
        message: String,
    ) {
        let severity = Severity::Minor;
        self.add(Observation { check, outcome: Outcome::Fail, severity, message, suspect, used: None });
    }

    pub(super) fn note(&mut self, check: &'static str, message: String) {
        self.add(Observation { message, ..Observation::pass(check, None) });
    }

    /// Adds an observation. A check has one in a case: a second one replaces the first if it is worse.
    fn add(&mut self, observation: Observation) -> usize {
        let known = self.observations.iter().position(|other| other.check == observation.check);
        let Some(index) = known else {
            self.observations.push(observation);
            return self.observations.len() - 1;
        };
        let old = &mut self.observations[index];
        if old.outcome == Outcome::Pass {
            let used = old.used.into_iter().chain(observation.used).reduce(f64::max);
            *old = Observation { used, ..observation };
        }
        index
    }

    pub(super) fn has_failed(&self) -> bool {
        self.observations.iter().any(|observation| observation.outcome != Outcome::Pass)
    }

    /// Whether one of these results was wrong.
    pub(super) fn has_failed_any(&self, outputs: &[Output]) -> bool {
        self.observations
            .iter()
            .any(|o| o.outcome != Outcome::Pass && outputs.iter().any(|output| output.check() == o.check))
    }

    /// The suspect of a check, if it failed and is named.
    pub(super) fn suspect_of(&self, check: &str) -> Option<&'static str> {
        self.observations.iter().find(|observation| observation.check == check).and_then(|o| o.suspect)
    }

    /// What a call did besides answering.
    pub(super) fn conduct(&mut self, call: &'static str, inputs: &[&str], answer: &Answer) {
        for observation in conduct::of_answer(call, inputs, answer, self.severity) {
            self.add(observation);
        }
    }

    /// A call that gave no answer where it should have.
    pub(super) fn fault(&mut self, problem: &Problem, call: &'static str, fault: &Fault) {
        let call = format!("{call} on valid input, x {}", problem.full());
        let mut observation = conduct::of_fault(&call, fault, self.severity);
        if matches!(fault, Fault::WrongResult { message } if names_other_dtype(problem, message)) {
            observation.suspect = Some("wrong_dtype");
        }
        self.add(observation);
    }

    /// Compares a result with the oracle's.
    pub(super) fn compare(
        &mut self,
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
            self.pass(output.check(), Some(comparison.used));
            return;
        }
        let leads = leads(Wrong { problem, right, output, actual });
        let mut message =
            format!("{} is wrong{context}: {}", output.name(), describe(problem, output, actual, expected));
        for (index, lead) in leads.iter().enumerate() {
            let join = if index == 0 { "; " } else { ", or " };
            message += &format!("{join}{}", lead.says);
        }
        // A few numbers agree with much: then another input must say the same.
        let suspect = match leads.as_slice() {
            [only] if actual.len() >= ENOUGH_TO_NAME => Some(only.suspect),
            _ => None,
        };
        let observation = self.add(Observation {
            check: output.check(),
            outcome: Outcome::Fail,
            severity: self.severity,
            message,
            suspect,
            used: Some(comparison.used),
        });
        if suspect.is_none() {
            self.suspicions.push(Suspicion { output, leads, observation });
        }
    }

    /// Gives the wrong results that have no name, or more than one, the name of another result of the same case, where
    /// that defect shows in all of them.
    pub(super) fn inherit(&mut self) {
        let mut names: Vec<&'static str> = self
            .observations
            .iter()
            .filter(|observation| observation.check.ends_with("_within_budget"))
            .filter_map(|observation| observation.suspect)
            .collect();
        names.dedup();
        let [name] = names[..] else { return };
        if shows_everywhere(name) {
            self.settle(|_, _| Some(name), "as in the other results");
        }
    }

    /// Whether some wrong result has no name yet.
    pub(super) fn is_unsettled(&self) -> bool {
        !self.suspicions.is_empty()
    }

    /// Names what `name` can name.
    pub(super) fn settle(&mut self, name: impl Fn(Output, &[Lead]) -> Option<&'static str>, reason: &str) {
        let observations = &mut self.observations;
        self.suspicions.retain(|suspicion| {
            let Some(suspect) = name(suspicion.output, &suspicion.leads) else { return true };
            let observation = &mut observations[suspicion.observation];
            observation.suspect = Some(suspect);
            observation.message += &format!(" ({reason}: {suspect})");
            false
        });
    }

    /// Puts a name to failures that have none, and says why.
    pub(super) fn blame(&mut self, suspect: &'static str, why: &str) {
        self.suspicions.clear();
        for observation in &mut self.observations {
            if observation.outcome == Outcome::Fail {
                observation.suspect = Some(suspect);
                observation.message = format!("{why}; {}", observation.message);
            }
        }
    }

    /// Adds a sentence to a failed check.
    pub(super) fn remark(&mut self, check: &str, remark: &str) {
        if let Some(observation) = self.observations.iter_mut().find(|o| o.check == check) {
            observation.message += &format!("; {remark}");
        }
    }
}

/// Whether what is said of a result names a dtype that no argument had.
fn names_other_dtype(problem: &Problem, message: &str) -> bool {
    DType::ALL.iter().any(|&dtype| dtype != problem.dtype() && message.contains(dtype.name()))
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
    let digits = |value: f64| if value.is_finite() { format!("{value:.7}") } else { value.to_string() };
    let (got, should) = if should.abs() < 1e-3 || should.abs() >= 1e6 {
        (format!("{got:e}"), format!("{should:e}"))
    } else {
        (digits(got), digits(should))
    };
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

/// A list of rows for people: the first few and how many more.
pub(super) fn some_rows(rows: &[usize]) -> String {
    let shown: Vec<String> = rows.iter().take(3).map(ToString::to_string).collect();
    let more = rows.len().saturating_sub(3);
    let noun = if rows.len() == 1 { "row" } else { "rows" };
    if more > 0 {
        format!("{noun} {} and {more} more", shown.join(", "))
    } else {
        format!("{noun} {}", shown.join(", "))
    }
}

/// "4.2e-3 where at most 1e-6 is rounding".
pub(super) fn beyond(sum: f64, budget: f64) -> String {
    format!("{} where {} is all that rounding can do", shorten(sum), shorten(budget))
}
