//! A submission's own tests on trial: what do they notice?
//!
//! They are run on the submission's own code, where they must pass; then with another right implementation in its place, where they must
//! pass too, or nothing can be concluded from their failing; and then with defective ones, each of which they should notice. What stands in
//! answers from a process of its own ([`stand_in`](crate::stand_in)), so there is nothing to read that would tell one from another.
//!
//! Which defects: one for each name that the calibration knows, as far as the court's own quick cases show it where nothing is tried but what
//! the submission claims to implement, by more than a tolerance might hide; of those so many as are drawn by the seed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rand::seq::SliceRandom;
use tribunal_runner::cage::Ended;
use tribunal_runner::suite::{self, Ran, Suite};
use tribunal_runner::{Submission, Trouble, Workshop};

use crate::examine::finding_about;
use crate::stand_in::{self, Who};
use crate::variant::Variant;
use crate::{
    Case, Challenge, Court, Dimension, Effort, Finding, Observation, Outcome, Plan, Seed, Severity, Watch,
};

/// How long its tests may take on its own code, compiling included.
const OWN_DEADLINE: Duration = Duration::from_secs(60);
/// How long they may take with something else in its place: more than that, and nothing is concluded.
const SLOWER: u32 = 4;
const LEAST_DEADLINE: Duration = Duration::from_secs(15);
/// After so long no further defect is tried.
const PATIENCE: Duration = Duration::from_secs(90);
/// How many defects are drawn.
const DEFECTS: usize = 12;
/// An error of fewer budgets is one that tests with a tolerance of their own need not notice.
const NOTICEABLE: f64 = 10.0;
/// Runs at a time.
const AT_ONCE: usize = 4;

/// Manners and types, which a stand-in cannot imitate: what crosses to the tests are values.
const NOT_VALUES: [&str; 4] = ["work_after_done", "writes_outside", "wrong_dtype", "float_indices"];

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Tested {
    /// What the tests notice and what they do not.
    pub(crate) findings: Vec<Finding>,
    /// What was not tried, and why.
    pub(crate) omissions: Vec<String>,
}

/// Puts a submission's own tests on trial. Nothing comes of it where its manifest names none.
pub(crate) fn try_tests(
    challenge: &dyn Challenge,
    plan: &Plan,
    workshop: &Workshop,
    submission: &Submission,
    watch: &dyn Watch,
) -> Tested {
    let mut tested = Tested::default();
    if submission.manifest.tests.is_some() && plan.effort == Effort::Quick {
        tested.omissions.push("its own tests were not run: quick effort leaves them out".to_owned());
        return tested;
    }
    match Suite::of(workshop, submission, &|what| watch.step(what)) {
        Ok(None) => {}
        Ok(Some(suite)) => Trial { challenge, plan, workshop, suite, watch }.run(&mut tested),
        Err(error) => tested.cannot_run(&error.into()),
    }
    tested
}

impl Tested {
    fn push(&mut self, about: &str, check: &str, outcome: Outcome, severity: Severity, message: String) {
        let suspect = (outcome == Outcome::Fail).then_some(match check {
            "pass" => "tests_fail",
            "can_fail" => "test_cannot_fail",
            _ => "defect_unnoticed",
        });
        let about = format!("tests/{about}");
        let finding = finding_about(&about, check, Dimension::Tests, outcome, severity, message, suspect);
        self.findings.push(finding);
    }

    /// This machine's trouble, which costs nothing.
    fn cannot_run(&mut self, trouble: &Trouble) {
        self.push("own", "pass", Outcome::Infrastructure, Severity::Minor, trouble.to_string());
    }

    fn undecided(&mut self, why: String) {
        self.push("stand_in", "possible", Outcome::Inconclusive, Severity::Minor, why);
    }
}

/// What stands in for the submission, and what it is called.
#[derive(Debug, Clone)]
struct Part {
    who: Who,
    /// The defect's name, where it has one that counts.
    defect: Option<&'static str>,
    /// What it is, in words.
    what: &'static str,
}

struct Trial<'a> {
    challenge: &'a dyn Challenge,
    plan: &'a Plan,
    workshop: &'a Workshop,
    suite: Suite<'a>,
    watch: &'a dyn Watch,
}

