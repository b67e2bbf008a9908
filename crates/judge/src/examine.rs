//! Puts a subject to every case, and shrinks what fails.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tribunal_contract::Fault;
use tribunal_runner::{MachineError, Trouble};

use crate::conduct;
use crate::hands::{hands, share};
use crate::{
    Case, Court, Dimension, Family, Finding, Observation, Outcome, Seed, Severity, Slowest, Subject,
};

/// After so many seconds of each hand in calls that came to nothing, the rest is not tried: the answer is known and the wait is not worth it.
const PATIENCE_S: f64 = 12.0;

/// Tries per failure when looking for the smallest case that still fails.
const SHRINK_TRIES: usize = 24;

/// What looking for smaller cases may take altogether.
const SHRINK_TIME: Duration = Duration::from_millis(1500);

/// Told what is going on; progress bars live elsewhere.
pub trait Watch: Sync {
    /// A phase begins, of so many steps where that is known.
    fn phase(&self, what: &str, steps: Option<usize>);
    /// A step of the phase begins.
    fn step(&self, what: &str);
}

/// Nobody is watching.
pub struct Unwatched;

impl Watch for Unwatched {
    fn phase(&self, _: &str, _: Option<usize>) {}
    fn step(&self, _: &str) {}
}

/// What the cases showed.
#[derive(Debug, Default)]
pub struct Examined {
    /// One finding per check of each case.
    pub findings: Vec<Finding>,
    /// What was not tried, and why.
    pub omissions: Vec<String>,
    /// The case that took longest.
    pub slowest: Option<Slowest>,
}

/// Tries all cases in order.
pub fn examine(
    cases: &[Box<dyn Case>],
    subject: &mut dyn Subject,
    seed: Seed,
    watch: &dyn Watch,
) -> Examined {
    watch.phase("cases", Some(cases.len()));
    let all: Vec<usize> = (0..cases.len()).collect();
    let patience = Patience::of(1);
    let tried = try_some(cases, &all, subject, &patience, seed, watch);
    settle(cases, vec![tried], &patience, |kinds, until| {
        shrink_some(cases, kinds, subject, seed, until, watch);
    })
}

