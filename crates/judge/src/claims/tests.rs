use std::collections::BTreeMap;

use tribunal_contract::{Claimed, Language, Takes, challenges};

use super::*;
use crate::Family;

fn measurement(name: &str, workload: &str, value: f64) -> Measurement {
    Measurement {
        name: name.to_owned(),
        workload: workload.to_owned(),
        value,
        unit: "1".to_owned(),
        interval: None,
        floor: None,
        of_floor: None,
        of_reference: None,
        of_reference_interval: None,
        samples: Vec::new(),
    }
}

/// A size that took between these seconds where moving its bytes takes one.
fn time(interval: [f64; 2]) -> Measurement {
    let value = f64::midpoint(interval[0], interval[1]);
    Measurement { interval: Some(interval), floor: Some(1.0), ..measurement("time", "8x8 float32", value) }
}

/// A size that took so many times as long as the reference.
fn beside(ratio: f64, interval: Option<[f64; 2]>) -> Measurement {
    Measurement { of_reference: Some(ratio), of_reference_interval: interval, ..time([1.0, 1.0]) }
}

fn observed(dimension: Dimension, outcome: Outcome, severity: Severity, used: Option<f64>) -> Finding {
    let mut finding =
        finding_about("basic/normal", "right", dimension, outcome, severity, "it is off".to_owned(), None);
    finding.family = Family::Basic;
    finding.used = used;
    finding
}

fn right(used: f64) -> Finding {
    observed(Dimension::Correctness, Outcome::Pass, Severity::Note, Some(used))
}

/// Of a submission in C, all right, measured, with nothing given twice.
fn grounds<'a>(findings: &'a [Finding], measurements: &'a [Measurement]) -> Grounds<'a> {
    Grounds {
        language: Language::C,
        findings,
        measurements,
        processors: 1.0,
        repeats: None,
        unmeasured: None,
    }
}

/// What comes of one claim; its finding says the same.
fn outcome(name: &'static str, claimed: Claimed, grounds: &Grounds<'_>) -> Outcome {
    let findings = decide(&BTreeMap::from([(name, claimed)]), grounds);
    let [finding] = &findings[..] else { panic!("one finding for a claim") };
    assert_eq!(finding.id, format!("claims/{name}:holds"));
    assert_eq!(finding.dimension, Dimension::Analysis);
    let word = match finding.outcome {
        Outcome::Pass => "upheld",
        Outcome::Fail => "refuted",
        _ => "untestable",
    };
    assert!(finding.message.starts_with(&format!("`{name} = {claimed}` is {word}: ")), "{}", finding.message);
    assert_eq!(finding.suspect.as_deref(), (finding.outcome == Outcome::Fail).then_some("claim_refuted"));
    assert_eq!(
        finding.severity,
        if finding.outcome == Outcome::Fail { Severity::Minor } else { Severity::Note }
    );
    finding.outcome
}

fn number(name: &'static str, claimed: f64, measurements: &[Measurement]) -> Outcome {
    outcome(name, Claimed::Number(claimed), &grounds(&[], measurements))
}

use Outcome::{Fail, Inconclusive, Pass};

#[test]
fn every_claim_of_the_contracts_is_decided_and_nothing_decides_none() {
    for contract in challenges::ALL {
        for claim in contract.claims {
            let values = match claim.takes {
                Takes::Number(_) => vec![Claimed::Number(1.0)],
                Takes::YesNo => vec![Claimed::YesNo(true), Claimed::YesNo(false)],
                Takes::Word(words) => words.iter().map(|word| Claimed::Word(word)).collect(),
            };
            for claimed in values {
                assert_eq!(outcome(claim.name, claimed, &grounds(&[], &[])), Inconclusive, "{}", claim.name);
            }
        }
    }
}

