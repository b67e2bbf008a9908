use super::*;
use crate::{Style, samples};
use serde_json::Value;
use tribunal_judge::{Evidence, Finding, Measurement, Rubric, challenges};

/// The sample evidence, ruled on by the rubric of a challenge, so that it can be drawn anew.
fn ruled(challenge: &str, change: impl FnOnce(&mut Evidence)) -> Verdict {
    let mut evidence = samples::accepted().evidence();
    evidence.submission.challenge = challenge.to_owned();
    change(&mut evidence);
    let rubric = Rubric::parse(challenges::find(challenge).unwrap().rubric()).unwrap();
    Verdict::new(evidence, &rubric)
}

fn contestant(label: &str, verdicts: Vec<Verdict>) -> Contestant {
    Contestant { label: label.to_owned(), verdicts }
}

fn timed(of_reference: f64, spread: f64) -> impl FnOnce(&mut Evidence) {
    move |evidence| {
        for one in evidence.measurements.iter_mut().filter(|one| one.unit == "s") {
            one.value = of_reference * 1e-3;
            one.of_reference = Some(of_reference);
            one.of_reference_interval = Some([of_reference / spread, of_reference * spread]);
        }
    }
}

fn of_time<'a>(comparison: &'a Comparison, workload: &str) -> &'a Measured {
    let mut rows = comparison.challenges[0].measurements.iter();
    rows.find(|row| row.name == "time" && row.workload == workload).unwrap()
}

const LAYER_NORM: &str = "layer_norm_backward";

#[test]
fn a_better_outcome_wins_over_any_score() {
    let accepted = Verdict { score: Some(60.0), ..samples::accepted() };
    let rejected = Verdict { score: Some(90.0), ..samples::rejected() };
    let comparison = compare(&[contestant("b", vec![rejected]), contestant("a", vec![accepted])], &[]);
    let on = &comparison.challenges[0];
    assert!(matches!(on.overall, Edge::Won { winner: 1, by_outcome: true, .. }), "{:?}", on.overall);
    assert_eq!((comparison.records[0].wins, comparison.records[0].losses), (0, 1));
}

#[test]
fn scores_within_half_a_point_are_a_tie() {
    for (score, tie) in [(90.5, true), (89.4, false)] {
        let scored = |name, score| contestant(name, vec![samples::scored(name, score)]);
        let comparison = compare(&[scored("a", 90.0), scored("b", score)], &[]);
        assert_eq!(matches!(comparison.challenges[0].overall, Edge::Tie { .. }), tie, "{score}");
    }
}

#[test]
fn a_lead_that_other_cases_would_turn_is_a_tie() {
    // Each fails a case that the other does not: who is ahead depends on which were drawn.
    let failing = |which: usize| {
        ruled(LAYER_NORM, |evidence| {
            let finding = &mut evidence.findings[which];
            finding.outcome = Outcome::Fail;
            finding.severity = tribunal_judge::Severity::Minor;
        })
    };
    let comparison = compare(&[contestant("a", vec![failing(0)]), contestant("b", vec![failing(3)])], &[]);
    let on = &comparison.challenges[0];
    let [low, high] = on.leads[0][1].unwrap();
    assert!(low <= 0.0 && high >= 0.0, "{low} {high}");
    assert!(matches!(on.overall, Edge::Tie { .. }), "{:?}", on.overall);
}

#[test]
fn a_score_for_speed_without_a_faster_workload_is_a_tie() {
    // The same ratio to the reference, on a day when everything took ten times as long.
    let slow = |evidence: &mut Evidence| {
        timed(1.0, 1.02)(evidence);
        evidence.measurements.iter_mut().filter(|one| one.unit == "s").for_each(|one| one.value *= 10.0);
        // Nor does a hair's breadth of memory, the same in every draw, make a winner of the whole.
        evidence.measurements.iter_mut().filter(|one| one.unit == "bytes").for_each(|one| one.value *= 1.002);
    };
    let contestants = [
        contestant("a", vec![ruled(LAYER_NORM, timed(1.0, 1.02))]),
        contestant("b", vec![ruled(LAYER_NORM, slow)]),
    ];
    let comparison = compare(&contestants, &[]);
    let on = &comparison.challenges[0];
    let speed = on.dimensions.iter().find(|row| row.name == "performance").unwrap();
    assert!(speed.values[0].unwrap() > speed.values[1].unwrap() + 10.0, "{speed:?}");
    assert!(matches!(speed.edge, Edge::Tie { .. }), "{speed:?}");
    assert!(matches!(on.overall, Edge::Tie { .. }), "{:?}", on.overall);
}