impl Trial<'_> {
    fn run(&self, tested: &mut Tested) {
        self.watch.phase("its own tests", None);
        self.watch.step("on its own code");
        let own = match self.suite.run(None, OWN_DEADLINE) {
            Ok(own) => own,
            Err(trouble) => return tested.cannot_run(&trouble),
        };
        if !own.passed() {
            let message =
                format!("`{}` does not pass on its own code: {}", self.suite.command(), last_words(&own));
            return tested.push("own", "pass", Outcome::Fail, Severity::Minor, message);
        }
        if let Err(why) = self.suite.implementation() {
            return tested.undecided(format!(
                "nothing can stand in for its code, so what its tests notice is open: {why}"
            ));
        }
        let deadline = (SLOWER * Duration::from_secs_f64(own.took_s)).max(LEAST_DEADLINE);
        let variants = self.challenge.variants();
        let right =
            |index: usize| Part { who: Who::Honest(index), defect: None, what: variants.honest[index].name };
        let (first, last) = (right(0), right(variants.honest.len() - 1));
        match self.play(&first, deadline) {
            Err(trouble) => return tested.cannot_run(&trouble),
            Ok(ran) if !ran.passed() => return tested.undecided(too_much(&first, &ran)),
            Ok(_) => {}
        }
        let mut parts = self.defects();
        // What no test of anything could pass: not one of answers, and not one of refusals.
        parts.push(Part { who: Who::Zeros, defect: None, what: "zeros for every call" });
        parts.push(Part { who: Who::Refuses, defect: None, what: "refusals of every call" });
        parts.push(last);
        parts.shuffle(&mut self.plan.seed.rng("order of stand-ins"));
        let played = self.play_all(&parts, deadline);
        rule(&own, &played, tested);
    }

    /// The tests, with somebody in place of the submission.
    fn play(&self, part: &Part, deadline: Duration) -> Result<Ran, Trouble> {
        self.watch.step(&format!("with {} in its place", part.what));
        let (tests, answers) = suite::sockets()?;
        let clerk = stand_in::start(&self.workshop.cage, self.challenge, part.who, answers)?;
        let ran = self.suite.run(Some(tests), deadline)?;
        drop(clerk);
        Ok(ran)
    }

    /// All parts, several at a time; those that patience did not reach are left out.
    fn play_all(&self, parts: &[Part], deadline: Duration) -> Vec<(Part, Result<Ran, Trouble>)> {
        let until = Instant::now() + PATIENCE;
        let queue = Mutex::new(parts.iter());
        let played = Mutex::new(Vec::new());
        let workers = std::thread::available_parallelism().map_or(1, usize::from).min(AT_ONCE);
        std::thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    while Instant::now() < until {
                        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                        let Some(part) = next else { break };
                        let ran = self.play(part, deadline);
                        played.lock().unwrap_or_else(PoisonError::into_inner).push((part.clone(), ran));
                    }
                });
            }
        });
        played.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// The defects to be noticed.
    fn defects(&self) -> Vec<Part> {
        let mutants = self.challenge.variants().mutants;
        let mut order: Vec<usize> = (0..mutants.len()).collect();
        order.shuffle(&mut self.plan.seed.rng("defects for tests"));
        let mut drawn: Vec<Part> = Vec::new();
        for index in order {
            let mutant = &mutants[index];
            let Some(defect) = mutant.suspect.filter(|suspect| !NOT_VALUES.contains(suspect)) else {
                continue;
            };
            let is_new = drawn.iter().all(|part| part.defect != Some(defect));
            if drawn.len() < DEFECTS && is_new && self.shows(index) {
                drawn.push(Part { who: Who::Mutant(index), defect: Some(defect), what: mutant.variant.name });
            }
        }
        drawn
    }

    /// Whether a mutant can be told from the right, by calls that the submission claims to answer.
    fn shows(&self, index: usize) -> bool {
        let plan = Plan { effort: Effort::Quick, ..self.plan.clone() };
        let variant = &self.challenge.variants().mutants[index].variant;
        fails(variant, &self.challenge.cases(&plan), plan.seed, NOTICEABLE)
    }
}

/// Whether a variant fails one of these cases by so many budgets, or in a way that is not counted in them.
fn fails(variant: &Variant, cases: &[Box<dyn Case>], seed: Seed, least: f64) -> bool {
    let mut subject = variant.stand();
    cases.iter().any(|case| {
        let mut court = Court::new(subject.as_mut(), seed);
        let seen = case.examine(&mut court).unwrap_or_default();
        let released = court.release_all();
        let by_enough = |seen: &Observation| seen.used.is_none_or(|used| used >= least);
        released.is_ok() && seen.iter().any(|seen| seen.outcome == Outcome::Fail && by_enough(seen))
    })
}