/// Tries all cases, dealt to subjects that are alike. What comes of it does not depend on who is faster, or on how many are at work at once.
pub fn examine_side_by_side<S: Subject + Send>(
    cases: &[Box<dyn Case>],
    subjects: &mut [S],
    seed: Seed,
    watch: &dyn Watch,
) -> Examined {
    watch.phase("cases", Some(cases.len()));
    let dealt = deal(cases, subjects.len());
    let patience = Patience::of(hands(subjects.len()));
    let pieces = subjects.iter_mut().zip(&dealt).collect();
    let tried = share(pieces, |(subject, dealt): (&mut S, _)| {
        try_some(cases, dealt, subject, &patience, seed, watch)
    });
    settle(cases, tried, &patience, |kinds, until| {
        let mut pieces: Vec<(&mut S, Vec<Kind<'_>>)> =
            subjects.iter_mut().map(|subject| (subject, Vec::new())).collect();
        let count = pieces.len();
        kinds.into_iter().enumerate().for_each(|(place, kind)| pieces[place % count].1.push(kind));
        share(pieces, |(subject, kinds)| shrink_some(cases, kinds, subject, seed, until, watch));
    })
}

/// As much work for each, and for each in the order of cases.
fn deal(cases: &[Box<dyn Case>], subjects: usize) -> Vec<Vec<usize>> {
    let mut heaviest_first: Vec<usize> = (0..cases.len()).collect();
    heaviest_first.sort_by_key(|&index| Reverse(cases[index].weight()));
    let mut dealt = vec![(0, Vec::new()); subjects];
    for index in heaviest_first {
        let (work, some) = dealt.iter_mut().min_by_key(|(work, _)| *work).expect("there are subjects");
        *work += cases[index].weight();
        some.push(index);
    }
    dealt
        .into_iter()
        .map(|(_, mut some)| {
            some.sort_unstable();
            some
        })
        .collect()
}

/// What all who try the cases of a submission have lost in calls that came to nothing.
struct Patience {
    lost_s: Mutex<f64>,
    most_s: f64,
}

impl Patience {
    fn of(hands: usize) -> Self {
        Self { lost_s: Mutex::default(), most_s: PATIENCE_S * hands as f64 }
    }

    fn lose(&self, seconds: f64) {
        *self.lost_s.lock().unwrap_or_else(PoisonError::into_inner) += seconds;
    }

    fn lost_s(&self) -> f64 {
        *self.lost_s.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.lost_s() > self.most_s
    }
}

/// What came of cases that were tried one after the other.
#[derive(Default)]
struct Tried {
    /// By the case's place in the list.
    findings: Vec<(usize, Finding)>,
    /// How many were left out, and why.
    left: Option<(usize, String)>,
    /// The machine could not go on.
    broken_off: Option<MachineError>,
    caught: bool,
    slowest: Option<Slowest>,
}

fn try_some(
    cases: &[Box<dyn Case>],
    dealt: &[usize],
    subject: &mut dyn Subject,
    patience: &Patience,
    seed: Seed,
    watch: &dyn Watch,
) -> Tried {
    let mut all = Tried::default();
    for (turn, &index) in dealt.iter().enumerate() {
        let enough = if all.caught {
            Some("it had been caught cheating".to_owned())
        } else {
            let most_s = patience.most_s;
            patience
                .is_over()
                .then(|| format!("{most_s:.0} s and more had gone into calls that came to nothing"))
        };
        if let Some(why) = enough {
            all.left = Some((dealt.len() - turn, why));
            break;
        }
        let case = &cases[index];
        watch.step(&case.id());
        let started = Instant::now();
        subject.begin(index);
        let mut court = Court::new(subject, seed);
        let tried = case.examine(&mut court);
        let released = court.release_all();
        patience.lose(court.lost_s());
        let unreleased = court.unreleased().map(not_released);
        let troubles = [tried.as_ref().err(), released.as_ref().err()]
            .map(|error| error.map(|error| conduct::of_machine("tried", error)));
        let troubles: Vec<Observation> = troubles.into_iter().flatten().collect();
        let troubled = !troubles.is_empty();
        let tried = put_down(tried.unwrap_or_default(), subject);
        for observation in tried.into_iter().chain(unreleased).chain(troubles) {
            all.caught |= observation.outcome == Outcome::Integrity;
            all.findings.push((index, finding(case.as_ref(), observation)));
        }
        let seconds = started.elapsed().as_secs_f64();
        all.slowest = slower(all.slowest, Some(Slowest { case: case.id(), seconds }));
        // Nobody knows what it heard last. Where it cannot be started afresh, what was tried so far is no judging.
        if troubled && let Err(Trouble::Machine(error)) = subject.restart() {
            all.left = Some((dealt.len() - turn - 1, error.to_string()));
            all.broken_off = Some(error);
            break;
        }
    }
    all
}

fn slower(one: Option<Slowest>, other: Option<Slowest>) -> Option<Slowest> {
    one.into_iter().chain(other).max_by(|one, other| one.seconds.total_cmp(&other.seconds))
}

/// What a case saw, put down to what its answers hung on, if that is known.
fn put_down(mut observations: Vec<Observation>, subject: &mut dyn Subject) -> Vec<Observation> {
    if let Some((suspect, why)) = subject.take_cause() {
        observations.iter_mut().for_each(|observation| observation.blame(suspect, &why));
    }
    if let Some(device) = subject.unusual_device() {
        let failed = observations.iter_mut().filter(|observation| observation.outcome == Outcome::Fail);
        failed.for_each(|observation| observation.message += &format!(" ({device})"));
    }
    observations
}

/// Failures of one check that have one name, each with the place of its case.
type Kind<'f> = Vec<(usize, &'f mut Finding)>;

