//! Verdicts to show in tests.

use std::collections::BTreeMap;

use tribunal_judge::{
    Coverage, Dimension, Effort, Evidence, Family, Finding, JudgeInfo, Machine, Measurement, Outcome, Phase,
    Rubric, Severity, Slowest, SubmissionInfo, Verdict, rubric,
};

fn rubric() -> Rubric {
    let requirement = |id: &str, text: &str, by: &[&str]| rubric::Requirement {
        id: id.to_owned(),
        text: text.to_owned(),
        decided_by: by.iter().map(|&by| by.to_owned()).collect(),
    };
    let scale = |dimension, full, zero| rubric::Scale { dimension, full, zero, weight: 1.0 };
    Rubric {
        requirements: vec![
            requirement("any_batch", "any number of rows, each on its own", &["batch/"]),
            requirement("inputs", "inputs are left as they were", &["*:inputs_unchanged"]),
            requirement("shapes", "any shape, down to one element", &["shapes/"]),
            requirement("interleaved", "a cache survives other forward passes", &["stateful/"]),
        ],
        weights: BTreeMap::from([
            (Dimension::Correctness, 0.4),
            (Dimension::Stability, 0.2),
            (Dimension::Completeness, 0.1),
            (Dimension::Memory, 0.1),
            (Dimension::Performance, 0.15),
            (Dimension::Tests, 0.05),
        ]),
        limits: rubric::Limits {
            call_s: 1.0,
            load_s: 10.0,
            build_s: 60.0,
            memory_bytes: 1 << 30,
            output_bytes: 1 << 16,
        },
        scales: BTreeMap::from([
            ("time".to_owned(), scale(Dimension::Performance, 1.0, 100.0)),
            ("cache_bytes".to_owned(), scale(Dimension::Memory, 1.0, 8.0)),
        ]),
        digest: "5a3b1e".to_owned(),
    }
}

fn measurements() -> Vec<Measurement> {
    let measurement = |name: &str, workload: &str, value, unit: &str, floor: f64| Measurement {
        name: name.to_owned(),
        workload: workload.to_owned(),
        value,
        unit: unit.to_owned(),
        interval: None,
        floor: Some(floor),
        of_floor: Some(floor / value),
        of_reference: None,
        of_reference_interval: None,
        samples: vec![],
    };
    vec![
        Measurement {
            interval: Some([1.20e-4, 1.26e-4]),
            of_reference: Some(1.9),
            of_reference_interval: Some([1.85, 1.95]),
            samples: vec![1.2e-4, 1.23e-4, 1.26e-4],
            ..measurement("time", "512x768", 1.23e-4, "s", 0.9e-4)
        },
        Measurement {
            interval: Some([1.1e-3, 1.3e-3]),
            of_reference: Some(1.02),
            of_reference_interval: Some([0.97, 1.06]),
            ..measurement("time", "4096x768", 1.2e-3, "s", 0.7e-3)
        },
        measurement("cache_bytes", "512x768", 3_149_824.0, "bytes", 1_576_960.0),
    ]
}

/// A finding with a passing outcome, from its id.
pub(crate) fn finding(id: &str, family: Family) -> Finding {
    let (case, check) = id.split_once(':').expect("a case and a check");
    Finding {
        id: id.to_owned(),
        case: case.to_owned(),
        check: check.to_owned(),
        family,
        dimension: if family == Family::Stability { Dimension::Stability } else { Dimension::Correctness },
        outcome: Outcome::Pass,
        severity: Severity::Note,
        message: String::new(),
        suspect: None,
        used: Some(0.31),
        limit: Some(1.0),
        replay: None,
        smallest: None,
        seen_in: None,
    }
}

fn failing(id: &str, family: Family, severity: Severity, message: &str, suspect: Option<&str>) -> Finding {
    Finding {
        outcome: Outcome::Fail,
        severity,
        message: message.to_owned(),
        suspect: suspect.map(str::to_owned),
        used: Some(812.5),
        ..finding(id, family)
    }
}

fn passing() -> Vec<Finding> {
    vec![
        finding("basic/ordinary/4x8/float32:dx_within_budget", Family::Basic),
        finding("shapes/one/1x1/float32:dx_within_budget", Family::Shapes),
        finding("stability/large_mean/4x64/float32:dx_within_budget", Family::Stability),
        finding("batch/gamma_random/4x8/float32:dgamma_within_budget", Family::Batch),
        finding("stateful/interleaved/2x8/float32:inputs_unchanged", Family::Stateful),
    ]
}

fn evidence(name: &str, findings: Vec<Finding>) -> Evidence {
    Evidence {
        judge: JudgeInfo {
            version: "0.1.0".to_owned(),
            seed: "20260421".to_owned(),
            effort: Effort::Standard,
            measured: true,
            rubric: String::new(),
        },
        submission: SubmissionInfo {
            name: name.to_owned(),
            challenge: "layer_norm_backward".to_owned(),
            language: "python".to_owned(),
            sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".to_owned(),
            folder: format!("/home/user/{name}"),
            host: "CPython 3.11.7, numpy 2.1.0".to_owned(),
        },
        machine: Machine {
            cpu: "Imaginary CPU @ 2.00GHz".to_owned(),
            cores: 2,
            memory_bytes: 16_000_000_000,
            gpu: None,
            cage: "full: landlock, seccomp, user namespace".to_owned(),
        },
        findings,
        measurements: measurements(),
        repeats: None,
        coverage: Vec::new(),
        omissions: vec!["bfloat16: not claimed".to_owned()],
        took_s: 6.54,
        spent_s: [(Phase::Building, 1.2), (Phase::Cases, 4.3), (Phase::Timing, 1.04)].into(),
        slowest: Some(Slowest { case: "scale/normal/9001x4/float32".to_owned(), seconds: 2.31 }),
        caged_s: 2.1,
    }
}

