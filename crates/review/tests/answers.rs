//! What becomes of what a model says: of what it cites, names and prefers.

mod support;

use serde_json::{Value, json};
use support::{Endpoint, Reply, SOURCE, ask, item, items, judged, layer_norm, party, reviewer};
use tribunal_judge::{Dimension, SourceFile};
use tribunal_review::{Preference, Reason, Review, page, schema};

/// One review of `SOURCE`; the endpoint gives the same items to every question.
fn reviewed(said: Vec<Value>) -> Review {
    let endpoint = Endpoint::new(move |_, _| items(&said));
    ask(&[party("alice", SOURCE)], &[reviewer("one", endpoint.address, "")])
}

#[test]
fn what_stands_on_lines_that_are_there_is_an_opinion() {
    let review =
        reviewed(vec![item("A/1.py", 7, 8, "mean = x.mean(-1, keepdims=True)", "none", Value::Null)]);
    let report = &review.reviewers[0];
    assert_eq!((report.asked, report.answered, report.failure.as_deref()), (7, 7, None));
    assert_eq!(report.discarded, []);
    let dimensions: Vec<&str> = report.opinions.iter().map(|opinion| opinion.dimension.name()).collect();
    assert_eq!(
        dimensions,
        ["correctness", "stability", "completeness", "memory", "performance", "tests", "code"]
    );
    let citation = &report.opinions[0].citation;
    assert_eq!((citation.path.as_str(), citation.first_line, citation.last_line), ("alice.py", 7, 7));
    assert_eq!(report.opinions[0].decision, None);
}

#[test]
fn what_cites_nothing_that_is_there_is_discarded_and_counted() {
    let good = "return x - mean";
    let said = vec![
        item("A/2.py", 8, 8, good, "none", Value::Null),
        item("alice.py", 8, 8, good, "none", Value::Null),
        item("A/1.py", 80, 81, good, "none", Value::Null),
        item("A/1.py", 7, 7, good, "none", Value::Null),
        item("A/1.py", 8, 8, "return x  - mean", "none", Value::Null),
        item("A/1.py", 7, 8, "# Reviewers agree.", "none", Value::Null),
        item("A/1.py", 8, 8, good, "defect:ugly", Value::Null),
        json!({ "statement": "x", "file": "A/1.py", "first_line": -1, "last_line": 8, "quote": good }),
        item("A/1.py", 8, 8, good, "none", Value::Null),
    ];
    let report = &reviewed(said).reviewers[0];
    assert_eq!(report.opinions, []);
    let reasons: Vec<&Reason> = report.discarded.iter().take(9).map(|discarded| &discarded.reason).collect();
    let form = |reason: &Reason| matches!(reason, Reason::Form(_));
    assert_eq!(
        reasons[..6],
        [
            &Reason::NoSuchFile,
            &Reason::NoSuchFile,
            &Reason::NoSuchLines,
            &Reason::QuoteElsewhere(8),
            &Reason::NoSuchQuote,
            &Reason::NoSuchQuote
        ]
    );
    assert!(
        matches!(reasons[6], Reason::NoSuchCheck(_)) && form(reasons[7]) && reasons[8] == &Reason::TooMany
    );
    assert_eq!(report.discarded.len(), 7 * 9);
}

#[test]
fn answers_that_are_no_json_are_no_votes_and_a_fence_around_one_is_none() {
    let endpoint = Endpoint::new(|_, before| match before {
        0 => Reply::Says("This is excellent work, ten out of ten.".to_owned()),
        1 => Reply::Says("```json\n{\"items\": []}\n```".to_owned()),
        2 => Reply::Status(200, "{\"choices\": []}".to_owned()),
        _ => items(&[]),
    });
    let review = ask(&[party("alice", SOURCE)], &[reviewer("one", endpoint.address, "")]);
    let report = &review.reviewers[0];
    assert_eq!((report.asked, report.answered, report.no_votes.len()), (7, 5, 2));
    assert!(report.no_votes[0].why.contains("not JSON") && report.no_votes[1].why.contains("no message"));
}

#[test]
fn checks_are_decided_by_the_evidence_of_a_verdict() {
    let challenge = layer_norm();
    let variants = challenge.variants();
    let mutant = variants.mutants.iter().find(|mutant| mutant.suspect == Some("gamma_omitted")).unwrap();
    let decide = |verdict| {
        let endpoint = Endpoint::new(|_, _| {
            items(&[
                item("A/1.py", 8, 8, "return x - mean", "defect:gamma_omitted", Value::Null),
                item("A/1.py", 8, 8, "return x - mean", "claim:max_error_budgets", json!("0.4")),
                item("A/1.py", 8, 8, "return x - mean", "claim:time_exponent", json!("1")),
            ])
        });
        let parties = [tribunal_review::Party { verdict: Some(verdict), ..party("alice", SOURCE) }];
        let review = ask(&parties, &[reviewer("one", endpoint.address, "")]);
        let opinions = &review.reviewers[0].opinions[..3];
        opinions.iter().map(|opinion| opinion.decision.clone().unwrap()).collect::<Vec<_>>()
    };
    let wrong = decide(judged(challenge, mutant.variant.stand().as_mut()));
    assert_eq!(
        wrong.iter().map(|one| one.holds).collect::<Vec<_>>(),
        [Some(true), Some(false), None],
        "{wrong:?}"
    );
    let right = decide(judged(challenge, variants.honest[0].stand().as_mut()));
    assert_eq!(
        right.iter().map(|one| one.holds).collect::<Vec<_>>(),
        [Some(false), Some(true), None],
        "{right:?}"
    );
    assert!(right[0].why.contains("fails basic/"), "{right:?}");
    assert!(right[2].why.contains("not measured"), "{right:?}");
}

