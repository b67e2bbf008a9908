//! How a subject behaved in a call, whatever the challenge: what it did besides answering, and why it gave no answer.

use tribunal_contract::{Answer, Fault};
use tribunal_runner::MachineError;

use crate::{Observation, Outcome, Severity};

/// The checks of what a call did besides answering.
pub const CHECKS: [&str; 3] = ["inputs_unchanged", "stays_in_bounds", "done_when_done"];

/// What a call did besides answering. `inputs` are the names of the operation's inputs, `severity` what a failure
/// weighs in the case at hand.
pub fn of_answer(call: &str, inputs: &[&str], answer: &Answer, severity: Severity) -> Vec<Observation> {
    let failed = |check, outcome, severity, suspect: &'static str, message| Observation {
        check,
        outcome,
        severity,
        message,
        suspect: Some(suspect),
        used: None,
    };
    let [unchanged, in_bounds, done] = CHECKS;
    let unchanged = match answer.inputs_changed.iter().map(|&index| inputs[index]).collect::<Vec<_>>() {
        changed if changed.is_empty() => Observation::pass(unchanged, None),
        changed => {
            let message = format!("{call} changed its input {}", changed.join(" and "));
            failed(unchanged, Outcome::Fail, severity, "input_modified", message)
        }
    };
    let in_bounds = if answer.wrote_outside {
        let message = format!("{call} wrote outside its outputs");
        failed(in_bounds, Outcome::Fail, severity, "writes_outside", message)
    } else if !answer.disturbed.is_empty() {
        let message = format!(
            "{call} changed a result that its caller still holds: {}",
            answer.disturbed.join(" and ")
        );
        // It was right when it was returned.
        failed(in_bounds, Outcome::Fail, severity.min(Severity::Major), "result_overwritten", message)
    } else {
        Observation::pass(in_bounds, None)
    };
    let done = if answer.changed_late {
        let message = format!("{call} went on writing its outputs after it had said that it was done");
        failed(done, Outcome::Integrity, severity, "work_after_done", message)
    } else {
        Observation::pass(done, None)
    };
    vec![unchanged, in_bounds, done]
}

/// A valid call that gave no answer. Only words out of turn are proof of tampering; every other fault is what honest
/// code can run into.
pub fn of_fault(call: &str, fault: &Fault, severity: Severity) -> Observation {
    let (outcome, suspect) = match fault {
        Fault::Protocol { .. } => (Outcome::Integrity, Some("forged_done")),
        Fault::Crashed { at_input: true, .. } => (Outcome::Fail, Some("input_modified")),
        Fault::Refused { message } if message.contains("read-only") => {
            (Outcome::Fail, Some("input_modified"))
        }
        Fault::Refused { .. } => (Outcome::Fail, Some("refuses_valid_input")),
        Fault::Launch { .. } => (Outcome::Fail, Some("impossible_launch")),
        Fault::Deadline { .. } => (Outcome::Fail, Some("endless_loop")),
        Fault::Flood { .. } => (Outcome::Fail, Some("endless_output")),
        Fault::Memory { .. } => (Outcome::Fail, Some("memory_bomb")),
        Fault::Exited { .. } => (Outcome::Fail, Some("exits_early")),
        Fault::Crashed { .. }
        | Fault::Device { .. }
        | Fault::WrongResult { .. }
        | Fault::Build { .. }
        | Fault::Load { .. } => (Outcome::Fail, None),
    };
    Observation {
        check: "answers",
        outcome,
        severity,
        message: format!("{call}: {fault}"),
        suspect,
        used: None,
    }
}

/// A call that the machine failed: it is nobody's doing. But who could choose to be too slow for it would choose what is looked at, so of whoever was
/// nobody knows whether to accept it.
pub fn of_machine(check: &'static str, error: &MachineError) -> Observation {
    let severity = match error {
        MachineError::Slow { .. } => Severity::Critical,
        MachineError::Missing { .. } | MachineError::NoCage { .. } | MachineError::System { .. } => {
            Severity::Minor
        }
    };
    let (outcome, message) = (Outcome::Infrastructure, error.to_string());
    Observation { check, outcome, severity, message, suspect: None, used: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_too_slow_for_the_machine_is_not_accepted_either() {
        let severity = |error: MachineError| of_machine("tried", &error).severity;
        let slow = MachineError::Slow { kernel: "k".to_owned(), after_s: 300, instructions: 1 };
        assert_eq!(severity(slow), Severity::Critical);
        assert_eq!(severity(MachineError::system("forking")("no room")), Severity::Minor);
    }

    #[test]
    fn good_conduct_is_three_passes_and_only_late_writing_is_cheating() {
        let good = Answer {
            outputs: vec![],
            wall_s: 0.0,
            cpu_s: 0.0,
            inputs_changed: vec![],
            wrote_outside: false,
            disturbed: Vec::new(),
            changed_late: false,
        };
        let outcomes = |answer: &Answer| -> Vec<Outcome> {
            of_answer("forward", &["x", "gamma"], answer, Severity::Major).iter().map(|o| o.outcome).collect()
        };
        use Outcome::{Fail, Integrity, Pass};
        assert_eq!(outcomes(&good), [Pass, Pass, Pass]);
        assert_eq!(outcomes(&Answer { inputs_changed: vec![1], ..good.clone() }), [Fail, Pass, Pass]);
        assert_eq!(outcomes(&Answer { wrote_outside: true, ..good.clone() }), [Pass, Fail, Pass]);
        let disturbed = vec!["y of forward".to_owned()];
        assert_eq!(outcomes(&Answer { disturbed, ..good.clone() }), [Pass, Fail, Pass]);
        assert_eq!(outcomes(&Answer { changed_late: true, ..good }), [Pass, Pass, Integrity]);
    }

    #[test]
    fn only_words_out_of_turn_are_tampering() {
        let rule = |fault: Fault| of_fault("forward", &fault, Severity::Major).outcome;
        assert_eq!(rule(Fault::Protocol { message: String::new() }), Outcome::Integrity);
        assert_eq!(rule(Fault::Exited { code: 0 }), Outcome::Fail);
        assert_eq!(rule(Fault::Deadline { limit_s: 1.0 }), Outcome::Fail);
        assert_eq!(
            rule(Fault::Crashed { signal: "SIGSEGV".to_owned(), at_input: false, said: String::new() }),
            Outcome::Fail
        );
    }
}
