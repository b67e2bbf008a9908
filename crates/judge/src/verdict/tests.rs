use super::*;
use crate::Effort;
use proptest::prelude::*;

const RUBRIC: &str = r#"
[[requirements]]
id = "R1"
text = "gradients are right"
decided_by = ["basic/"]
[[requirements]]
id = "R2"
text = "inputs are left alone"
decided_by = ["*:inputs_unchanged"]
[weights]
correctness = 0.6
performance = 0.3
analysis = 0.1
[limits]
call_s = 1
load_s = 1
build_s = 1
memory_bytes = 1
output_bytes = 1
[scales.time]
dimension = "performance"
full = 1
zero = 100
weight = 1
"#;

fn finding(case: &str, check: &str, outcome: Outcome, severity: Severity) -> Finding {
    Finding {
        id: format!("{case}:{check}"),
        case: case.to_owned(),
        check: check.to_owned(),
        family: if case.starts_with("batch") { Family::Batch } else { Family::Basic },
        dimension: Dimension::Correctness,
        outcome,
        severity,
        message: String::new(),
        suspect: None,
        used: None,
        limit: None,
        replay: None,
        smallest: None,
        seen_in: None,
    }
}

fn evidence(findings: Vec<Finding>) -> Evidence {
    Evidence {
        judge: JudgeInfo {
            version: "0".to_owned(),
            seed: "1".to_owned(),
            effort: Effort::Quick,
            measured: true,
            rubric: String::new(),
        },
        submission: SubmissionInfo {
            name: "alice".to_owned(),
            challenge: "layer_norm_backward".to_owned(),
            language: "python".to_owned(),
            sha256: "00".to_owned(),
            folder: "/".to_owned(),
            host: String::new(),
        },
        machine: Machine { cpu: String::new(), cores: 1, memory_bytes: 1, gpu: None, cage: String::new() },
        findings,
        measurements: vec![],
        repeats: None,
        coverage: Vec::new(),
        omissions: vec![],
        took_s: 0.0,
        spent_s: BTreeMap::new(),
        slowest: None,
        caged_s: 0.0,
    }
}

fn time(value: f64) -> Measurement {
    Measurement {
        name: "time".to_owned(),
        workload: "w".to_owned(),
        value,
        unit: "s".to_owned(),
        interval: None,
        floor: Some(1.0),
        of_floor: Some(1.0 / value),
        of_reference: None,
        of_reference_interval: None,
        samples: vec![],
    }
}

fn rule(findings: Vec<Finding>) -> Verdict {
    Verdict::new(evidence(findings), &Rubric::parse(RUBRIC).unwrap())
}

use Outcome::{Fail, Inconclusive, Infrastructure, Integrity, Pass};
use Severity::{Critical, Major, Minor, Note};

#[test]
fn what_was_not_assessed_is_left_out_of_the_weights() {
    let mut evidence = evidence(vec![finding("basic/a", "dx", Pass, Note)]);
    evidence.measurements = vec![time(10.0)];
    let verdict = Verdict::new(evidence, &Rubric::parse(RUBRIC).unwrap());
    // (0.6 * 100 + 0.3 * 50) / 0.9
    assert!((verdict.score.unwrap() - 83.333).abs() < 1e-2);
    assert!(!verdict.dimensions[&Dimension::Analysis].assessed);
    assert_eq!(verdict.dimensions[&Dimension::Analysis].score, None);
}

/// As scratch memory may be.
#[test]
fn nothing_at_all_is_full_marks() {
    let score = |values: &[f64]| {
        let mut evidence = evidence(vec![finding("basic/a", "dx", Pass, Note)]);
        evidence.measurements = values.iter().map(|value| time(*value)).collect();
        let verdict = Verdict::new(evidence, &Rubric::parse(RUBRIC).unwrap());
        verdict.dimensions[&Dimension::Performance].score.unwrap()
    };
    assert_eq!(score(&[0.0]), 100.0);
    assert!(score(&[0.0, 1e5]) < 40.0, "and does not hide what is bad");
    assert_eq!(score(&[f64::NAN]), 0.0);
}

#[test]
fn what_was_seen_of_a_kernel_is_replayed_by_its_name_unless_that_could_mean_something_to_a_shell() {
    let command = |case: &str| {
        let race =
            Finding { seen_in: Some("basic/a".to_owned()), ..finding(case, "shared_race", Fail, Critical) };
        rule(vec![race]).findings[0].replay.clone().expect("a command")
    };
    let plain = command("sanitizer/scan/kernel.cu:12");
    assert!(plain.ends_with("/sanitizer/scan/kernel.cu:12:shared_race"), "{plain}");
    assert!(plain.starts_with("tribunal replay "), "{plain}");
    for name in ["sanitizer/scan/a;b.cu:12", "sanitizer/$HOME/a.cu:12", "sanitizer/scan/`a`:1"] {
        assert_eq!(command(name), "tribunal judge /");
    }
}

