//! `tribunal rescore`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;

use serde::Serialize;
use tribunal_board::{Store, clean};
use tribunal_judge::{Dimension, DimensionScore, Rubric, Ruling, Verdict};

use crate::arguments::{Common, RescoreOptions};
use crate::challenges;
use crate::exit::{Exit, Failure};
use crate::store::{self, not_got};

/// What a changed rubric makes of a verdict.
#[derive(Debug, Serialize)]
struct Change {
    contestant: String,
    before: Ruled,
    after: Ruled,
    /// Null where either has no score.
    difference: Option<f64>,
    /// The dimensions whose score or weight is another.
    dimensions: BTreeMap<Dimension, Parts>,
}

#[derive(Debug, Serialize)]
struct Ruled {
    id: String,
    rubric: String,
    outcome: Ruling,
    score: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Parts {
    before: DimensionScore,
    after: DimensionScore,
}

pub fn run(options: &RescoreOptions, common: &Common) -> Result<Exit, Failure> {
    let file = options.rubric.display();
    let usage = |error: &dyn std::fmt::Display| Failure::Usage(format!("{file}: {error}"));
    let text = fs::read_to_string(&options.rubric).map_err(|error| usage(&error))?;
    let rubric = Rubric::parse(&text).map_err(|error| usage(&error))?;
    let challenge = challenge(options)?;
    let store = store::to_read(common)?;
    let ids = chosen(&store, options, challenge, &rubric)?;
    let mut seen = BTreeSet::new();
    let mut changes = Vec::new();
    // Of several verdicts with the same evidence, that which counts is the last.
    for id in ids.iter().rev() {
        let before = store.get(id).map_err(not_got)?;
        let after = Verdict::new(before.evidence(), &rubric);
        if seen.insert(after.id.clone()) {
            if options.write {
                let sources = store.sources(&before.id).map_err(not_got)?;
                store.put_ruled(&after, &sources, &rubric).map_err(not_got)?;
            }
            changes.push(change(&before, &after));
        }
    }
    changes.reverse();
    print(&changes, options)?;
    Ok(Exit::Accepted)
}

/// The challenge that the rubric belongs to.
fn challenge(options: &RescoreOptions) -> Result<&'static str, Failure> {
    if let Some(id) = &options.challenge {
        return Ok(challenges::find(id)?.id);
    }
    let path = fs::canonicalize(&options.rubric)?;
    let folder = path.parent().and_then(|folder| folder.file_name()).unwrap_or_default().to_string_lossy();
    challenges::find(&folder).map(|challenge| challenge.id).map_err(|failure| {
        let file = options.rubric.display();
        Failure::Usage(format!(
            "whose rubric {file} is, its folder does not tell ({failure}): --challenge ID"
        ))
    })
}

/// The verdicts that are named; or else all on the challenge but those that this rubric ruled.
fn chosen(
    store: &Store,
    options: &RescoreOptions,
    challenge: &str,
    rubric: &Rubric,
) -> Result<Vec<String>, Failure> {
    if options.ids.is_empty() {
        let (summaries, damaged) = store.summaries().map_err(not_got)?;
        for damaged in &damaged {
            anstream::eprintln!("tribunal: skipped {damaged}");
        }
        let ours = summaries.into_iter().filter(|summary| {
            summary.submission.challenge == challenge && summary.judge.rubric != rubric.digest
        });
        return Ok(ours.map(|summary| summary.id).collect());
    }
    let mut ids = Vec::new();
    for prefix in &options.ids {
        let verdict = store.get(prefix).map_err(not_got)?;
        let of = &verdict.submission.challenge;
        if of != challenge {
            let (id, of) = (verdict.id, clean::line(of));
            return Err(Failure::Usage(format!(
                "verdict {id} is on {of}, and the rubric is that of {challenge}"
            )));
        }
        ids.push(verdict.id);
    }
    Ok(ids)
}

fn change(before: &Verdict, after: &Verdict) -> Change {
    let ruled = |verdict: &Verdict| Ruled {
        id: verdict.id.clone(),
        rubric: verdict.judge.rubric.clone(),
        outcome: verdict.outcome,
        score: verdict.score,
    };
    let dimensions = after.dimensions.iter().filter_map(|(&dimension, &after)| {
        let before = *before.dimensions.get(&dimension)?;
        (!alike(before.score, after.score) || !alike(Some(before.weight), Some(after.weight)))
            .then_some((dimension, Parts { before, after }))
    });
    Change {
        contestant: before.submission.name.clone(),
        before: ruled(before),
        after: ruled(after),
        difference: before.score.zip(after.score).map(|(before, after)| after - before),
        dimensions: dimensions.collect(),
    }
}

/// Equal but for the last digits.
fn alike(a: Option<f64>, b: Option<f64>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() < 1e-6,
        _ => a == b,
    }
}

fn print(changes: &[Change], options: &RescoreOptions) -> Result<(), Failure> {
    let mut out = anstream::stdout();
    if options.json {
        for change in changes {
            let line = serde_json::to_string(change).map_err(|error| Failure::Bug(error.to_string()))?;
            writeln!(out, "{line}")?;
        }
        return Ok(());
    }
    if changes.is_empty() {
        writeln!(out, "no verdict to rule on again")?;
        return Ok(());
    }
    let mut rows = vec![["contestant", "before", "", "after", "", "difference", "why"].map(str::to_owned)];
    rows.extend(changes.iter().map(row));
    let widths: [usize; 7] =
        std::array::from_fn(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0));
    for row in &rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            // Scores stand under each other at their points.
            if matches!(column, 2 | 4 | 5) {
                line += &format!("{cell:>width$}  ");
            } else {
                line += &format!("{cell:<width$}  ");
            }
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    if !options.write {
        writeln!(out, "nothing was kept; --write keeps the new verdicts")?;
    }
    Ok(())
}

fn row(change: &Change) -> [String; 7] {
    let Change { contestant, before, after, difference, dimensions } = change;
    let mut why = Vec::new();
    for (dimension, Parts { before, after }) in dimensions {
        if !alike(before.score, after.score) {
            why.push(format!("{dimension} {} -> {}", score(before.score), score(after.score)));
        }
        if !alike(Some(before.weight), Some(after.weight)) {
            why.push(format!("weight of {dimension} {} -> {}", before.weight, after.weight));
        }
    }
    [
        clean::cut(contestant, 40),
        before.outcome.name().to_owned(),
        score(before.score),
        after.outcome.name().to_owned(),
        score(after.score),
        difference.map_or("-".to_owned(), |difference| format!("{difference:+.1}")),
        why.join(", "),
    ]
}

fn score(score: Option<f64>) -> String {
    score.map_or("-".to_owned(), |score| format!("{score:.1}"))
}
