//! Who is judged for a hypothesis, and when.

mod support;

use serde_json::{Value, json};
use support::{Endpoint, HTTP, SOURCE, item, items, judged, layer_norm, nobody, party, reviewer};
use tribunal_judge::{Effort, Verdict};
use tribunal_review::{Judge, Nobody, Party, Review, Wanted, review};

/// Gives everybody the same verdict, and notes of whom it was asked.
struct Scripted {
    asked: Vec<Wanted>,
    verdict: Verdict,
}

impl Judge for Scripted {
    fn effort(&self) -> Effort {
        Effort::Quick
    }

    fn judge(&mut self, wanted: &Wanted) -> Vec<Result<Verdict, String>> {
        self.asked.push(wanted.clone());
        wanted.contestants.iter().map(|_| Ok(self.verdict.clone())).collect()
    }
}

/// The verdict on who leaves gamma out: found and named, and nothing measured.
fn on_gamma_omitted() -> Verdict {
    let variants = layer_norm().variants();
    let mutant = variants.mutants.iter().find(|mutant| mutant.suspect == Some("gamma_omitted")).unwrap();
    judged(layer_norm(), mutant.variant.stand().as_mut())
}

/// A verdict of a run in which everything was measured.
fn measured() -> Verdict {
    let mut verdict = judged(layer_norm(), layer_norm().variants().honest[0].stand().as_mut());
    verdict.judge.measured = true;
    verdict
}

/// A review in which every question is answered by a check of the file that holds the quote.
fn named(parties: &[Party], quote: &'static str, check: &'static str, judge: &mut dyn Judge) -> Review {
    let value = if check.starts_with("claim:") { json!("true") } else { Value::Null };
    let endpoint = Endpoint::new(move |heard, _| {
        items(&[item(&heard.label_of(quote), 8, 8, quote, check, value.clone())])
    });
    review(parties, &[reviewer("one", endpoint.address, "")], &HTTP, judge).unwrap()
}

fn decided(review: &Review) -> (Option<bool>, &str) {
    let decision = review.reviewers[0].opinions[0].decision.as_ref().unwrap();
    (decision.holds, &decision.why)
}

#[test]
fn who_has_no_verdict_is_judged_once_and_the_one_it_gets_decides() {
    let mut judge = Scripted { asked: Vec::new(), verdict: on_gamma_omitted() };
    let review = named(&[party("alice", SOURCE)], "return x - mean", "defect:gamma_omitted", &mut judge);
    assert_eq!(judge.asked, [Wanted { contestants: vec![0], repeats: false }]);
    assert_eq!(decided(&review).0, Some(true));
    assert_eq!(review.contestants[0].verdict.as_deref(), Some(judge.verdict.id.as_str()));
    assert!(review.reviewers[0].opinions.iter().all(|opinion| opinion.decision.is_some()), "seven questions");
}

#[test]
fn nobody_is_judged_for_what_was_discarded_or_names_no_check() {
    let mut judge = Scripted { asked: Vec::new(), verdict: on_gamma_omitted() };
    let review = named(&[party("alice", SOURCE)], "return x - mean", "none", &mut judge);
    assert_eq!(review.reviewers[0].opinions.len(), 7);
    let review = named(&[party("alice", SOURCE)], "import numpy", "defect:gamma_omitted", &mut judge);
    assert_eq!((review.reviewers[0].opinions.len(), review.reviewers[0].discarded.len()), (0, 7));
    assert_eq!(judge.asked, []);
}

#[test]
fn of_two_the_one_that_a_check_is_about_is_judged() {
    let mut judge = Scripted { asked: Vec::new(), verdict: on_gamma_omitted() };
    let parties = [party("alice", SOURCE), party("bob", &SOURCE.replace("x - mean", "x - 2 * mean"))];
    let review = named(&parties, "return x - 2 * mean", "defect:gamma_omitted", &mut judge);
    assert_eq!(judge.asked, [Wanted { contestants: vec![1], repeats: false }]);
    assert_eq!(review.contestants[0].verdict, None);
    assert_eq!(decided(&review).0, Some(true));
}

#[test]
fn a_verdict_that_decides_is_enough_and_one_made_with_less_is_not() {
    let asked_for = |kept: Verdict, check| {
        let mut judge = Scripted { asked: Vec::new(), verdict: measured() };
        let parties = [Party { verdict: Some(kept), ..party("alice", SOURCE) }];
        named(&parties, "return x - mean", check, &mut judge);
        judge.asked
    };
    let once = |repeats| vec![Wanted { contestants: vec![0], repeats }];
    assert_eq!(asked_for(on_gamma_omitted(), "defect:gamma_omitted"), []);
    // Nobody asked for measurements.
    assert_eq!(asked_for(on_gamma_omitted(), "claim:repeatable"), once(true));
    let mut wrong = on_gamma_omitted();
    wrong.omissions.push("time and memory were not measured: the answers are wrong".to_owned());
    assert_eq!(asked_for(wrong, "claim:repeatable"), [], "another judging would not measure either");
    // Measured, and nothing was given twice.
    assert_eq!(asked_for(measured(), "claim:repeatable"), once(true));
    let tried = "two sizes".to_owned();
    let repeats = Some(tribunal_judge::Repeats { tried, differs: None });
    assert_eq!(asked_for(Verdict { repeats, ..measured() }, "claim:repeatable"), []);
}

#[test]
fn more_effort_is_asked_for_where_less_left_a_check_open() {
    struct Standard(bool);
    impl Judge for Standard {
        fn effort(&self) -> Effort {
            Effort::Standard
        }
        fn judge(&mut self, wanted: &Wanted) -> Vec<Result<Verdict, String>> {
            self.0 = true;
            nobody().judge(wanted)
        }
    }
    let is_asked = |passed: bool| {
        let mut kept = measured();
        // Who passed nothing is not cleared of anything.
        kept.findings.retain(|_| passed);
        let mut judge = Standard(false);
        let parties = [Party { verdict: Some(kept), ..party("alice", SOURCE) }];
        let review = named(&parties, "return x - mean", "defect:gamma_omitted", &mut judge);
        assert_eq!(decided(&review).0, passed.then_some(false));
        judge.0
    };
    assert!(is_asked(false) && !is_asked(true));
}

#[test]
fn why_nobody_was_judged_stands_in_the_decision() {
    let mut judge = Nobody("the machine burns".to_owned());
    let none = named(&[party("alice", SOURCE)], "return x - mean", "defect:gamma_omitted", &mut judge);
    assert_eq!(decided(&none), (None, "it was not judged: the machine burns"));
    let parties = [Party { verdict: Some(on_gamma_omitted()), ..party("alice", SOURCE) }];
    let kept = named(&parties, "return x - mean", "claim:repeatable", &mut judge);
    let why = "`repeatable = true` is untestable: time and memory were not measured: nobody asked; it was not judged again: the machine burns";
    assert_eq!(decided(&kept), (None, why));
    assert_eq!(kept.contestants[0].verdict, parties[0].verdict.as_ref().map(|verdict| verdict.id.clone()));
}
