//! What a case saw, in a kernel author's words.

use tribunal_contract::{Answer, DType, Fault};
use tribunal_runner::{MachineError, Trouble};

use crate::lead::Lead;
use crate::{Observation, Outcome, Severity, conduct};

/// Why a case went no further.
pub enum Stop {
    /// The machine's fault.
    Machine(MachineError),
    /// The submission's fault, in that call.
    Fault {
        /// The operation.
        call: &'static str,
        /// What happened.
        fault: Fault,
    },
}

impl Stop {
    /// What to do with trouble in a call of that operation.
    pub fn at(call: &'static str) -> impl FnOnce(Trouble) -> Self {
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

/// A part of a case, which may end it.
pub type Step<T> = Result<T, Stop>;

/// One wrong result, kept until it is named.
struct Suspicion {
    check: &'static str,
    leads: Vec<Lead>,
    /// Where its observation is.
    observation: usize,
}

/// The observations of a case.
pub struct Report {
    severity: Severity,
    observations: Vec<Observation>,
    suspicions: Vec<Suspicion>,
}

impl Report {
    /// A report whose failures weigh that much.
    pub fn new(severity: Severity) -> Self {
        Self { severity, observations: Vec::new(), suspicions: Vec::new() }
    }

    /// What was seen.
    pub fn finish(self) -> Vec<Observation> {
        self.observations
    }

    /// A check held; `used` is the largest error in budgets.
    pub fn pass(&mut self, check: &'static str, used: Option<f64>) {
        self.add(Observation::pass(check, used));
    }

    /// A check failed.
    pub fn fail(&mut self, check: &'static str, suspect: Option<&'static str>, message: String) {
        let severity = self.severity;
        self.add(Observation { check, outcome: Outcome::Fail, severity, message, suspect, used: None });
    }

    /// Fails a check that spoils nothing.
    pub fn fail_lightly(&mut self, check: &'static str, suspect: Option<&'static str>, message: String) {
        let severity = Severity::Minor;
        self.add(Observation { check, outcome: Outcome::Fail, severity, message, suspect, used: None });
    }

    /// A check held, and there is something to say about it.
    pub fn note(&mut self, check: &'static str, message: String) {
        self.add(Observation { message, ..Observation::pass(check, None) });
    }

    /// A result is wrong by `used` budgets. Its only lead is its name; without one, or with several, it stays a
    /// suspicion until something else tells. A result too small to be `telling` agrees with much, and is not named.
    pub fn wrong(
        &mut self,
        check: &'static str,
        mut message: String,
        used: Option<f64>,
        leads: Vec<Lead>,
        telling: bool,
    ) {
        for (index, lead) in leads.iter().enumerate() {
            let join = if index == 0 { "; " } else { ", or " };
            message += &format!("{join}{}", lead.says);
        }
        let suspect = match leads.as_slice() {
            [only] if telling => Some(only.suspect),
            _ => None,
        };
        let severity = self.severity;
        let observation =
            self.add(Observation { check, outcome: Outcome::Fail, severity, message, suspect, used });
        if suspect.is_none() {
            self.suspicions.push(Suspicion { check, leads, observation });
        }
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

    /// Whether anything failed.
    pub fn has_failed(&self) -> bool {
        self.observations.iter().any(|observation| observation.outcome != Outcome::Pass)
    }

    /// Whether one of these checks failed.
    pub fn has_failed_any(&self, checks: &[&str]) -> bool {
        self.observations.iter().any(|o| o.outcome != Outcome::Pass && checks.contains(&o.check))
    }

    /// The suspect of a check, if it failed and is named.
    pub fn suspect_of(&self, check: &str) -> Option<&'static str> {
        self.observations.iter().find(|observation| observation.check == check).and_then(|o| o.suspect)
    }

    /// The suspects of the checks that failed, each once in a row.
    pub fn names(&self, of: impl Fn(&str) -> bool) -> Vec<&'static str> {
        let mut names: Vec<&'static str> =
            self.observations.iter().filter(|o| of(o.check)).filter_map(|o| o.suspect).collect();
        names.dedup();
        names
    }

    /// What a call did besides answering.
    pub fn conduct(&mut self, call: &'static str, inputs: &[&str], answer: &Answer) {
        for observation in conduct::of_answer(call, inputs, answer, self.severity) {
            self.add(observation);
        }
    }

    /// A valid call that gave no answer. `call` says what was called with what, `dtypes` are those it should speak of.
    pub fn fault(&mut self, call: &str, dtypes: &[DType], fault: &Fault) {
        let mut observation = conduct::of_fault(call, fault, self.severity);
        let names_other = |message: &str| {
            DType::ALL.iter().any(|dtype| !dtypes.contains(dtype) && message.contains(dtype.name()))
        };
        if matches!(fault, Fault::WrongResult { message } if names_other(message)) {
            observation.suspect = Some("wrong_dtype");
        }
        self.add(observation);
    }

    /// What came of a call that must be refused, and what would refuse it, if that is known.
    pub fn must_be_refused(&mut self, outcome: Step<()>, what: &str, refusal: Option<String>) -> Step<()> {
        const CHECK: &str = "refuses_invalid_input";
        let how = |before: &str| refusal.map_or_else(String::new, |how| format!("{before}{how}"));
        match outcome {
            // A result of another shape is no answer to the call either: the caller cannot mistake it for one.
            Err(Stop::Fault { fault, .. })
                if fault.refuses() || matches!(fault, Fault::WrongResult { .. }) =>
            {
                self.pass(CHECK, None);
            }
            Ok(()) => {
                let message = format!("{what} is answered, and should be refused{}", how(": "));
                self.fail_lightly(CHECK, Some("invalid_input_accepted"), message);
            }
            Err(Stop::Fault { fault, .. }) => {
                let message = format!("{what} should be refused with an error: {fault}{}", how("; "));
                self.fail_lightly(CHECK, None, message);
            }
            Err(stop) => return Err(stop),
        }
        Ok(())
    }

    /// Whether some wrong result has no name yet.
    pub fn is_unsettled(&self) -> bool {
        !self.suspicions.is_empty()
    }

    /// Names what `name` can name, from the check and its leads.
    pub fn settle(&mut self, name: impl Fn(&str, &[Lead]) -> Option<&'static str>, reason: &str) {
        let observations = &mut self.observations;
        self.suspicions.retain(|suspicion| {
            let Some(suspect) = name(suspicion.check, &suspicion.leads) else { return true };
            let observation = &mut observations[suspicion.observation];
            observation.suspect = Some(suspect);
            observation.message += &format!(" ({reason}: {})", suspect.replace('_', " "));
            false
        });
    }

    /// Puts a name to failures, and says why.
    pub fn blame(&mut self, suspect: &'static str, why: &str) {
        self.suspicions.clear();
        self.observations.iter_mut().for_each(|observation| observation.blame(suspect, why));
    }

    /// Adds a sentence to a failed check.
    pub fn remark(&mut self, check: &str, remark: &str) {
        if let Some(observation) = self.observations.iter_mut().find(|o| o.check == check) {
            observation.message += &format!("; {remark}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_answers_what_should_be_refused_is_told_what_would_refuse_it() {
        let told = |outcome, refusal: Option<&str>| {
            let mut report = Report::new(Severity::Major);
            assert!(
                report.must_be_refused(outcome, "k = 8 of 5 entries", refusal.map(str::to_owned)).is_ok()
            );
            report.finish().pop().map(|seen| (seen.outcome, seen.message)).unwrap()
        };
        let how = "`refuse = [\"k > V\"]` does that";
        let answered = "k = 8 of 5 entries is answered, and should be refused";
        assert_eq!(told(Ok(()), Some(how)), (Outcome::Fail, format!("{answered}: {how}")));
        assert_eq!(told(Ok(()), None), (Outcome::Fail, answered.to_owned()));
        let fault = Fault::Device { message: "it is gone".to_owned() };
        let message = format!("k = 8 of 5 entries should be refused with an error: {fault}; {how}");
        assert_eq!(
            told(Err(Stop::Fault { call: "softmax_topk", fault }), Some(how)),
            (Outcome::Fail, message)
        );
        let refused = Fault::Refused { message: String::new() };
        assert_eq!(
            told(Err(Stop::Fault { call: "softmax_topk", fault: refused }), Some(how)).0,
            Outcome::Pass
        );
    }

    #[test]
    fn what_a_call_did_besides_answering_keeps_its_name() {
        let mut report = Report::new(Severity::Major);
        let answer = Answer {
            outputs: vec![],
            wall_s: 0.0,
            cpu_s: 0.0,
            inputs_changed: vec![],
            wrote_outside: false,
            disturbed: vec!["dgamma of backward".to_owned()],
            changed_late: false,
        };
        report.conduct("backward", &[], &answer);
        report.fail("dx_within_budget", None, "dx is wrong".to_owned());
        report.blame("cache_used_up", "right once and not again");
        assert_eq!(report.suspect_of("stays_in_bounds"), Some("result_overwritten"));
        assert_eq!(report.suspect_of("dx_within_budget"), Some("cache_used_up"));
    }
}
