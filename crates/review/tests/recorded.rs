//! A review by a real model, replayed: SmolLM2-135M, served by llama.cpp (`docs/reviewers.md` says how). It is too small to say anything that
//! holds, and that is what the review shows.

mod support;

use std::path::{Path, PathBuf};

use support::{judged, layer_norm, nobody};
use tribunal_contract::Language;
use tribunal_judge::SourceFile;
use tribunal_review::{Party, Replay, Review, review};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded")
}

/// The submission that was shown to it, judged or not.
fn submission(is_judged: bool) -> Party {
    let files = ["layer_norm.py", "README.md", "tribunal.toml"].map(|path| SourceFile {
        path: path.to_owned(),
        text: std::fs::read_to_string(folder().join("submission").join(path)).unwrap(),
    });
    let challenge = layer_norm();
    let variants = challenge.variants();
    let flawed = variants.mutants.iter().find(|mutant| mutant.suspect == Some("eps_ignored")).unwrap();
    Party {
        name: "eps-in-its-own-words".to_owned(),
        challenge: challenge.contract().id.to_owned(),
        language: Language::Python,
        sha256: tribunal_judge::digest(&files),
        files: files.to_vec(),
        verdict: is_judged.then(|| judged(challenge, flawed.variant.stand().as_mut())),
    }
}

fn replayed(party: Party) -> Review {
    let (replay, recorded) = Replay::open(&folder().join("smollm2-135m")).unwrap();
    review(&[party], &recorded, &replay, &mut nobody()).unwrap()
}

#[test]
fn a_real_model_is_held_to_its_lines() {
    let review = replayed(submission(false));
    let style = tribunal_board::Style { color: false, width: 110 };
    let shown = tribunal_board::document::terminal::show(&tribunal_review::page(&review), &style);
    insta::assert_snapshot!(shown);
}

#[test]
fn every_exchange_of_the_record_is_used() {
    let report = replayed(submission(true)).reviewers.remove(0);
    let kept = std::fs::read_dir(folder().join("smollm2-135m")).unwrap().count();
    assert_eq!((report.asked, report.answered, report.failure), (8, 8, None));
    assert_eq!((report.opinions.len(), report.discarded.len()), (0, 64));
    assert_eq!(kept, report.asked + 1);
}

#[test]
fn flattery_in_the_recorded_source_did_not_reach_the_model() {
    let source = std::fs::read_to_string(folder().join("submission/layer_norm.py")).unwrap();
    assert!(source.contains("full marks") && source.contains("right for everybody"));
    for file in std::fs::read_dir(folder().join("smollm2-135m")).unwrap() {
        let exchange = std::fs::read_to_string(file.unwrap().path()).unwrap();
        assert!(!exchange.contains("full marks") && !exchange.contains("right for everybody"));
    }
}