/// Puts together what was tried, in the order of cases, and has every kind of failure shrunk until a moment.
fn settle(
    cases: &[Box<dyn Case>],
    tried: Vec<Tried>,
    patience: &Patience,
    shrink: impl FnOnce(Vec<Kind<'_>>, Instant),
) -> Examined {
    let mut examined = Examined::default();
    let caught = tried.iter().any(|tried| tried.caught);
    let mut findings: Vec<(usize, Finding)> = Vec::new();
    let mut broken: Vec<MachineError> = Vec::new();
    let mut left: BTreeMap<String, usize> = BTreeMap::new();
    for tried in tried {
        findings.extend(tried.findings);
        broken.extend(tried.broken_off);
        examined.slowest = slower(examined.slowest, tried.slowest);
        if let Some((cases, why)) = tried.left {
            *left.entry(why).or_default() += cases;
        }
    }
    let told = |(why, left)| format!("{left} of {} cases were not tried: {why}", cases.len());
    examined.omissions.extend(left.into_iter().map(told));
    findings.sort_by_key(|(index, _)| *index);
    if broken.is_empty() && !caught && patience.lost_s() < SHRINK_TIME.as_secs_f64() {
        shrink(kinds_of_failures(&mut findings), Instant::now() + SHRINK_TIME);
    }
    examined.findings.extend(findings.into_iter().map(|(_, finding)| finding));
    examined.findings.extend(broken.first().map(broken_off));
    examined
}

/// What failed, by kind: those of the first case come first.
fn kinds_of_failures(findings: &mut [(usize, Finding)]) -> Vec<Kind<'_>> {
    let mut kinds: Vec<((Option<String>, String), Kind<'_>)> = Vec::new();
    for (case, finding) in findings.iter_mut().filter(|(_, finding)| finding.outcome == Outcome::Fail) {
        let kind = (finding.suspect.clone(), finding.check.clone());
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, alike)) => alike.push((*case, finding)),
            None => kinds.push((kind, vec![(*case, finding)])),
        }
    }
    kinds.into_iter().map(|(_, kind)| kind).collect()
}

/// An observation of a case, as evidence.
pub fn finding(case: &dyn Case, observation: Observation) -> Finding {
    let Observation { check, outcome, severity, message, suspect, used } = observation;
    Finding {
        id: format!("{}:{check}", case.id()),
        case: case.id(),
        check: check.to_owned(),
        family: case.family(),
        dimension: case.dimension(),
        outcome,
        severity,
        message,
        suspect: suspect.map(str::to_owned),
        used,
        limit: used.map(|_| 1.0),
        replay: None,
        smallest: None,
        seen_in: None,
    }
}

/// A finding that belongs to no case of the challenge: the submission could not be built, a timed answer was wrong.
pub fn finding_about(
    subject: &str,
    check: &str,
    dimension: Dimension,
    outcome: Outcome,
    severity: Severity,
    message: String,
    suspect: Option<&str>,
) -> Finding {
    Finding {
        id: format!("{subject}:{check}"),
        case: subject.to_owned(),
        check: check.to_owned(),
        family: Family::Basic,
        dimension,
        outcome,
        severity,
        message,
        suspect: suspect.map(str::to_owned),
        used: None,
        limit: None,
        replay: None,
        smallest: None,
        seen_in: None,
    }
}

/// The machine could not go on.
fn broken_off(error: &MachineError) -> Finding {
    finding_about(
        "start",
        "starts_again",
        Dimension::Correctness,
        Outcome::Infrastructure,
        Severity::Critical,
        error.to_string(),
        None,
    )
}

/// A state that was to be let go of took the submission with it.
fn not_released(fault: &Fault) -> Observation {
    Observation { check: "releases", ..conduct::of_fault("release", fault, Severity::Major) }
}

/// Shrinks the first failure of each kind; the others tell nothing new. A failure of what is [not diagnosed](Case::is_diagnosed) takes the name
/// of the smaller one, and is of another kind then.
fn shrink_some(
    cases: &[Box<dyn Case>],
    kinds: Vec<Kind<'_>>,
    subject: &mut dyn Subject,
    seed: Seed,
    until: Instant,
    watch: &dyn Watch,
) {
    subject.begin(cases.len());
    for kind in kinds {
        for (case, finding) in kind {
            watch.step(&format!("shrinking {}", finding.id));
            let Smallest { case, named } = shrink(cases[case].as_ref(), finding, subject, seed, until);
            finding.smallest = case.map(|case| case.id());
            let Some((id, Observation { suspect, message, .. })) = named else { break };
            finding.suspect = suspect.map(str::to_owned);
            finding.message = format!("{}; as small as {id}: {message}", finding.message);
        }
    }
}

