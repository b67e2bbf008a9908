//! What must hold, and the calls that show whether it does.

use tribunal_contract::{DType, Fault, Tensor};
use tribunal_runner::MachineError;

use super::answer::Answer;
use super::cases::{Procedure, TopkCase};
use super::diagnosis::{Seen, Wrong};
use super::directions;
use super::oracle::{Row, expect};
use super::problem::Problem;
use super::recipes::Logits;
use crate::compare::compare;
use crate::direction::Finding;
use crate::lead::{Lead, budgets, digits, some_rows};
use crate::report::{Report, Step, Stop};
use crate::{Court, Observation, Severity};

const VALID: &str = "indices_valid";
const PROBS: &str = "probs_within_budget";
const WINNERS: &str = "indices_name_winners";
const NO_SOFTMAX: &str = "no_softmax_made_up";
const LAUNCHES: &str = "can_be_launched";

/// How many entries an answer must have to be named by what it equals alone.
const ENOUGH_TO_NAME: usize = 8;

/// Puts the subject to a case.
pub(super) fn examine(case: &TopkCase, court: &mut Court<'_>) -> Result<Vec<Observation>, MachineError> {
    let mut trial = Trial { court, case, report: Report::new(case.severity()) };
    let outcome = match case.kind.procedure {
        Procedure::Plain => trial.plain().map(drop),
        Procedure::RowsApart => trial.rows_apart(),
        Procedure::Permuted => trial.permuted(),
        Procedure::Shifted => trial.shifted(),
        Procedure::AddsUp => trial.adds_up(),
        Procedure::Interleaved => trial.interleaved(),
        Procedure::TooMany => trial.too_many(),
        Procedure::Directions => trial.directions(),
        Procedure::ManyRows => trial.many_rows(),
    };
    match outcome {
        Err(Stop::Machine(error)) => return Err(error),
        Err(Stop::Fault { call, fault }) => trial.fault(call, &fault),
        Ok(()) => {}
    }
    trial.settle()?;
    Ok(trial.report.finish())
}

/// A problem, what should come of it, and what came.
struct Heard {
    problem: Problem,
    right: Vec<Row>,
    answer: Answer,
}

impl Heard {
    fn wrong(&self) -> Wrong<'_> {
        Wrong { problem: &self.problem, right: &self.right, answer: &self.answer }
    }

    /// The rows in which something is wrong.
    fn wrong_rows(&self) -> Vec<usize> {
        let is_wrong = |seen: &Seen<'_>| {
            self.answer.invalid(seen.row, self.problem.vocab()).is_some()
                || !seen.selects_rightly()
                || !compare(&wide(seen.probs), &seen.right.expected()).holds()
        };
        self.wrong().rows().iter().filter(|seen| is_wrong(seen)).map(|seen| seen.row).collect()
    }
}

struct Trial<'c, 's, 'k> {
    court: &'c mut Court<'s>,
    case: &'k TopkCase,
    report: Report,
}