#[test]
fn leads_too_small_to_count_alone_count_together() {
    // Four families with one case more that holds: drawn anew, each may vanish, and hardly all at once.
    let failing = |count: usize| {
        ruled(LAYER_NORM, move |evidence| {
            let more: Vec<Finding> = (0..8)
                .flat_map(|copy| {
                    samples::accepted().findings.into_iter().map(move |mut finding| {
                        finding.case = format!("{}/{copy}", finding.case);
                        finding.id = format!("{}:{}", finding.case, finding.check);
                        finding
                    })
                })
                .collect();
            evidence.findings.extend(more);
            for finding in evidence.findings.iter_mut().rev().take(count) {
                finding.outcome = Outcome::Fail;
                finding.severity = tribunal_judge::Severity::Minor;
            }
        })
    };
    let comparison = compare(&[contestant("a", vec![failing(0)]), contestant("b", vec![failing(25)])], &[]);
    let on = &comparison.challenges[0];
    assert!(matches!(on.overall, Edge::Won { winner: 0, .. }), "{:?} {:?}", on.overall, on.leads);
}

#[test]
fn scores_by_different_rubrics_are_not_compared() {
    let ours = ruled(LAYER_NORM, |_| ());
    let theirs = samples::accepted();
    let comparison = compare(&[contestant("a", vec![ours]), contestant("b", vec![theirs])], &[]);
    assert_eq!(comparison.challenges[0].overall, Edge::Undecided);
    assert!(comparison.records[0].met.is_empty());
    let page = crate::document::markdown::show(&document(&comparison));
    assert!(page.contains("nothing here tells who is ahead"), "{page}");
}

#[test]
fn times_are_compared_through_the_reference_and_noise_is_a_tie() {
    for (second, spread, expected) in [(2.0, 1.02, "won"), (1.01, 1.02, "tie"), (1.1, 1.4, "undecided")] {
        let contestants = [
            contestant("a", vec![ruled(LAYER_NORM, timed(1.0, spread))]),
            contestant("b", vec![ruled(LAYER_NORM, timed(second, spread))]),
        ];
        let comparison = compare(&contestants, &[]);
        let row = of_time(&comparison, "512x768");
        let found = match row.edge {
            Edge::Won { winner: 0, .. } => "won",
            Edge::Tie { .. } => "tie",
            Edge::Undecided => "undecided",
            _ => "other",
        };
        assert_eq!(found, expected, "{row:?}");
        let over = row.over_best[1].unwrap();
        assert!((over.ratio - second).abs() < 1e-12);
        // Two equal spreads add up like the sides of a square.
        let [low, high] = over.interval.unwrap();
        assert!(((high / low).ln() / 2.0 - spread.ln() * 2f64.sqrt()).abs() < 1e-12);
    }
}

#[test]
fn the_reference_tells_who_is_faster_where_the_machine_changed() {
    let on_a_slow_day = |evidence: &mut Evidence| {
        timed(1.0, 1.02)(evidence);
        evidence.measurements.iter_mut().filter(|one| one.unit == "s").for_each(|one| one.value *= 10.0);
    };
    let contestants = [
        contestant("a", vec![ruled(LAYER_NORM, on_a_slow_day)]),
        contestant("b", vec![ruled(LAYER_NORM, timed(2.0, 1.02))]),
    ];
    let comparison = compare(&contestants, &[]);
    assert!(matches!(of_time(&comparison, "512x768").edge, Edge::Won { winner: 0, .. }));
}