#[test]
fn analysis_is_the_share_of_decided_claims_that_are_upheld() {
    let claims = |outcomes: &[Outcome]| {
        let claim = |(index, &outcome): (usize, &Outcome)| Finding {
            dimension: Dimension::Analysis,
            ..finding(&format!("claims/{index}"), "holds", outcome, Minor)
        };
        let claims = outcomes.iter().enumerate().map(claim);
        rule(claims.chain([finding("basic/a", "dx", Pass, Note)]).collect())
    };
    let verdict = claims(&[Pass, Inconclusive, Fail, Pass, Infrastructure]);
    let analysis = verdict.dimensions[&Dimension::Analysis];
    assert!(analysis.assessed);
    assert!((analysis.score.unwrap() - 200.0 / 3.0).abs() < 1e-9);
    // (0.6 * 100 + 0.1 * 66.67) / 0.7
    assert!((verdict.score.unwrap() - 95.238).abs() < 1e-2);
    assert_eq!(verdict.outcome, Ruling::Accepted, "what is claimed wrongly is not answered wrongly");
    let rubric = Rubric::parse(RUBRIC).unwrap();
    verdict.check(Some(&rubric)).expect("it says what follows from its evidence");
    assert!(verdict.resampled(&rubric).iter().all(|draw| draw.dimensions[&Dimension::Analysis] == analysis));
    assert_eq!(claims(&[Inconclusive]).dimensions[&Dimension::Analysis].score, None, "nothing was decided");
    assert_eq!(claims(&[Fail]).dimensions[&Dimension::Analysis].score, Some(0.0));
}

#[test]
fn families_weigh_the_same_however_many_cases_they_have() {
    let verdict = rule(vec![
        finding("basic/a", "dx", Fail, Minor),
        finding("basic/b", "dx", Pass, Note),
        finding("basic/c", "dx", Pass, Note),
        finding("basic/d", "dx", Pass, Note),
        finding("batch/a", "dx", Pass, Note),
    ]);
    let correctness = verdict.dimensions[&Dimension::Correctness].score.unwrap();
    assert!((correctness - 100.0 * (0.875 + 1.0) / 2.0).abs() < 1e-9);
}

#[test]
fn rulings_follow_the_gravest_finding() {
    let pass = || finding("basic/a", "dx", Pass, Note);
    assert_eq!(rule(vec![pass()]).outcome, Ruling::Accepted);
    assert_eq!(rule(vec![pass(), finding("b", "dx", Fail, Minor)]).outcome, Ruling::Accepted);
    assert_eq!(rule(vec![pass(), finding("b", "dx", Fail, Major)]).outcome, Ruling::Rejected);
    assert_eq!(rule(vec![pass(), finding("b", "dx", Inconclusive, Major)]).outcome, Ruling::Accepted);
    let caught = rule(vec![finding("b", "dx", Fail, Major), finding("c", "dx", Integrity, Major)]);
    assert_eq!((caught.outcome, caught.score), (Ruling::Disqualified, Some(0.0)));
    let machine = rule(vec![pass(), finding("b", "dx", Infrastructure, Critical)]);
    assert_eq!((machine.outcome, machine.score), (Ruling::Infrastructure, None));
    assert_eq!(rule(vec![]).outcome, Ruling::Infrastructure);
    let unrun = Finding { dimension: Dimension::Code, ..pass() };
    assert_eq!(rule(vec![unrun]).outcome, Ruling::Infrastructure, "reading the source is not judging");
}

#[test]
fn a_critical_failure_caps_the_whole() {
    let many = (0..50).map(|i| finding(&format!("basic/{i}"), "dx", Pass, Note));
    let verdict = rule(many.chain([finding("basic/x", "dx", Fail, Critical)]).collect());
    assert_eq!(verdict.score, Some(50.0));
}

#[test]
fn requirements_are_met_failed_or_undecided() {
    let met = |findings| rule(findings).requirements.iter().map(|r| r.met).collect::<Vec<_>>();
    assert_eq!(met(vec![finding("basic/a", "dx", Pass, Note)]), [Some(true), None]);
    assert_eq!(
        met(vec![
            finding("basic/a", "dx", Pass, Note),
            finding("basic/b", "dx", Fail, Major),
            finding("batch/b", "inputs_unchanged", Pass, Note)
        ]),
        [Some(false), Some(true)]
    );
}