/// The smallest case that fails alike, if any is smaller, and the smallest that has a name for what is not diagnosed.
#[derive(Default)]
struct Smallest {
    case: Option<Box<dyn Case>>,
    named: Option<(String, Observation)>,
}

/// Takes away from a failing case as long as it keeps failing in the same way.
fn shrink(
    case: &dyn Case,
    failure: &Finding,
    subject: &mut dyn Subject,
    seed: Seed,
    until: Instant,
) -> Smallest {
    let mut smallest = Smallest::default();
    let mut tries = 0;
    'smaller: loop {
        for candidate in smallest.case.as_deref().unwrap_or(case).smaller() {
            if tries == SHRINK_TRIES || Instant::now() >= until {
                break 'smaller;
            }
            tries += 1;
            if let Some(alike) = failing_alike(candidate.as_ref(), failure, subject, seed) {
                if alike.suspect.is_some() && failure.suspect.is_none() && !case.is_diagnosed() {
                    smallest.named = Some((candidate.id(), alike));
                }
                smallest.case = Some(candidate);
                continue 'smaller;
            }
        }
        break;
    }
    smallest
}

/// What fails in a case as it failed before.
fn failing_alike(
    case: &dyn Case,
    failure: &Finding,
    subject: &mut dyn Subject,
    seed: Seed,
) -> Option<Observation> {
    let mut court = Court::new(subject, seed);
    let observations = case.examine(&mut court);
    court.release_all().ok()?;
    put_down(observations.ok()?, subject).into_iter().find(|observation| {
        observation.outcome == Outcome::Fail
            && observation.check == failure.check
            && (observation.suspect == failure.suspect.as_deref() || failure.suspect.is_none())
    })
}

/// Runs one case again and hands out everything it saw.
pub fn replay(case: &dyn Case, subject: &mut dyn Subject, seed: Seed) -> Result<Replay, MachineError> {
    let mut court = Court::recording(subject, seed);
    let observations = case.examine(&mut court)?;
    let record = court.into_record();
    let observations = put_down(observations, subject);
    Ok(Replay {
        findings: observations.into_iter().map(|observation| finding(case, observation)).collect(),
        record,
    })
}

/// One case, run again.
#[derive(Debug)]
pub struct Replay {
    /// What each check saw this time.
    pub findings: Vec<Finding>,
    /// The calls and their tensors.
    pub record: crate::Record,
}

#[cfg(test)]
mod tests {
    use super::*;
    use tribunal_contract::{Answer, Call, StateId};

    /// Answers nothing; refuses or hangs.
    struct Mute {
        hangs: bool,
        restarts: usize,
    }

    impl Subject for Mute {
        fn call(&mut self, _: &Call<'_>) -> Result<Answer, Trouble> {
            Err(if self.hangs {
                Fault::Deadline { limit_s: 1.0 }.into()
            } else {
                Fault::Refused { message: "no".to_owned() }.into()
            })
        }
        fn release(&mut self, _: StateId) -> Result<(), Trouble> {
            Ok(())
        }
        fn restart(&mut self) -> Result<(), Trouble> {
            self.restarts += 1;
            Ok(())
        }
    }

    /// Fails at every size from `size` down to `least`; what fails has a name up to a size.
    #[derive(Clone)]
    struct Sized {
        size: usize,
        least: usize,
        named_up_to: usize,
    }