#[test]
fn times_never_taken_in_turns_tell_nothing_until_they_are() {
    let alone = |value: f64| {
        ruled(LAYER_NORM, move |evidence| {
            for one in evidence.measurements.iter_mut().filter(|one| one.unit == "s") {
                *one = Measurement { value, of_reference: None, of_reference_interval: None, ..one.clone() };
            }
        })
    };
    let contestants = [contestant("a", vec![alone(1e-3)]), contestant("b", vec![alone(2e-3)])];
    assert_eq!(of_time(&compare(&contestants, &[]), "512x768").edge, Edge::Undecided);
    let paired = Paired {
        challenge: LAYER_NORM.to_owned(),
        first: 1,
        second: 0,
        name: "time".to_owned(),
        workload: "512x768".to_owned(),
        ratio: 1.5,
        interval: [1.4, 1.6],
    };
    let comparison = compare(&contestants, &[paired]);
    let row = of_time(&comparison, "512x768");
    assert!(
        matches!(row.edge, Edge::Won { winner: 0, margin: Some(margin), .. } if margin == 1.5),
        "{row:?}"
    );
}

#[test]
fn what_only_some_fail_in_decides() {
    let contestants = [
        contestant("a", vec![samples::accepted()]),
        contestant("b", vec![samples::rejected()]),
        contestant("c", vec![samples::rejected()]),
    ];
    let comparison = compare(&contestants, &[]);
    let on = &comparison.challenges[0];
    assert_eq!(on.deciding[0].title, "rows mixed");
    assert_eq!(on.deciding[0].who, [1, 2]);
    assert_eq!(on.deciding[0].extents, ["critical, 5 cases: shapes 1, batch 4"; 2]);
    assert!(on.weaknesses[0].is_empty() && !on.weaknesses[1].is_empty());
    let all_fail = compare(&contestants[1..], &[]);
    assert!(all_fail.challenges[0].deciding.is_empty(), "what both fail in decides nothing");
}

/// Four contestants over two challenges; the last was judged on one only.
fn several() -> Comparison {
    let minor = |count: usize| {
        move |evidence: &mut Evidence| {
            for finding in evidence.findings.iter_mut().take(count) {
                finding.outcome = Outcome::Fail;
                finding.severity = tribunal_judge::Severity::Minor;
            }
        }
    };
    let softmax = "fused_softmax_topk";
    compare(
        &[
            contestant("a", vec![ruled(LAYER_NORM, minor(0)), ruled(softmax, minor(3))]),
            contestant("b", vec![ruled(LAYER_NORM, minor(2)), ruled(softmax, minor(0))]),
            contestant("c", vec![samples::rejected(), ruled(softmax, minor(4))]),
            contestant("d", vec![ruled(LAYER_NORM, minor(1))]),
        ],
        &[],
    )
}