/// What follows from the runs.
fn rule(own: &Ran, played: &[(Part, Result<Ran, Trouble>)], tested: &mut Tested) {
    let right = played.iter().filter(|(part, _)| matches!(part.who, Who::Honest(_)));
    for (part, ran) in right {
        match ran {
            Ok(ran) if ran.passed() => {}
            Ok(ran) => return tested.undecided(too_much(part, ran)),
            Err(trouble) => return tested.cannot_run(trouble),
        }
    }
    for (part, ran) in played {
        let Some(defect) = part.defect else { continue };
        let name = format!("{} ({})", defect.replace('_', " "), part.what);
        let (outcome, message) = match ran {
            Ok(Ran { ended: Ended::TimedOut, .. }) => {
                (Outcome::Inconclusive, format!("with {name} in its place its tests were not done in time"))
            }
            Ok(ran) if ran.passed() => (Outcome::Fail, format!("its tests do not notice: {name}")),
            Ok(ran) => (Outcome::Pass, format!("its tests notice: {name}{}", by(ran))),
            Err(trouble) => (Outcome::Infrastructure, trouble.to_string()),
        };
        let severity = if outcome == Outcome::Pass { Severity::Note } else { Severity::Minor };
        tested.push(defect, "noticed", outcome, severity, message);
    }
    for name in never_failing(own, played) {
        let message = format!("passes whatever stands in its code's place, so it cannot fail: {name}");
        tested.push(&name, "can_fail", Outcome::Fail, Severity::Note, message);
    }
}

/// The tests that pass on everything, as far as they have names: on zeros for every call, and on refusals of every call.
fn never_failing(own: &Ran, played: &[(Part, Result<Ran, Trouble>)]) -> Vec<String> {
    let hopeless = |who| played.iter().any(|(part, ran)| part.who == who && ran.is_ok());
    if !hopeless(Who::Zeros) || !hopeless(Who::Refuses) {
        return Vec::new();
    }
    let mut passing: BTreeSet<String> =
        names(own).into_iter().filter(|(_, passed)| *passed).map(|(name, _)| name).collect();
    for ran in played.iter().filter_map(|(_, ran)| ran.as_ref().ok()) {
        let results = names(ran);
        passing.retain(|name| results.get(name) == Some(&true));
    }
    passing.into_iter().collect()
}

fn too_much(part: &Part, ran: &Ran) -> String {
    format!(
        "its tests do not pass with another right implementation in its place ({}): they ask for more than the contract, so that they fail \
         with a defect says nothing: {}",
        part.what,
        last_words(ran)
    )
}

/// The tests that failed, as far as they have names.
fn by(ran: &Ran) -> String {
    let failed: Vec<String> =
        names(ran).into_iter().filter(|(_, passed)| !passed).map(|(name, _)| name).take(3).collect();
    if failed.is_empty() { String::new() } else { format!(", by {}", failed.join(", ")) }
}

/// What a run said of each test, in the forms of pytest (`PASSED tests/test_a.py::test_b`), of Rust's and of unittest's
/// (`test_b ... ok`).
fn names(ran: &Ran) -> BTreeMap<String, bool> {
    let lines = ran.output.stdout.lines().chain(ran.output.stderr.lines());
    lines.filter_map(result).map(|(name, passed)| (clip(name), passed)).collect()
}

fn result(line: &str) -> Option<(&str, bool)> {
    let line = line.trim();
    for (word, passed) in [("PASSED ", true), ("FAILED ", false), ("ERROR ", false)] {
        if let Some(rest) = line.strip_prefix(word) {
            return Some((rest.split(" - ").next().unwrap_or(rest).trim(), passed));
        }
    }
    let (name, result) = line.rsplit_once(" ... ")?;
    let passed = match result {
        "ok" => true,
        "FAILED" | "FAIL" | "ERROR" => false,
        _ => return None,
    };
    Some((name.strip_prefix("test ").unwrap_or(name).trim(), passed))
}

fn clip(name: &str) -> String {
    const CHARS: usize = 120;
    let mut text: String = name.chars().take(CHARS).collect();
    if name.chars().count() > CHARS {
        text.push('…');
    }
    text
}