    impl Case for Sized {
        fn id(&self) -> String {
            format!("basic/sized/{}", self.size)
        }
        fn family(&self) -> Family {
            Family::Basic
        }
        fn dimension(&self) -> Dimension {
            Dimension::Correctness
        }
        fn weight(&self) -> usize {
            self.size
        }
        fn examine(&self, court: &mut Court<'_>) -> Result<Vec<Observation>, MachineError> {
            let call = Call { operation: "forward", inputs: vec![], outputs: vec![], makes: None };
            let refused = court.call(&call).is_err();
            let fails = refused && self.size >= self.least;
            Ok(vec![Observation {
                check: "answers",
                outcome: if fails { Outcome::Fail } else { Outcome::Pass },
                severity: Severity::Major,
                message: "it refuses".to_owned(),
                suspect: (self.size <= self.named_up_to).then_some("refuses_valid_input"),
                used: None,
            }])
        }
        fn is_diagnosed(&self) -> bool {
            self.size <= self.named_up_to
        }
        fn smaller(&self) -> Vec<Box<dyn Case>> {
            if self.size > 1 { vec![Box::new(Self { size: self.size / 2, ..*self })] } else { vec![] }
        }
    }

    fn cases(sizes: &[usize], least: usize) -> Vec<Box<dyn Case>> {
        let sized = sizes.iter().map(|&size| Sized { size, least, named_up_to: 0 });
        sized.map(|case| Box::new(case) as Box<dyn Case>).collect()
    }

    #[test]
    fn a_failure_is_shrunk_to_the_smallest_case_that_still_fails() {
        let mut subject = Mute { hangs: false, restarts: 0 };
        let examined = examine(&cases(&[100, 200], 10), &mut subject, Seed(1), &Unwatched);
        assert_eq!(examined.findings.len(), 2);
        assert_eq!(examined.findings[0].smallest.as_deref(), Some("basic/sized/12"));
        assert_eq!(examined.findings[1].smallest, None, "one of each kind is shrunk");
        assert_eq!(subject.restarts, 0, "a refusal leaves the subject well");
    }

    #[test]
    fn a_failure_too_large_to_have_a_name_takes_that_of_a_smaller_case() {
        let sized = |size| Box::new(Sized { size, least: 10, named_up_to: 60 }) as Box<dyn Case>;
        let mut subject = Mute { hangs: false, restarts: 0 };
        let examined = examine(&[100, 200, 50].map(sized), &mut subject, Seed(1), &Unwatched);
        let told =
            examined.findings.iter().map(|finding| (finding.suspect.as_deref(), finding.message.as_str()));
        let name = Some("refuses_valid_input");
        let small = "it refuses; as small as basic/sized/12: it refuses";
        assert_eq!(told.collect::<Vec<_>>(), [(name, small), (name, small), (name, "it refuses")]);
    }

    #[test]
    fn who_fails_on_an_unusual_device_is_told_on_which() {
        struct Small(Mute);
        impl Subject for Small {
            fn call(&mut self, call: &Call<'_>) -> Result<Answer, Trouble> {
                self.0.call(call)
            }
            fn unusual_device(&self) -> Option<String> {
                Some("on 2 multiprocessors".to_owned())
            }
            fn release(&mut self, state: StateId) -> Result<(), Trouble> {
                self.0.release(state)
            }
            fn restart(&mut self) -> Result<(), Trouble> {
                self.0.restart()
            }
        }
        let mut subject = Small(Mute { hangs: false, restarts: 0 });
        let examined = examine(&cases(&[5, 100], 10), &mut subject, Seed(1), &Unwatched);
        let messages: Vec<&str> = examined.findings.iter().map(|finding| finding.message.as_str()).collect();
        assert_eq!(messages, ["it refuses", "it refuses (on 2 multiprocessors)"]);
    }