#[test]
fn the_contract_says_how_far_figures_may_be_off() {
    let says = |challenge: &str, claim: &str, what: &str| {
        let rule = challenges::find(challenge).unwrap().claim(claim).unwrap().rule;
        assert!(rule.contains(what), "{claim}: {what} is not in: {rule}");
    };
    says("layer_norm_backward", "passes", &format!("within {PASSES_OFF} "));
    says("layer_norm_backward", "cache_tensors", "within a quarter");
    assert_eq!(TENSORS_OFF, 0.25);
    says("layer_norm_backward", "max_error_budgets", &format!("from {HONEST_LIMIT} on"));
    says("layer_norm_backward", "time_exponent", &format!("more than {EXPONENT_OFF} above"));
    says("layer_norm_backward", "bound", "from 1/2 on");
    assert_eq!(MOST, 0.5);
    says("layer_norm_backward", "speedup_over_reference", "less than 1/2");
    assert_eq!(LOOSE, 2.0);
    says("fused_softmax_topk", "scratch_rows", "1/64");
    assert_eq!(SCRATCH_ROWS_OFF, 1.0 / 64.0);
    says("fused_softmax_topk", "extra_memory", "half a row");
    assert_eq!(STORES_ROWS, 0.5);
    says("kv_cache", "bytes_per_token", &format!("{TOKEN_BYTES_OFF} bytes beyond"));
}

#[test]
fn passes_are_counted_and_hold_either_way() {
    let read = |reads: f64| [measurement("reads_per_element", "x, 8x8 float32", reads)];
    assert_eq!(number("passes", 1.0, &read(1.05)), Pass);
    assert_eq!(number("passes", 1.0, &read(3.0)), Fail);
    assert_eq!(number("passes", 3.0, &read(1.0)), Fail);
    assert_eq!(number("passes", 1.0, &read(f64::NAN)), Inconclusive);
    assert_eq!(number("passes", 1.0, &[measurement("passes_at_most", "V", 1.1)]), Inconclusive);
}

#[test]
fn tensors_of_a_cache_are_told_to_a_quarter() {
    let kept = |tensors: f64| {
        [Measurement { floor: Some(4e6), ..measurement("cache_bytes", "1024x1024 float32", 4e6 * tensors) }]
    };
    assert_eq!(number("cache_tensors", 1.0, &kept(1.004)), Pass);
    assert_eq!(number("cache_tensors", 0.5, &kept(0.505)), Pass);
    assert_eq!(number("cache_tensors", 1.0, &kept(0.5)), Fail);
    assert_eq!(number("cache_tensors", 1.0, &kept(1.5)), Fail);
    assert_eq!(number("cache_tensors", 1.0, &kept(f64::NAN)), Inconclusive);
    assert_eq!(number("cache_tensors", 1.0, &[measurement("cache_bytes", "w", 4e6)]), Inconclusive);
}

#[test]
fn extra_memory_is_bounded_and_no_bound_is_far_from_it() {
    let scratch = |rows: f64| [measurement("scratch_rows", "2x1048576k50 float32", rows)];
    assert_eq!(number("scratch_rows", 2.0, &scratch(1.5)), Pass);
    assert_eq!(number("scratch_rows", 0.0, &scratch(0.015)), Pass, "a heap's pages");
    assert_eq!(number("scratch_rows", 0.1, &scratch(0.0)), Pass, "half a row is as little as none");
    assert_eq!(number("scratch_rows", 0.0, &scratch(0.02)), Fail);
    assert_eq!(number("scratch_rows", 2.0, &scratch(2.1)), Fail);
    assert_eq!(number("scratch_rows", 4.0, &scratch(1.5)), Inconclusive);
    assert_eq!(number("scratch_rows", 2.0, &scratch(f64::NAN)), Inconclusive);
    let word = |word, rows| outcome("extra_memory", Claimed::Word(word), &grounds(&[], &scratch(rows)));
    assert_eq!((word("constant", 0.01), word("rows", 2.0)), (Pass, Pass));
    assert_eq!((word("constant", 0.6), word("rows", 0.01)), (Fail, Fail));
    assert_eq!((word("constant", f64::NAN), word("rows", f64::NAN)), (Inconclusive, Inconclusive));
}