#[test]
fn ruling_again_on_the_same_evidence_changes_nothing() {
    let verdict = rule(vec![finding("basic/a", "dx", Fail, Major), finding("batch/b", "dx", Pass, Note)]);
    assert_eq!(Verdict::new(verdict.evidence(), &Rubric::parse(RUBRIC).unwrap()), verdict);
    let text = serde_json::to_string(&verdict).unwrap();
    assert_eq!(serde_json::from_str::<Verdict>(&text).unwrap(), verdict);
}

/// As numbers are rounded, (0.1 · 100 + 0.7 · 100) / (0.1 + 0.7) is more than 100.
#[test]
fn rounding_takes_no_score_beyond_the_best() {
    let rubric = RUBRIC
        .replace("correctness = 0.6", "correctness = 0.1")
        .replace("performance = 0.3", "performance = 0.7");
    let rubric = rubric.replace("analysis = 0.1", "analysis = 0.2").replace("weight = 1", "weight = 0.1")
        + "[scales.growth]\ndimension = \"performance\"\nfull = 1\nzero = 100\nweight = 0.7\n";
    let mut evidence = evidence(vec![finding("basic/a", "dx", Pass, Note)]);
    evidence.measurements = vec![time(1.0), Measurement { name: "growth".to_owned(), ..time(1.0) }];
    let verdict = Verdict::new(evidence, &Rubric::parse(&rubric).unwrap());
    assert_eq!(verdict.dimensions[&Dimension::Performance].score, Some(100.0));
    assert_eq!(verdict.score, Some(100.0));
}

proptest! {
    /// Turning a pass into a failure never raises a score, and no score leaves 0..=100.
    #[test]
    fn a_further_failure_never_raises_the_score(marks in proptest::collection::vec(0..4usize, 1..12), which in 0..12usize) {
        let outcome = |mark| match mark { 0 => (Pass, Note), 1 => (Fail, Minor), 2 => (Fail, Major), _ => (Fail, Critical) };
        let findings = |marks: &[usize]| marks.iter().enumerate().map(|(i, &mark)| {
            let (outcome, severity) = outcome(mark);
            finding(&format!("{}/{i}", if i % 2 == 0 { "basic" } else { "batch" }), "dx", outcome, severity)
        }).collect::<Vec<_>>();
        let before = rule(findings(&marks)).score.unwrap_or(100.0);
        let mut worse = marks.clone();
        let index = which % marks.len();
        worse[index] = 3;
        let after = rule(findings(&worse)).score.unwrap_or(0.0);
        prop_assert!((0.0..=100.0).contains(&after));
        prop_assert!(after <= before + 1e-9, "{before} -> {after}");
    }
}

#[test]
fn draws_scatter_around_the_score_and_only_where_cases_disagree() {
    let rubric = Rubric::parse(RUBRIC).unwrap();
    let all_right = (0..20).map(|i| finding(&format!("basic/{i}"), "within", Outcome::Pass, Severity::Note));
    let right = Verdict::new(evidence(all_right.clone().collect()), &rubric);
    let draws = right.resampled_scores(&rubric);
    assert_eq!(draws.len(), resample::DRAWS);
    assert!(draws.iter().all(|draw| (draw - right.score.unwrap()).abs() < 1e-9), "nothing to disagree about");

    let minor = |i: usize| finding(&format!("basic/odd{i}"), "within", Outcome::Fail, Severity::Minor);
    let mixed = Verdict::new(evidence(all_right.chain((0..20).map(minor)).collect()), &rubric);
    let draws = mixed.resampled_scores(&rubric);
    let mean = draws.iter().sum::<f64>() / draws.len() as f64;
    let spread = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>().sqrt();
    assert!((mean - mixed.score.unwrap()).abs() < 3.0 && spread > 1.0, "{mean} {spread}");
}

#[test]
fn a_changed_rubric_makes_another_verdict() {
    let passing = || evidence(vec![finding("basic/1", "within", Outcome::Pass, Severity::Note)]);
    let ours = Rubric::parse(RUBRIC).unwrap();
    let changed = Rubric::parse(
        &RUBRIC.replace("correctness = 0.6", "correctness = 0.5").replace("analysis = 0.1", "analysis = 0.2"),
    )
    .unwrap();
    let (first, second) = (Verdict::new(passing(), &ours), Verdict::new(passing(), &changed));
    assert_ne!(first.id, second.id);
    assert_ne!(first.judge.rubric, second.judge.rubric);
    assert_eq!(
        Verdict::new(second.evidence(), &ours).id,
        first.id,
        "evidence does not know who ruled on it last"
    );
}