/// A good verdict on that contestant, with the id that follows from it.
pub(crate) fn named(name: &str) -> Verdict {
    judged(evidence(name, passing()))
}

/// One of each kind.
pub(crate) fn all() -> [Verdict; 6] {
    [accepted(), rejected(), hopeless(), disqualified(), infrastructure(), hostile()]
}

/// The summaries of verdicts.
pub(crate) fn summaries(verdicts: &[Verdict]) -> Vec<crate::Summary> {
    verdicts.iter().map(crate::Summary::of).collect()
}

fn judged(evidence: Evidence) -> Verdict {
    Verdict::new(evidence, &rubric())
}

/// Everything held.
pub(crate) fn accepted() -> Verdict {
    judged(evidence("alice", passing()))
}

/// Everything held, of that name and with that score.
pub(crate) fn scored(name: &str, score: f64) -> Verdict {
    Verdict { score: Some(score), ..judged(evidence(name, passing())) }
}

/// Several defects.
pub(crate) fn rejected() -> Verdict {
    let mut findings = passing();
    let mixed = Some("rows_mixed");
    let (critical, minor) = (Severity::Critical, Severity::Minor);
    findings.push(failing(
        "edge/tiny_eps/3x8/float32:dx_within_budget",
        Family::Edge,
        Severity::Major,
        "dx[1, 3] is 0.25, should be 0.5",
        None,
    ));
    findings.push(failing(
        "edge/constant_rows/3x8/float32:dx_within_budget",
        Family::Edge,
        Severity::Major,
        "dx[0, 0] is NaN, should be 0",
        None,
    ));
    findings.push(failing(
        "stateful/twice/2x8/float32:inputs_unchanged",
        Family::Stateful,
        minor,
        "forward wrote to gamma",
        None,
    ));
    for shape in ["4x8", "16x33", "2x8", "7x5"] {
        for check in ["dx_within_budget", "dgamma_within_budget"] {
            let id = format!("batch/gamma_random/{shape}/float32:{check}");
            findings.push(failing(
                &id,
                Family::Batch,
                critical,
                "rows are mixed: row 0 is right alone and wrong in a batch of more rows",
                mixed,
            ));
        }
    }
    findings.push(failing(
        "shapes/odd/13x7/float32:dx_within_budget",
        Family::Shapes,
        critical,
        "row 0 is right alone and wrong in a batch",
        mixed,
    ));
    findings.iter_mut().find(|f| f.suspect.is_some()).expect("a suspect").smallest =
        Some("batch/gamma_random/2x3/float32".to_owned());
    judged(evidence("bob", findings))
}

/// More kinds of failure than a screen holds.
pub(crate) fn hopeless() -> Verdict {
    let mut findings = passing();
    for kind in [
        "eps_outside",
        "unbiased_variance",
        "gamma_ignored",
        "beta_grad_missing",
        "mean_kept",
        "float16_inside",
        "rows_mixed",
    ] {
        let id = format!("basic/{kind}/4x8/float32:dx_within_budget");
        findings.push(failing(
            &id,
            Family::Basic,
            Severity::Critical,
            "behaves as if it were otherwise",
            Some(kind),
        ));
    }
    judged(evidence("mallory", findings))
}

/// A cheat.
pub(crate) fn disqualified() -> Verdict {
    let mut findings = passing();
    findings.push(Finding {
        outcome: Outcome::Integrity,
        ..failing(
            "basic/ordinary/4x8/float32:protocol",
            Family::Basic,
            Severity::Critical,
            "wrote to the judge's pipe",
            Some("forged_answer"),
        )
    });
    judged(evidence("eve", findings))
}

/// No compiler here.
pub(crate) fn infrastructure() -> Verdict {
    let findings = vec![Finding {
        outcome: Outcome::Infrastructure,
        ..failing("build:built", Family::Basic, Severity::Critical, "cc is missing: apt install gcc", None)
    }];
    let mut evidence = evidence("carol", findings);
    evidence.measurements.clear();
    judged(evidence)
}

/// Text from a submission at its worst, wherever a verdict may carry some.
pub(crate) fn hostile() -> Verdict {
    let mut evidence = evidence("<b>bob</b>|`x`\u{202e}[a](http://evil)", passing());
    evidence.findings.push(failing(
        "basic/ordinary/4x8/float32:y_within_budget",
        Family::Basic,
        Severity::Major,
        "refused the call: \u{1b}[2J\u{1b}[31m| a | b |\n# heading\n<script>alert(1)</script> ![x](http://evil/x.png) `code` @everyone www.evil.com",
        None,
    ));
    evidence.submission.host = "py`thon|\u{7}".to_owned();
    evidence.omissions.push("- [ ] <img src=x> \u{2066}".to_owned());
    evidence.coverage.push(Coverage {
        kernel: "k<i>|`x`\u{202e}".to_owned(),
        launched: true,
        instructions: 9,
        covered: 4,
        uncovered: vec!["<img src=x>.cu:3-4".to_owned()],
        once: vec!["**b**`.cu:5".to_owned()],
    });
    evidence.measurements[0].workload = "a|b`c".to_owned();
    judged(evidence)
}