impl Trial<'_, '_, '_> {
    fn ask(&mut self, problem: Problem) -> Step<Heard> {
        let right = self.court.recall(&problem, || expect(&problem));
        let answer = self.court.call(&problem.call()).map_err(Stop::at("softmax_topk"))?;
        self.report.conduct("softmax_topk", &["logits", "k"], &answer);
        let answer = Answer::new(&problem, &answer.outputs);
        Ok(Heard { problem, right, answer })
    }

    /// Asks, and compares with the oracle.
    fn hold(&mut self, problem: Problem, context: &str) -> Step<Heard> {
        let heard = self.ask(problem)?;
        self.exhibit(&heard);
        self.hold_probs(&heard, context);
        let indices = self.index_trouble(&heard, context);
        let winners = self.winner_trouble(&heard, context);
        if indices.is_some() || winners.is_some() {
            let leads = heard.wrong().leads_of_selection();
            for (check, trouble) in [(VALID, indices), (WINNERS, winners)] {
                if let Some((message, used)) = trouble {
                    self.report.wrong(check, message, used, leads.clone(), is_telling(&heard));
                }
            }
        }
        self.hold_rows_without_softmax(&heard, context);
        Ok(heard)
    }

    /// Expected values and budgets, for a replay. A row that has no softmax is left as it was answered: several answers are right.
    fn exhibit(&mut self, heard: &Heard) {
        let Heard { problem, answer, .. } = heard;
        let values = |given: &dyn Fn(usize) -> Vec<f64>, due: &dyn Fn(&Seen<'_>) -> Vec<f64>| {
            let mut rows: Vec<Vec<f64>> = (0..problem.rows()).map(given).collect();
            for seen in heard.wrong().rows() {
                rows[seen.row] = due(&seen);
            }
            Tensor::from_f64(DType::Float64, problem.outputs().remove(0).shape, &rows.concat())
        };
        let given_probs = |row| answer.probs(row).to_vec();
        let given_indices = |row| answer.indices(row).iter().map(|&index| index as f64).collect();
        let none = |_| vec![0.0; problem.k];
        let right_indices =
            |seen: &Seen<'_>| seen.right_indices(problem.row(seen.row), answer.indices(seen.row));
        let mut show =
            |role, name, tensor: &dyn Fn() -> Tensor| self.court.exhibit("softmax_topk", role, name, tensor);
        show("expected", "probs", &|| values(&given_probs, &|seen| seen.right.expected().values));
        show("budget", "probs", &|| values(&none, &|seen| seen.right.expected().budget));
        show("expected", "indices", &|| values(&given_indices, &right_indices));
        show("budget", "indices", &|| values(&none, &|_| none(0)));
    }

    /// Indices are entries of the row, each named once. Otherwise what is wrong, and by how much.
    fn index_trouble(&mut self, heard: &Heard, context: &str) -> Option<(String, Option<f64>)> {
        let vocab = heard.problem.vocab();
        let wrong = heard.wrong();
        let invalid: Vec<_> = wrong
            .rows()
            .iter()
            .filter_map(|seen| Some((seen.row, heard.answer.invalid(seen.row, vocab)?)))
            .collect();
        let Some((row, first)) = invalid.first() else {
            self.report.pass(VALID, None);
            return None;
        };
        let message = format!(
            "indices are wrong{context}: in {} of {} rows; in row {row} {first}",
            invalid.len(),
            heard.problem.rows()
        );
        Some((message, None))
    }

    /// Probabilities are those of the ranks.
    fn hold_probs(&mut self, heard: &Heard, context: &str) {
        let (mut used, mut worst, mut rows) = (0.0f64, None, Vec::new());
        for seen in heard.wrong().rows() {
            let expected = seen.right.expected();
            let comparison = compare(&wide(seen.probs), &expected);
            if !comparison.holds() {
                rows.push(seen.row);
            }
            if !(comparison.used <= used) || worst.is_none() {
                used = comparison.used;
                let rank = comparison.worst;
                worst = Some((seen.row, rank, seen.probs[rank], expected.values[rank]));
            }
        }
        if rows.is_empty() {
            return self.report.pass(PROBS, Some(used));
        }
        let (row, rank, got, due) = worst.expect("a row is wrong");
        let off = if used.is_finite() { format!(", {} off", budgets(used)) } else { String::new() };
        let message = format!(
            "probs are wrong{context}: in {} of {} rows, worst at row {row}, rank {rank}: got {}, should be {}{off}",
            rows.len(),
            heard.problem.rows(),
            digits(got),
            digits(due)
        );
        let leads = heard.wrong().leads_of_probs();
        self.report.wrong(PROBS, message, Some(used), leads, is_telling(heard));
    }

    /// Every index names an entry that is as probable as its rank asks. Otherwise what is wrong, and by how much.
    fn winner_trouble(&mut self, heard: &Heard, context: &str) -> Option<(String, Option<f64>)> {
        let (mut used, mut worst, mut rows) = (0.0f64, None, Vec::new());
        for seen in heard.wrong().rows() {
            let misplaced = |rank| seen.right.misplacement(rank, seen.named[rank]);
            for rank in 0..seen.named.len() {
                let off = misplaced(rank);
                if !(off <= 1.0) && rows.last() != Some(&seen.row) {
                    rows.push(seen.row);
                }
                if !(off <= used) {
                    used = if off.is_nan() { f64::INFINITY } else { off };
                    worst = Some((seen.row, rank, seen.named[rank], seen.right.logits[rank]));
                }
            }
        }
        let Some((row, rank, named, due)) = worst.filter(|_| !rows.is_empty()) else {
            self.report.pass(WINNERS, Some(used));
            return None;
        };
        let index = heard.answer.indices(row)[rank];
        let found = if named.is_nan() {
            format!("index {index} names no entry")
        } else {
            format!("index {index} names the logit {}", digits(named))
        };
        let message = format!(
            "indices name the wrong entries{context}: in {} of {} rows; at row {row}, rank {rank}, {found}, where {} has its \
             place",
            rows.len(),
            heard.problem.rows(),
            digits(due)
        );
        Some((message, Some(used)))
    }

    /// A row that has no softmax is answered with nothing that could be taken for one.
    fn hold_rows_without_softmax(&mut self, heard: &Heard, context: &str) {
        let vocab = heard.problem.vocab();
        let mut any = false;
        for (row, right) in heard.right.iter().enumerate() {
            let (what, even) = match right {
                Row::Winners(_) => continue,
                Row::Nan => ("has a NaN", None),
                Row::Masked => ("is all -inf", Some(1.0 / vocab as f64)),
            };
            any = true;
            let (probs, indices) = (heard.answer.probs(row), heard.answer.indices(row));
            let all = |is: &dyn Fn(f64) -> bool| probs.iter().all(|&prob| is(prob));
            let evenly = even.is_some_and(|due| all(&|prob| (prob - due).abs() <= 1e-5 * due));
            let names = |index: &i64| (-1..vocab as i64).contains(index);
            let is_none = all(&f64::is_nan) || all(&|prob| prob == 0.0) || evenly;
            if !indices.iter().all(names) || !is_none {
                let rank = telling_rank(probs, |rank| names(&indices[rank]));
                let message = format!(
                    "row {row} {what}, has no softmax, and gets one{context}: first {} at index {}",
                    digits(probs[rank]),
                    indices[rank]
                );
                // Whose indices are none wherever one looks has made up no softmax.
                let has_softmax = |row: usize| matches!(heard.right[row], Row::Winners(_));
                let are_none_anyhow = (0..heard.right.len())
                    .any(|row| has_softmax(row) && !heard.answer.indices(row).iter().all(names));
                let suspect = (!is_none || !are_none_anyhow).then_some("made_up_softmax");
                return self.report.fail(NO_SOFTMAX, suspect, message);
            }
        }
        if any {
            self.report.pass(NO_SOFTMAX, None);
        }
    }

    /// One call against the oracle.
    fn plain(&mut self) -> Step<Heard> {
        let problem = self.case.problem(self.court, 0);
        let refusable =
            matches!(self.case.kind.logits, Logits::MaskedRow | Logits::NanRow | Logits::MaskedNan);
        match self.hold(problem.clone(), "") {
            // To refuse is one of the right answers.
            Err(Stop::Fault { fault, .. }) if refusable && fault.refuses() => {
                self.report.pass(NO_SOFTMAX, None);
                let has_softmax = |row: &[f64]| {
                    row.iter().all(|logit| !logit.is_nan())
                        && row.iter().any(|&logit| logit > f64::NEG_INFINITY)
                };
                let usual: Vec<usize> =
                    (0..problem.rows()).filter(|&row| has_softmax(problem.row(row))).collect();
                self.hold(problem.with_rows(&usual), " without rows that have no softmax")
            }
            other => other,
        }
    }

    /// As many rows as batches have in training, of next to nothing.
    fn many_rows(&mut self) -> Step<()> {
        let problem = self.case.problem(self.court, 0);
        let Some(planned) = self.court.plan(&[problem.call()]) else { return Ok(()) };
        planned.map_err(|(_, fault)| Stop::Fault { call: "softmax_topk", fault })?;
        self.report.pass(LAUNCHES, None);
        Ok(())
    }

    /// Rows alone and in reverse order.
    fn rows_apart(&mut self) -> Step<()> {
        let heard = self.plain()?;
        if self.report.has_failed() {
            return Ok(());
        }
        let rows = heard.problem.rows();
        for order in [vec![0], vec![rows - 1], (0..rows).rev().collect()] {
            let context = if order.len() == 1 {
                format!(" for row {} alone, though right in a batch", order[0])
            } else {
                " when the same rows come in reverse order".to_owned()
            };
            self.hold(heard.problem.with_rows(&order), &context)?;
        }
        Ok(())
    }

    /// The vocabulary in another order.
    fn permuted(&mut self) -> Step<()> {
        let heard = self.plain()?;
        let (problem, vocab) = (&heard.problem, heard.problem.vocab());
        // A step that has no divisor in common with the vocabulary visits every entry once.
        let step = (vocab / 3..vocab).find(|&step| coprime(step, vocab)).unwrap_or(1);
        let permuted: Vec<f64> = (0..problem.wide.len())
            .map(|index| problem.row(index / vocab)[index % vocab * step % vocab])
            .collect();
        self.hold(problem.with_logits(&permuted), " after the vocabulary was permuted").map(drop)
    }

    /// A constant added to every logit.
    fn shifted(&mut self) -> Step<()> {
        let heard = self.plain()?;
        if self.report.has_failed() {
            return Ok(());
        }
        let shift = 64.0;
        let logits: Vec<f64> = heard.problem.wide.iter().map(|logit| logit + shift).collect();
        let context = format!(" after {shift} was added to every logit, which changes no probability");
        self.hold(heard.problem.with_logits(&logits), &context).map(drop)
    }

    /// The probabilities of all entries add up to 1.
    fn adds_up(&mut self) -> Step<()> {
        let heard = self.plain()?;
        for seen in heard.wrong().rows() {
            let sum: f64 = seen.probs.iter().sum();
            let budget: f64 = seen.right.expected().budget.iter().sum();
            if !((sum - 1.0).abs() <= budget) {
                let suspect = self.report.suspect_of(PROBS);
                let message =
                    format!("the probabilities of all entries of row {} add up to {}", seen.row, digits(sum));
                self.report.fail("probs_add_up", suspect, message);
                return Ok(());
            }
        }
        self.report.pass("probs_add_up", None);
        Ok(())
    }

    /// The errors of many rows point nowhere.
    fn directions(&mut self) -> Step<()> {
        let heard = self.plain()?;
        if !self.report.has_failed() {
            let found = directions::strongest(&heard.wrong());
            Finding::report(found, &mut self.report, "probs_error_without_direction", "probs");
        }
        Ok(())
    }

    /// Shapes that change from call to call, and the first again: nothing of one call is left for the next.
    fn interleaved(&mut self) -> Step<()> {
        let shape = &self.case.shape;
        let halved: Vec<usize> = shape.iter().map(|extent| extent.div_ceil(2)).collect();
        let mut longer = shape.clone();
        longer[1] += 3;
        let shapes = [shape.clone(), halved, longer];
        for which in [0, 1, 2, 0] {
            let problem = self.case.problem_of_shape(self.court, which, &shapes[which]);
            let context =
                format!(" in a call that follows calls of other shapes, logits {}", problem.logits.spec());
            self.hold(problem, &context)?;
        }
        Ok(())
    }

    /// More winners than there are entries.
    fn too_many(&mut self) -> Step<()> {
        let problem = self.case.problem(self.court, 0);
        let (k, vocab) = (problem.k, problem.vocab());
        let what = format!("k = {k} of {vocab} entries");
        self.court.doubt(true);
        let heard = self.ask(problem);
        self.court.doubt(false);
        let refusal = self.court.refusal("softmax_topk", "k > V");
        let heard = match heard {
            Ok(heard) => heard,
            Err(stop) => return self.report.must_be_refused(Err(stop), &what, refusal),
        };
        let broken = heard.wrong().rows().iter().find_map(|seen| {
            let (row, indices) = (seen.row, heard.answer.indices(seen.row));
            if !compare(&wide(&seen.probs[..vocab]), &seen.right.expected()).holds() {
                return Some(format!("the first {vocab} probabilities of row {row} are wrong"));
            }
            let rank = (vocab..k).find(|&rank| seen.probs[rank] != 0.0 || indices[rank] != -1)?;
            let (prob, index) = (digits(seen.probs[rank]), indices[rank]);
            Some(format!("rank {rank} of row {row} has probability {prob} and index {index}"))
        });
        let Some(broken) = broken else {
            self.report.pass("refuses_invalid_input", None);
            return Ok(());
        };
        let what = format!("{what} ({broken})");
        self.report.must_be_refused(Ok(()), &what, refusal)
    }

    /// A fault where an answer was due.
    fn fault(&mut self, call: &str, fault: &Fault) {
        let problem = self.case.problem(self.court, 0);
        let call = format!("{call} on valid input, logits {}, k {}", problem.logits.spec(), problem.k);
        let dtypes = [problem.logits.dtype(), DType::Float32, DType::Int32, DType::Int64];
        self.report.fault(&call, &dtypes, fault);
        let float_indices = |message: &str| message.contains("indices") && message.contains("got float");
        if matches!(fault, Fault::WrongResult { message } if float_indices(message)) {
            self.report.blame(
                "float_indices",
                "indices are floating-point numbers, which name no entry beyond 2^24",
            );
        }
    }

    /// Gives names to wrong results that have none, or several: by the rows tried alone, then from an input made to tell
    /// defects apart.
    fn settle(&mut self) -> Result<(), MachineError> {
        self.inherit();
        if !self.report.is_unsettled() || self.batch_only().or_else(machine_only)? {
            return Ok(());
        }
        let Some(names) = self.probe().or_else(machine_only)? else { return Ok(()) };
        let named = |_: &str, leads: &[Lead]| {
            let fits = |lead: &&Lead| leads.is_empty() || leads.iter().any(|l| l.suspect == lead.suspect);
            match names.iter().filter(fits).collect::<Vec<_>>()[..] {
                [only] => Some(only.suspect),
                _ => None,
            }
        };
        self.report.settle(named, "on an input that tells such defects apart");
        self.inherit();
        Ok(())
    }

    /// Gives wrong results without a name that of another result of the same case.
    fn inherit(&mut self) {
        if let [name] = self.report.names(|check| [VALID, PROBS, WINNERS].contains(&check))[..] {
            self.report.settle(|_, _| Some(name), "as in the other results");
        }
    }

    /// Whether what is wrong is so because of other rows: those that are wrong in a batch are right alone, and are wrong in
    /// another way when the others change. Or whether some rows are not answered at all.
    fn batch_only(&mut self) -> Step<bool> {
        let problem = self.case.problem(self.court, 0);
        // Rows that are alike, or all but empty, cannot tell whose fault it is.
        if problem.rows() == 1 || problem.vocab() < 16 || self.case.kind.logits == Logits::Equal {
            return Ok(false);
        }
        let heard = self.aside(|trial| trial.ask(problem))?;
        let wrong = heard.wrong_rows();
        let Some(&last) = wrong.last() else { return Ok(false) };
        let blank: Vec<usize> = wrong.iter().copied().filter(|&row| heard.answer.is_blank(row)).collect();
        let written = wrong.iter().copied().find(|row| !blank.contains(row));
        if self.is_right_alone(&heard, wrong[0])? && self.is_right_alone(&heard, last)? {
            let Some(row) = written else {
                let rows = some_rows(&wrong);
                self.report.blame(
                    "rows_skipped",
                    &format!("no answer in a batch for {rows}; alone there is a right one"),
                );
                return Ok(true);
            };
            if heard.wrong().leads_of_probs().iter().any(|lead| lead.suspect == "max_shared_by_rows") {
                let why = "one maximum serves all rows, and those far below it are lost";
                self.report.blame("max_shared_by_rows", why);
                return Ok(true);
            }
            if self.depends_on_others(&heard, row)? {
                let why = format!("rows are mixed: {} would be right alone", some_rows(&wrong));
                self.report.blame("rows_mixed", &why);
                return Ok(true);
            }
            return Ok(false);
        }
        let answered = (0..heard.problem.rows()).any(|row| !heard.answer.is_blank(row));
        if !blank.is_empty() && answered && heard.problem.k > 1 {
            self.report.blame("rows_skipped", &format!("no answer for {} of the batch", some_rows(&blank)));
            return Ok(true);
        }
        Ok(false)
    }

    fn is_right_alone(&mut self, heard: &Heard, row: usize) -> Step<bool> {
        let alone = self.aside(|trial| trial.ask(heard.problem.with_rows(&[row])))?;
        Ok(alone.wrong_rows().is_empty())
    }

    /// Whether the answer to a row changes with the contents of the others.
    fn depends_on_others(&mut self, heard: &Heard, row: usize) -> Step<bool> {
        let vocab = heard.problem.vocab();
        let mut logits = heard.problem.wide.clone();
        for (index, logit) in logits.iter_mut().enumerate() {
            if index / vocab != row {
                *logit *= 0.5;
            }
        }
        let others = heard.problem.with_logits(&logits);
        let again = self.aside(|trial| trial.ask(others))?;
        Ok(!again.answer.agrees(&heard.answer, row))
    }

    /// The leads that an input gives in which rows differ, the vocabulary is a prime, and logits rise and fall.
    fn probe(&mut self) -> Step<Option<Vec<Lead>>> {
        const VOCAB: usize = 1061;
        let rng = self.court.seed.rng("probe");
        let problem = Logits::Normal(2.0).draw(rng, &[1, 2, VOCAB], 24, self.case.dtype);
        let heard = self.aside(|trial| trial.ask(problem))?;
        if heard.wrong_rows().is_empty() {
            return Ok(None);
        }
        let wrong = heard.wrong();
        let mut leads = wrong.leads_of_probs();
        for lead in wrong.leads_of_selection() {
            if !leads.iter().any(|known| known.suspect == lead.suspect) {
                leads.push(lead);
            }
        }
        if leads.is_empty() && wrong.loses_entries() {
            leads.push(Lead {
                suspect: "heap_loses_entries",
                says: "winners are lost or counted twice, and what is kept has the right probability"
                    .to_owned(),
            });
        }
        Ok(Some(leads))
    }

    /// Something tried on the side: nothing of it is reported.
    fn aside<T>(&mut self, work: impl FnOnce(&mut Self) -> Step<T>) -> Step<T> {
        let before = std::mem::replace(&mut self.report, Report::new(Severity::Note));
        let result = work(self);
        self.report = before;
        result
    }
}