/// An independent few lines: only the JSON is read, and no function of this crate is called.
#[test]
fn totals_margins_and_ranks_can_be_recomputed_from_the_json() {
    let json: Value = serde_json::to_value(several()).unwrap();
    let number = |value: &Value| value.as_f64();
    let mut recomputed = 0;
    for on in json["challenges"].as_array().unwrap() {
        let entries = on["entries"].as_array().unwrap();
        let rows = on["dimensions"].as_array().unwrap();
        let mut totals = Vec::new();
        for (who, entry) in entries.iter().enumerate() {
            if entry.is_null() {
                totals.push(None);
                continue;
            }
            let parts: Vec<(f64, f64)> = rows
                .iter()
                .filter_map(|row| Some((number(&row["values"][who])?, number(&row["weight"])?)))
                .collect();
            let weights: f64 = parts.iter().map(|part| part.1).sum();
            let mean: f64 = parts.iter().map(|part| part.0 * part.1).sum::<f64>() / weights;
            let score = if entry["capped_from"].is_null() { mean } else { 50.0 };
            assert!((score - number(&entry["score"]).unwrap()).abs() < 1e-9, "{entry}");
            totals.push(Some((entry["outcome"].as_str().unwrap().to_owned(), score)));
            recomputed += 1;
        }
        let accepted: Vec<f64> = totals.iter().flatten().filter(|t| t.0 == "accepted").map(|t| t.1).collect();
        if let Some(margin) = number(&on["overall"]["margin"]) {
            let mut sorted = accepted.clone();
            sorted.sort_by(|a, b| b.total_cmp(a));
            assert!((sorted[0] - sorted[1] - margin).abs() < 1e-9, "{on}");
        }
        let best: f64 = rows
            .iter()
            .map(|row| {
                let values = row["values"].as_array().unwrap().iter().filter_map(number);
                values.reduce(f64::max).map_or(0.0, |best| best * number(&row["weight"]).unwrap())
            })
            .sum();
        let weights: f64 = rows
            .iter()
            .filter(|row| row["values"].as_array().unwrap().iter().any(Value::is_number))
            .map(|row| number(&row["weight"]).unwrap())
            .sum();
        assert!((best / weights - number(&on["hybrid"]["score"]).unwrap()).abs() < 1e-9, "the hybrid");
    }
    assert_eq!(recomputed, 7);
    for record in json["records"].as_array().unwrap() {
        let met = record["met"].as_array().unwrap();
        for (count, who) in
            [("wins", &record["first"]), ("losses", &record["second"]), ("ties", &Value::Null)]
        {
            let expected = met.iter().filter(|one| one["winner"] == *who).count();
            assert_eq!(record[count].as_u64(), Some(expected as u64), "{record}");
        }
    }
    let standings = json["ranking"].as_array().unwrap();
    for standing in standings {
        let stronger = standings.iter().filter(|other| {
            number(&other["strength"]) > number(&standing["strength"]).map(|s| s + 0.04 + 1e-9)
        });
        // Who is ahead by more than the noise has a better rank; those within it share one.
        assert!(
            stronger.clone().all(|other| other["rank"].as_u64() < standing["rank"].as_u64()),
            "{standings:?}"
        );
        assert!(standing["rank"].as_u64().unwrap() as usize <= stronger.count() + 1 + standings.len());
        let (rank, range) = (standing["rank"].as_u64(), &standing["range"]);
        assert!(range[0].as_u64() <= rank && rank <= range[1].as_u64());
    }
    assert_eq!(json["ranked_by"], "strength", "one of them was not judged on everything");
}

#[test]
fn who_met_everywhere_is_ranked_by_the_mean() {
    let scored = |name: &str, score: f64| {
        let second = Verdict {
            submission: tribunal_judge::SubmissionInfo {
                challenge: "kv_cache".to_owned(),
                ..samples::accepted().submission
            },
            ..samples::scored(name, score - 20.0)
        };
        contestant(name, vec![samples::scored(name, score), second])
    };
    let comparison = compare(&[scored("low", 60.0), scored("high", 90.0), scored("near", 89.8)], &[]);
    let ranking: Vec<_> =
        comparison.ranking.iter().map(|one| (one.contestant, one.rank, one.tier, one.mean_score)).collect();
    assert_eq!(comparison.ranked_by, "mean score");
    assert_eq!(ranking[0].1, 1);
    assert_eq!((ranking[1].1, ranking[2]), (1, (0, 3, 2, Some(50.0))));
    assert_eq!(comparison.ranking[2].best, Some(("layer_norm_backward".to_owned(), 60.0)));
    assert_eq!(comparison.ranking[2].worst, Some(("kv_cache".to_owned(), 40.0)));
}

#[test]
fn a_pair_as_a_page() {
    let contestants = [
        contestant("alice", vec![ruled(LAYER_NORM, timed(1.0, 1.02))]),
        contestant("bob", vec![samples::rejected()]),
    ];
    let page = document(&compare(&contestants, &[]));
    insta::assert_snapshot!(crate::document::markdown::show(&page));
}

#[test]
fn several_as_a_page() {
    insta::assert_snapshot!(crate::document::terminal::show(
        &document(&several()),
        &Style { color: false, width: 120 }
    ));
}