#[test]
fn bytes_of_a_token_are_those_of_its_format() {
    let kept = [
        measurement("bytes_per_token", "2x8x2x64c4096 float32", 1025.0),
        measurement("bytes_per_token", "2x8x2x64c4096 float32 paged", 2000.0),
        measurement("bytes_per_token", "2x8x2x64c4096 int8", 273.5),
        measurement("bytes_per_token", "2x8x2x64c4096 int4", f64::NAN),
    ];
    assert_eq!(number("bytes_per_token", 1024.0, &kept), Pass);
    assert_eq!(number("bytes_per_token_int8", 272.0, &kept), Pass);
    assert_eq!(number("bytes_per_token_int8", 256.0, &kept), Fail, "there are scales");
    assert_eq!(number("bytes_per_token", 4096.0, &kept), Inconclusive);
    assert_eq!(number("bytes_per_token_int4", 144.0, &kept), Inconclusive);
    assert_eq!(number("bytes_per_token_float16", 512.0, &kept), Inconclusive);
}

#[test]
fn powers_are_told_to_a_half_along_every_axis() {
    for (claim, name) in [
        ("time_exponent", "growth"),
        ("k_exponent", "growth_with_k"),
        ("append_exponent", "growth_of_append"),
    ] {
        let slopes =
            |powers: &[f64]| powers.iter().map(|&power| measurement(name, "n", power)).collect::<Vec<_>>();
        assert_eq!(number(claim, 1.0, &slopes(&[0.8, 1.3])), Pass);
        assert_eq!(number(claim, 0.0, &slopes(&[-0.2])), Pass);
        assert_eq!(number(claim, 1.0, &slopes(&[1.0, 1.6])), Fail);
        assert_eq!(number(claim, 2.0, &slopes(&[1.0])), Inconclusive, "calls have a cost of their own");
        assert_eq!(number(claim, 1.0, &slopes(&[1.0, f64::NAN])), Inconclusive);
        assert_eq!(number(claim, 1.0, &[measurement("growth_of_something", "n", 1.0)]), Inconclusive);
    }
}

#[test]
fn a_speedup_holds_with_its_interval_on_every_size() {
    let claim = "speedup_over_reference";
    assert_eq!(number(claim, 2.0, &[beside(0.4, Some([0.35, 0.45]))]), Pass);
    assert_eq!(number(claim, 2.0, &[beside(0.6, Some([0.55, 0.65]))]), Fail);
    assert_eq!(number(claim, 2.0, &[beside(0.5, Some([0.4, 0.6]))]), Inconclusive);
    assert_eq!(number(claim, 2.0, &[beside(0.4, None)]), Inconclusive);
    let one_of_two = [beside(0.4, Some([0.35, 0.45])), beside(0.6, Some([0.55, 0.65]))];
    assert_eq!(number(claim, 2.0, &one_of_two), Fail);
    assert_eq!(number(claim, 0.1, &[beside(1.0, Some([0.9, 1.1]))]), Inconclusive, "half as fast would do");
    let unknown = [beside(0.4, Some([f64::NAN, f64::NAN]))];
    assert_eq!(number(claim, 2.0, &unknown), Inconclusive);
    assert_eq!(number(claim, 2.0, &[time([1.0, 1.0])]), Inconclusive, "there was no reference");
}

#[test]
fn what_a_time_is_bound_by_is_the_share_of_moving_bytes() {
    let word = |word, grounds: &Grounds<'_>| outcome("bound", Claimed::Word(word), grounds);
    let close = [time([1.1, 1.2]), time([1.5, 1.7])];
    assert_eq!(word("memory", &grounds(&[], &close)), Pass);
    assert_eq!(word("compute", &grounds(&[], &close)), Fail);
    // Two processors may have moved the bytes in half of the time.
    assert_eq!(word("memory", &Grounds { processors: 2.0, ..grounds(&[], &close) }), Inconclusive);
    // What else was moved, nobody counted.
    let far = [time([9.0, 10.0])];
    assert_eq!(word("memory", &grounds(&[], &far)), Inconclusive);
    assert_eq!(word("compute", &grounds(&[], &far)), Inconclusive);
    let of_gpu = |times: &[Measurement], asked: f64, claimed| {
        let traffic = Measurement { floor: Some(100.0), ..measurement("traffic", "8x8 float32", asked) };
        let all = [times, &[traffic]].concat();
        word(claimed, &Grounds { language: Language::Cuda, ..grounds(&[], &all) })
    };
    assert_eq!(of_gpu(&far, 200.0, "compute"), Pass);
    assert_eq!(of_gpu(&far, 200.0, "memory"), Fail);
    assert_eq!(of_gpu(&far, 900.0, "memory"), Inconclusive, "caches may have kept what is read again");
    assert_eq!(of_gpu(&close, 200.0, "memory"), Pass);
    assert_eq!(of_gpu(&[time([1.1, 1.2]), time([9.0, 10.0])], 200.0, "memory"), Inconclusive, "it depends");
    for unknown in [time([f64::NAN; 2]), Measurement { floor: None, ..time([1.0, 1.0]) }] {
        assert_eq!(of_gpu(&[unknown], 200.0, "memory"), Inconclusive);
    }
    assert_eq!(of_gpu(&[], 200.0, "memory"), Inconclusive);
}