/// How a run ended, and what it said of that: the tests that failed, or else its last lines.
fn last_words(ran: &Ran) -> String {
    let Ran { ended, output, .. } = ran;
    let text = if output.stderr.trim().is_empty() { &output.stdout } else { &output.stderr };
    let failed = |text: &str| {
        text.lines()
            .filter(|line| result(line).is_some_and(|(_, passed)| !passed))
            .map(clip)
            .take(4)
            .collect()
    };
    let mut lines: Vec<String> = failed(&format!("{}\n{}", output.stdout, output.stderr));
    if lines.is_empty() {
        lines = text.lines().rev().filter(|line| !line.trim().is_empty()).take(3).map(clip).collect();
        lines.reverse();
    }
    if lines.is_empty() { ended.to_string() } else { format!("{ended}: {}", lines.join(" / ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tribunal_runner::cage::Output;

    #[test]
    fn only_subtle_defects_are_too_small_to_be_asked_for() {
        let mut small = Vec::new();
        for &challenge in crate::challenges::all() {
            let cases = crate::calibration::cases(challenge, Effort::Quick, Seed::PUBLIC);
            for mutant in challenge.variants().mutants {
                let fails = |least| fails(&mutant.variant, &cases, Seed::PUBLIC, least);
                if fails(0.0) && !fails(NOTICEABLE) {
                    small.push(mutant.variant.name);
                }
            }
        }
        assert_eq!(small, ["logits times 1.0000005", "2.5e-6 added to the sum"]);
    }

    fn ran(code: i32, stdout: &str) -> Ran {
        let output = Output { stdout: stdout.to_owned(), ..Output::default() };
        Ran { ended: Ended::Exited(code), output, took_s: 1.0 }
    }

    fn part(who: Who, defect: Option<&'static str>) -> Part {
        Part { who, defect, what: "what" }
    }

    fn ruled(own: &Ran, played: Vec<(Part, Ran)>) -> Vec<(String, Outcome)> {
        let mut tested = Tested::default();
        let played: Vec<_> = played.into_iter().map(|(part, ran)| (part, Ok(ran))).collect();
        rule(own, &played, &mut tested);
        tested.findings.into_iter().map(|finding| (finding.id, finding.outcome)).collect()
    }

    #[test]
    fn results_are_read_in_each_form() {
        assert_eq!(result("PASSED tests/test_a.py::test_b"), Some(("tests/test_a.py::test_b", true)));
        assert_eq!(
            result("FAILED test_a.py::test_b[1-2] - AssertionError: a - b"),
            Some(("test_a.py::test_b[1-2]", false))
        );
        assert_eq!(result("test sums ... ok"), Some(("sums", true)));
        assert_eq!(result("test sums ... FAILED"), Some(("sums", false)));
        assert_eq!(result("test_b (test_a.A.test_b) ... FAIL"), Some(("test_b (test_a.A.test_b)", false)));
        assert_eq!(result("test sums ... ignored"), None);
        assert_eq!(result("all is well"), None);
    }

    #[test]
    fn a_defect_is_noticed_or_not() {
        let played = vec![
            (part(Who::Honest(1), None), ran(0, "")),
            (part(Who::Mutant(3), Some("rows_mixed")), ran(0, "")),
            (part(Who::Mutant(4), Some("tail_skipped")), ran(1, "")),
        ];
        assert_eq!(
            ruled(&ran(0, ""), played),
            [
                ("tests/rows_mixed:noticed".to_owned(), Outcome::Fail),
                ("tests/tail_skipped:noticed".to_owned(), Outcome::Pass)
            ]
        );
    }

    #[test]
    fn tests_that_refuse_what_is_right_prove_nothing() {
        let played = vec![
            (part(Who::Honest(1), None), ran(1, "")),
            (part(Who::Mutant(4), Some("tail_skipped")), ran(1, "")),
        ];
        let ruled = ruled(&ran(0, ""), played);
        assert_eq!(ruled, [("tests/stand_in:possible".to_owned(), Outcome::Inconclusive)]);
    }

    #[test]
    fn a_test_that_passes_on_everything_is_named() {
        let both = "test checks ... ok\ntest nothing ... ok\n";
        let one = "test checks ... FAILED\ntest nothing ... ok\n";
        let played = |zeros: Ran| {
            vec![
                (part(Who::Honest(1), None), ran(0, both)),
                (part(Who::Zeros, None), zeros),
                (part(Who::Refuses, None), ran(1, one)),
            ]
        };
        let found = ruled(&ran(0, both), played(ran(1, one)));
        assert_eq!(found, [("tests/nothing:can_fail".to_owned(), Outcome::Fail)]);
        assert!(ruled(&ran(0, both), played(ran(1, "test nothing ... FAILED"))).is_empty());
    }
}