#[test]
fn nothing_that_a_submission_wrote_stays_active() {
    let contestants =
        [contestant("<b>x</b>", vec![samples::hostile()]), contestant("alice", vec![samples::accepted()])];
    let page = document(&compare(&contestants, &[]));
    let html = crate::document::html::body(&page);
    assert!(!html.contains("<script") && !html.contains("<b>") && !html.contains("<img"), "{html}");
    let markdown = crate::document::markdown::show(&page);
    assert!(!markdown.contains("<script") && !markdown.contains("\n# heading"), "{markdown}");
    let terminal = crate::document::terminal::show(&page, &Style { color: false, width: 100 });
    assert!(!terminal.contains('\u{1b}') && !terminal.contains('\u{202e}'), "{terminal}");
}

#[test]
fn nobody_and_one_are_no_reason_to_fall_over() {
    assert!(compare(&[], &[]).ranking.is_empty());
    let nothing = compare(&[contestant("a", vec![]), contestant("b", vec![])], &[]);
    assert!(nothing.challenges.is_empty());
    document(&nothing);
    let alone = compare(&[contestant("a", vec![samples::accepted()]), contestant("b", vec![])], &[]);
    assert_eq!(alone.challenges[0].overall, Edge::Uncontested);
    document(&alone);
}

#[test]
fn contestants_without_a_common_challenge_are_named_with_what_they_have() {
    let softmax = "fused_softmax_topk";
    let a = contestant("a", vec![ruled(LAYER_NORM, |_| ())]);
    let b = contestant("b", vec![ruled(softmax, |_| ()), ruled("kv_cache", |_| ())]);
    assert_eq!(
        never_met(&[a.clone(), b.clone()]).unwrap(),
        "no two of them have a challenge in common: a has a verdict on layer_norm_backward; \
         b has a verdict on fused_softmax_topk, kv_cache"
    );
    // Two who met are enough.
    let c = contestant("c", vec![ruled("kv_cache", |_| ())]);
    assert_eq!(never_met(&[a, b, c]), None);
}

#[test]
fn what_each_did_best_is_told_by_its_ground_and_lead() {
    let failing = |cases: usize| {
        move |evidence: &mut Evidence| {
            for finding in evidence.findings.iter_mut().filter(|f| f.family == Family::Batch).take(cases) {
                (finding.outcome, finding.severity) = (Outcome::Fail, tribunal_judge::Severity::Minor);
            }
        }
    };
    let faster = |evidence: &mut Evidence| {
        failing(1)(evidence);
        timed(0.5, 1.02)(evidence);
    };
    let slower = |evidence: &mut Evidence| timed(1.0, 1.02)(evidence);
    let contestants =
        [contestant("a", vec![ruled(LAYER_NORM, faster)]), contestant("b", vec![ruled(LAYER_NORM, slower)])];
    let on = &compare(&contestants, &[]).challenges[0];
    let told = |who: usize, ground: Ground| -> Vec<(&str, &str)> {
        let of_ground = on.strengths[who].iter().filter(|strength| strength.ground == ground);
        of_ground.map(|strength| (strength.what.as_str(), strength.lead.as_str())).collect()
    };
    assert_eq!(
        told(0, Ground::Measurement)[0],
        ("time of 512x768", "the other takes 2.00× as much"),
        "{:?}",
        on.strengths
    );
    assert_eq!(told(1, Ground::Cases), [("batch", "100 % hold, of the other 0 %")]);
    assert!(told(0, Ground::Cases).is_empty() && told(1, Ground::Measurement).is_empty());
}

#[test]
fn families_hold_by_the_same_rule_as_everywhere() {
    let verdict = samples::rejected();
    let on = &compare(&[contestant("a", vec![verdict.clone()])], &[]).challenges[0];
    for (family, held) in Summary::of(&verdict).families {
        let row = on.families.iter().find(|row| row.name == family.name()).unwrap();
        assert_eq!(row.values[0], Some(100.0 * held.held as f64 / held.cases as f64), "{}", row.name);
    }
}