/// A fault on the side tells nothing.
fn machine_only<T: Default>(stop: Stop) -> Result<T, MachineError> {
    match stop {
        Stop::Machine(error) => Err(error),
        Stop::Fault { .. } => Ok(T::default()),
    }
}

/// Where an answer shows that a softmax was made up: at its first probability, at a zero beside NaNs, or else at an index that may not be.
fn telling_rank(probs: &[f64], may_name: impl Fn(usize) -> bool) -> usize {
    let first = |tells: &dyn Fn(usize) -> bool| (0..probs.len()).find(|&rank| tells(rank));
    first(&|rank| !probs[rank].is_nan() && probs[rank] != 0.0)
        .or_else(|| first(&|rank| !probs[rank].is_nan()))
        .or_else(|| first(&|rank| !may_name(rank)))
        .unwrap_or(0)
}

fn is_telling(heard: &Heard) -> bool {
    heard.problem.rows() * heard.problem.k >= ENOUGH_TO_NAME
}

fn wide(values: &[f64]) -> Tensor {
    Tensor::from_f64(DType::Float64, [values.len()], values)
}

fn coprime(a: usize, b: usize) -> bool {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_up_softmax_is_shown_where_it_has_numbers() {
        let nan = f64::NAN;
        assert_eq!(telling_rank(&[nan, 0.0, 0.5], |_| true), 2);
        assert_eq!(telling_rank(&[nan, 0.0, nan], |_| true), 1);
        assert_eq!(telling_rank(&[nan, nan, nan], |rank| rank != 2), 2);
    }
}