#[test]
fn equal_bits_uphold_and_others_refute() {
    let says = |claimed, differs: Option<&str>| {
        let repeats = Repeats { tried: "8x8, twice".to_owned(), differs: differs.map(str::to_owned) };
        outcome(
            "repeatable",
            Claimed::YesNo(claimed),
            &Grounds { repeats: Some(&repeats), ..grounds(&[], &[]) },
        )
    };
    assert_eq!(says(true, None), Pass);
    assert_eq!(says(true, Some("forward gives other bits")), Fail);
    assert_eq!(says(false, Some("forward gives other bits")), Pass);
    assert_eq!(says(false, None), Inconclusive, "a few equal ones prove nothing");
}

#[test]
fn errors_are_those_of_all_answers() {
    let claim = |most, findings: &[Finding]| {
        outcome("max_error_budgets", Claimed::Number(most), &grounds(findings, &[]))
    };
    assert_eq!(claim(0.3, &[right(0.1), right(0.3)]), Pass);
    assert_eq!(claim(0.3, &[right(0.1), right(0.31)]), Fail);
    assert_eq!(claim(0.5, &[right(0.1)]), Inconclusive, "all who are right stay below");
    assert_eq!(claim(0.5, &[right(0.6)]), Fail);
    for nan in [f64::NAN, -f64::NAN] {
        assert_eq!(claim(0.3, &[right(nan), right(0.1)]), Inconclusive);
    }
    let of_bits = observed(Dimension::Completeness, Outcome::Pass, Severity::Note, Some(0.9));
    assert_eq!(claim(0.3, &[right(0.1), of_bits]), Pass, "budgets of few bits are others");
    let unsized_failure = observed(Dimension::Stability, Outcome::Fail, Severity::Major, None);
    assert_eq!(claim(0.3, &[right(0.1), unsized_failure.clone()]), Inconclusive);
    assert_eq!(claim(0.3, &[right(700.0), unsized_failure]), Fail, "wrong answers refute it unmeasured");
    let unmeasured = Grounds { unmeasured: Some("the answers are wrong"), ..grounds(&[], &[]) };
    assert_eq!(outcome("max_error_budgets", Claimed::Number(0.3), &unmeasured), Inconclusive);
}

#[test]
fn measurements_of_what_is_wrong_decide_nothing() {
    let scratch = [measurement("scratch_rows", "w", 0.0)];
    let says = |grounds: &Grounds<'_>| {
        let findings = decide(&BTreeMap::from([("scratch_rows", Claimed::Number(0.0))]), grounds);
        (findings[0].outcome, findings[0].message.clone())
    };
    assert_eq!(says(&grounds(&[], &scratch)).0, Pass);
    let unmeasured = Grounds { unmeasured: Some("the answers are wrong"), ..grounds(&[], &scratch) };
    let (outcome, message) = says(&unmeasured);
    assert_eq!(outcome, Inconclusive);
    assert!(message.ends_with("time and memory were not measured: the answers are wrong"), "{message}");
    let wrong = [observed(Dimension::Performance, Outcome::Fail, Severity::Major, None)];
    assert_eq!(says(&grounds(&wrong, &scratch)).0, Inconclusive);
    let slow = [observed(Dimension::Performance, Outcome::Fail, Severity::Minor, None)];
    assert_eq!(says(&grounds(&slow, &scratch)).0, Pass, "slow is not wrong");
    let cheat = [observed(Dimension::Correctness, Outcome::Integrity, Severity::Critical, None)];
    assert_eq!(says(&grounds(&cheat, &scratch)).0, Inconclusive);
}