    #[test]
    fn cases_of_many_rows_and_sequences_run_on_few_multiprocessors() {
        struct Told(Option<u32>);
        impl Subject for Told {
            fn call(&mut self, _: &Call<'_>) -> Result<Answer, Trouble> {
                Err(Fault::Refused { message: "no".to_owned() }.into())
            }
            fn run_on(&mut self, multiprocessors: u32) {
                self.0 = Some(multiprocessors);
            }
            fn release(&mut self, _: StateId) -> Result<(), Trouble> {
                Ok(())
            }
            fn restart(&mut self) -> Result<(), Trouble> {
                Ok(())
            }
        }
        for challenge in ["layer_norm_backward", "fused_softmax_topk", "kv_cache"] {
            let challenge = crate::challenges::find(challenge).expect("a court");
            let capabilities =
                challenge.contract().capabilities.iter().map(|capability| capability.name).collect();
            let plan = crate::Plan {
                seed: Seed::PUBLIC,
                effort: crate::Effort::Standard,
                capabilities,
                launches: false,
            };
            let mut on_few = 0;
            for case in challenge.cases(&plan) {
                let (id, mut subject) = (case.id(), Told(None));
                if matches!(case.family(), Family::Batch | Family::Stateful) {
                    let is_about_it =
                        ["batch/many_", "batch/decode/"].iter().any(|kind| id.starts_with(kind));
                    case.examine(&mut Court::new(&mut subject, Seed::PUBLIC))
                        .expect("no machine is involved");
                    assert_eq!(subject.0.is_some(), is_about_it, "{id}");
                    on_few += usize::from(is_about_it);
                }
            }
            assert!(on_few > 0, "{}", challenge.contract().id);
        }
    }

    /// Refuses every call, and counts those since its results were let go of.
    #[derive(Default)]
    struct Held {
        calls: usize,
        most: usize,
        let_go: usize,
    }

    impl Subject for Held {
        fn call(&mut self, _: &Call<'_>) -> Result<Answer, Trouble> {
            self.calls += 1;
            self.most = self.most.max(self.calls);
            Err(Fault::Refused { message: "no".to_owned() }.into())
        }
        fn let_go(&mut self) {
            (self.calls, self.let_go) = (0, self.let_go + 1);
        }
        fn release(&mut self, _: StateId) -> Result<(), Trouble> {
            Ok(())
        }
        fn restart(&mut self) -> Result<(), Trouble> {
            Ok(())
        }
    }

    #[test]
    fn no_case_and_no_smaller_one_sees_what_is_held_of_another() {
        let mut subject = Held::default();
        let examined = examine(&cases(&[100, 200], 10), &mut subject, Seed(1), &Unwatched);
        assert!(examined.findings[0].smallest.is_some());
        assert_eq!(subject.most, 1, "each case makes one call");
        assert!(subject.let_go > 2, "smaller ones were tried");
    }

    #[test]
    fn side_by_side_the_same_is_seen_as_one_after_the_other() {
        // Of the three that fail, one has a name.
        let sized = |size| Box::new(Sized { size, least: 10, named_up_to: 60 }) as Box<dyn Case>;
        let cases = [4, 100, 7, 30, 200, 9].map(sized);
        let mute = || Mute { hangs: false, restarts: 0 };
        let alone = examine(&cases, &mut mute(), Seed(1), &Unwatched);
        let smallest = alone.findings.iter().filter_map(|finding| finding.smallest.as_deref());
        assert_eq!(smallest.collect::<Vec<_>>(), ["basic/sized/12", "basic/sized/15", "basic/sized/12"]);
        for hands in [1, 2, 5] {
            let mut subjects: Vec<Mute> = (0..hands).map(|_| mute()).collect();
            let shared = examine_side_by_side(&cases, &mut subjects, Seed(1), &Unwatched);
            assert_eq!((&alone.findings, &alone.omissions), (&shared.findings, &shared.omissions), "{hands}");
        }
        assert_eq!(deal(&cases, 2), [vec![4], vec![0, 1, 2, 3, 5]], "200 beside the 150 of all others");
    }

    /// Makes states that it cannot let go of.
    struct Clinging;

    impl Subject for Clinging {
        fn call(&mut self, _: &Call<'_>) -> Result<Answer, Trouble> {
            let (outputs, inputs_changed, disturbed) = (vec![], vec![], vec![]);
            let (wrote_outside, changed_late) = (false, false);
            let (wall_s, cpu_s) = (0.0, 0.0);
            Ok(Answer { outputs, wall_s, cpu_s, inputs_changed, wrote_outside, disturbed, changed_late })
        }
        fn release(&mut self, _: StateId) -> Result<(), Trouble> {
            Err(Fault::Deadline { limit_s: 5.0 }.into())
        }
        fn restart(&mut self) -> Result<(), Trouble> {
            Ok(())
        }
    }