#[test]
fn claims_in_prose_are_found_by_a_reviewer_and_decided_by_evidence() {
    let challenge = layer_norm();
    let endpoint = Endpoint::new(|heard, _| {
        if heard.dimension() != "analysis" {
            return items(&[]);
        }
        items(&[
            item(
                "A/1.md",
                3,
                3,
                "never beyond 0.4 of the error budget",
                "claim:max_error_budgets",
                json!("0.4"),
            ),
            item("A/1.md", 1, 1, "The best cache.", "none", Value::Null),
            item("A/1.md", 1, 1, "The best cache.", "defect:gamma_omitted", Value::Null),
        ])
    });
    let mut alice = party("alice", SOURCE);
    let text = "The best cache.\n\nIt is never beyond 0.4 of the error budget.\n".to_owned();
    alice.files.push(SourceFile { path: "README.md".to_owned(), text });
    alice.verdict = Some(judged(challenge, challenge.variants().honest[0].stand().as_mut()));
    let review = ask(&[alice], &[reviewer("one", endpoint.address, "")]);
    let report = &review.reviewers[0];
    let [claim] = &report.opinions[..] else { panic!("{:?}", report.opinions) };
    assert_eq!((claim.dimension, claim.statement.as_deref()), (Dimension::Analysis, None));
    assert_eq!(claim.check.as_deref(), Some("claim:max_error_budgets = 0.4"));
    assert_eq!(claim.decision.as_ref().unwrap().holds, Some(true));
    assert_eq!(report.discarded.len(), 2);
    let (prose, code): (Vec<_>, Vec<_>) =
        endpoint.heard().into_iter().partition(|heard| heard.dimension() == "analysis");
    assert_eq!((prose.len(), code.len()), (1, 7));
    assert!(prose[0].shown().contains("The best cache.") && !prose[0].shown().contains("def forward"));
    assert!(code.iter().all(|heard| !heard.shown().contains("The best cache.")));
}

fn compared(script: impl Fn(&support::Heard, usize) -> Reply + Send + Sync + 'static) -> (Review, Endpoint) {
    let endpoint = Endpoint::new(script);
    let parties = [party("alice", SOURCE), party("bob", &SOURCE.replace("x - mean", "x - 2 * mean"))];
    (ask(&parties, &[reviewer("one", endpoint.address, "")]), endpoint)
}

#[test]
fn a_preference_that_turns_with_the_order_is_none() {
    let cite = || item("A/1.py", 2, 2, "import numpy as np", "none", Value::Null);
    let (review, endpoint) =
        compared(move |_, _| Reply::Says(json!({ "preference": "A", "items": [cite()] }).to_string()));
    let report = &review.reviewers[0];
    assert_eq!((report.asked, report.answered), (14, 14));
    assert!(
        report.preferences.values().all(|one| *one == Preference::OrdersDisagree),
        "{:?}",
        report.preferences
    );
    assert!(
        review.preferences.values().all(|split| (split.first, split.second, split.uncounted) == (0, 0, 1))
    );
    // Both orders were really shown, and nobody's name.
    let heard = endpoint.heard();
    assert_eq!([heard[0].label_of("x - 2 * mean"), heard[1].label_of("x - 2 * mean")], ["B/1.py", "A/1.py"]);
    assert!(heard.iter().all(|heard| !heard.body.contains("alice") && !heard.body.contains("bob")));
}

#[test]
fn a_preference_for_the_same_contestant_in_both_orders_counts_if_it_cites() {
    let preferring = |cites: bool| {
        move |heard: &support::Heard, _| {
            let label = heard.label_of("x - 2 * mean");
            let quote = if cites { "return x - 2 * mean" } else { "return mean" };
            let cited = item(&label, 8, 8, quote, "none", Value::Null);
            Reply::Says(json!({ "preference": label[..1], "items": [cited] }).to_string())
        }
    };
    let (review, _) = compared(preferring(true));
    let report = &review.reviewers[0];
    assert!(report.preferences.values().all(|one| *one == Preference::Second));
    assert!(
        report.opinions.iter().all(|one| one.contestant == 1 && one.exchanges.len() == 2),
        "one of both orders"
    );
    assert_eq!(report.opinions.len(), 7);
    let (review, _) = compared(preferring(false));
    assert!(review.reviewers[0].preferences.values().all(|one| *one == Preference::Uncited));
}

#[test]
fn what_models_write_acts_on_no_terminal_and_no_page() {
    let hostile = "\u{1b}[2J<script>alert(1)</script>\u{202e}";
    let mut said = item("A/1.py", 8, 8, "return x - mean", "none", Value::Null);
    said["statement"] = hostile.into();
    let review = reviewed(vec![said.clone(), {
        said["quote"] = hostile.into();
        said
    }]);
    let document = page(&review);
    let style = tribunal_board::Style { color: false, width: 100 };
    let terminal = tribunal_board::document::terminal::show(&document, &style);
    let html = tribunal_board::document::html::page(&document);
    let markdown = tribunal_board::document::markdown::show(&document);
    for shown in [&terminal, &html, &markdown] {
        assert!(!shown.contains(['\u{1b}', '\u{202e}']) && shown.contains("alert(1)"), "{shown}");
        assert!(shown.contains("Opinion") && shown.contains("no score knows of it"));
    }
    assert!(!html.contains("<script>alert") && !markdown.contains("<script>"));
}

#[test]
fn a_review_is_what_its_schema_says() {
    let review = reviewed(vec![item("A/1.py", 8, 8, "return x - mean", "defect:eps_ignored", Value::Null)]);
    let value = serde_json::to_value(&review).unwrap();
    assert!(jsonschema::is_valid(&schema(), &value));
    assert_eq!(serde_json::from_value::<Review>(value).unwrap(), review);
}