    /// Makes a state, and leaves it.
    struct Making(usize);

    impl Case for Making {
        fn id(&self) -> String {
            format!("basic/making/{}", self.0)
        }
        fn family(&self) -> Family {
            Family::Basic
        }
        fn dimension(&self) -> Dimension {
            Dimension::Correctness
        }
        fn examine(&self, court: &mut Court<'_>) -> Result<Vec<Observation>, MachineError> {
            let makes = Some(court.new_state());
            let answer = court.call(&Call { operation: "forward", inputs: vec![], outputs: vec![], makes });
            match answer {
                Err(Trouble::Machine(error)) => Err(error),
                _ => Ok(vec![Observation::pass("answers", None)]),
            }
        }
        fn smaller(&self) -> Vec<Box<dyn Case>> {
            vec![]
        }
    }

    fn makings(count: usize) -> Vec<Box<dyn Case>> {
        (0..count).map(|index| Box::new(Making(index)) as Box<dyn Case>).collect()
    }

    #[test]
    fn a_release_that_hangs_is_charged_and_not_waited_for_for_ever() {
        let examined = examine(&makings(20), &mut Clinging, Seed(1), &Unwatched);
        let charged: Vec<_> = examined.findings.iter().filter(|one| one.outcome == Outcome::Fail).collect();
        assert_eq!(charged.len(), 3, "5 s each, and 12 are enough");
        assert_eq!(charged[0].id, "basic/making/0:releases");
        assert_eq!(charged[0].suspect.as_deref(), Some("endless_loop"));
        assert_eq!(examined.omissions.len(), 1);
    }

    /// On a machine that fails at the second call; and, it may be, cannot start anything then.
    struct Unlucky {
        calls: usize,
        starts: bool,
    }

    impl Subject for Unlucky {
        fn call(&mut self, call: &Call<'_>) -> Result<Answer, Trouble> {
            self.calls += 1;
            if self.calls == 2 { Err(gone().into()) } else { Clinging.call(call) }
        }
        fn release(&mut self, _: StateId) -> Result<(), Trouble> {
            Ok(())
        }
        fn restart(&mut self) -> Result<(), Trouble> {
            if self.starts { Ok(()) } else { Err(gone().into()) }
        }
    }

    fn gone() -> MachineError {
        MachineError::System { doing: "starting".to_owned(), error: "gone".to_owned() }
    }

    #[test]
    fn a_machine_that_fails_once_is_told_and_one_that_cannot_go_on_judges_nobody() {
        let outcomes = |starts| -> Vec<(Outcome, Severity)> {
            let mut subject = Unlucky { calls: 0, starts };
            let examined = examine(&makings(4), &mut subject, Seed(1), &Unwatched);
            assert_eq!(examined.omissions.is_empty(), starts, "{:?}", examined.omissions);
            examined.findings.iter().map(|finding| (finding.outcome, finding.severity)).collect()
        };
        let severity_of_a_pass = outcomes(true)[0].1;
        let pass = (Outcome::Pass, severity_of_a_pass);
        let trouble = (Outcome::Infrastructure, Severity::Minor);
        assert_eq!(outcomes(true), [pass, trouble, pass, pass]);
        assert_eq!(outcomes(false), [pass, trouble, (Outcome::Infrastructure, Severity::Critical)]);
    }

    #[test]
    fn what_hangs_is_not_waited_for_for_ever() {
        let mut subject = Mute { hangs: true, restarts: 0 };
        let mut court = Court::new(&mut subject, Seed(1));
        let call = Call { operation: "forward", inputs: vec![], outputs: vec![], makes: None };
        assert!(court.call(&call).is_err());
        assert!(court.lost_s() >= 1.0, "a deadline counts as the seconds it allows");
        let examined = examine(&cases(&[8; 20], 1), &mut subject, Seed(1), &Unwatched);
        assert_eq!((examined.findings.len(), subject.restarts), (13, 14));
        assert_eq!(
            examined.omissions,
            ["7 of 20 cases were not tried: 12 s and more had gone into calls that came to nothing"]
        );
    }
}
