//! Verdicts as Markdown, for a repository.

pub mod escape;
#[cfg(test)]
mod tests;

use std::fmt::Write;

use tribunal_judge::{Dimension, Measurement, Outcome, Verdict};

use crate::phrases::{self, against, legend, provenance, range, rank, score, short, why_unranked};
use crate::ranking::{self, Standings};
use crate::{Summary, failures, summary, words};
use escape::{cell, code, text};

/// Kinds of failure that are shown: a file may be longer than a screen.
const KINDS_MAX: usize = 20;

/// One verdict as a page.
pub fn verdict(verdict: &Verdict) -> String {
    let sections = [
        headline(verdict),
        dimensions(verdict),
        failed(verdict),
        undecided(verdict),
        measurements(&verdict.measurements),
        requirements(verdict),
        coverage(verdict),
        omissions(&verdict.omissions),
        judged(verdict),
    ];
    let sections: Vec<_> = sections.into_iter().filter(|section| !section.is_empty()).collect();
    sections.join("\n")
}

/// The ranking as a page, a table for each challenge.
pub fn board(summaries: &[Summary]) -> String {
    let sections: Vec<_> = ranking::rank(summaries).iter().map(standings).collect();
    if sections.is_empty() { "No verdicts yet.\n".to_owned() } else { sections.join("\n") }
}

fn headline(verdict: &Verdict) -> String {
    let submission = &verdict.submission;
    let score = verdict.score.map_or_else(|| "no score".to_owned(), |score| format!("{score:.1} / 100"));
    let capped = summary::capped_from(verdict).map_or(String::new(), |mean| {
        format!(" (weighted mean {mean:.1}, capped: something critical failed)")
    });
    format!(
        "# {} · {} · {}\n\n**{}**, {score}{capped}\n",
        code(&submission.name),
        code(&submission.challenge),
        code(&submission.language),
        verdict.outcome.name()
    )
}

fn dimensions(verdict: &Verdict) -> String {
    let mut page = "| dimension | score | weight |\n|---|--:|--:|\n".to_owned();
    for dimension in Dimension::ALL {
        let Some(part) = verdict.dimensions.get(&dimension).filter(|part| part.assessed || part.weight > 0.0)
        else {
            continue;
        };
        let score = part.score.map_or_else(|| "not assessed".to_owned(), |score| format!("{score:.1}"));
        let _ = writeln!(page, "| {dimension} | {score} | {} |", part.weight);
    }
    page
}

fn failed(verdict: &Verdict) -> String {
    let kinds = failures::kinds(verdict);
    if kinds.is_empty() {
        return String::new();
    }
    let mut page = format!("## Failures: {}\n\n", phrases::failures(verdict, &kinds));
    for kind in kinds.iter().take(KINDS_MAX) {
        let fields =
            if kind.fields.is_empty() { String::new() } else { format!(" ({})", kind.fields.join(", ")) };
        let _ = write!(page, "1. **{}: {}**{fields}", kind.gravity(), text(&kind.title));
        if !kind.message.is_empty() {
            let _ = write!(page, " – {}", text(&kind.message));
        }
        let used = kind.used.filter(|used| *used > 1.0);
        let used = used
            .map_or(String::new(), |used| format!("; worst error {} × its budget", words::significant(used)));
        let _ = writeln!(page, "\n   - {}{used}; smallest: {}", text(&kind.extent()), code(kind.smallest));
        if let Some(replay) = &kind.finding.replay {
            let _ = writeln!(page, "   - {}", code(replay));
        }
    }
    if kinds.len() > KINDS_MAX {
        let _ = writeln!(page, "\nAnd {} more.", kinds.len() - KINDS_MAX);
    }
    page
}

fn undecided(verdict: &Verdict) -> String {
    let mut page = String::new();
    for (outcome, title) in [
        (Outcome::Infrastructure, "Not judged: the machine's fault"),
        (Outcome::Inconclusive, "Inconclusive"),
    ] {
        let findings: Vec<_> = verdict.findings.iter().filter(|finding| finding.outcome == outcome).collect();
        if findings.is_empty() {
            continue;
        }
        let _ = writeln!(page, "{}## {title}\n", if page.is_empty() { "" } else { "\n" });
        for finding in findings.iter().take(KINDS_MAX) {
            let _ = writeln!(page, "- {}: {}", code(&finding.id), text(&finding.message));
        }
        if findings.len() > KINDS_MAX {
            let _ = writeln!(page, "- and {} more", findings.len() - KINDS_MAX);
        }
    }
    page
}

fn measurements(measurements: &[Measurement]) -> String {
    if measurements.is_empty() {
        return String::new();
    }
    let mut page =
        "## Measurements\n\n| what | workload | median | against |\n|---|---|--:|---|\n".to_owned();
    for measurement in measurements {
        let value = words::quantity_within(measurement.value, measurement.interval, &measurement.unit);
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} |",
            cell(&text(&words::spoken(&measurement.name))),
            cell(&code(&measurement.workload)),
            cell(&text(&value)),
            cell(&text(&against(measurement)))
        );
    }
    page
}

fn requirements(verdict: &Verdict) -> String {
    if verdict.requirements.is_empty() {
        return String::new();
    }
    let mut page = "## Requirements\n\n".to_owned();
    for requirement in &verdict.requirements {
        let (tick, undecided) = match requirement.met {
            Some(true) => ("x", ""),
            Some(false) => (" ", ""),
            None => (" ", " (undecided)"),
        };
        let _ = writeln!(page, "- [{tick}] {}{undecided}", text(&requirement.text));
    }
    page
}

fn coverage(verdict: &Verdict) -> String {
    let Some((title, kernels)) = phrases::coverage(verdict) else { return String::new() };
    let items: String = kernels.iter().map(|kernel| format!("- {}\n", text(kernel))).collect();
    format!("## {}\n\n{items}", text(&title))
}

fn omissions(omissions: &[String]) -> String {
    if omissions.is_empty() {
        return String::new();
    }
    let items: String = omissions.iter().map(|omission| format!("- {}\n", text(omission))).collect();
    format!("## Not assessed\n\n{items}")
}

fn judged(verdict: &Verdict) -> String {
    let items: String = provenance(verdict).iter().map(|line| format!("- {}\n", text(line))).collect();
    format!("## Judged\n\n{items}")
}

fn standings(standings: &Standings<'_>) -> String {
    let mut page = format!("## {}\n", code(standings.challenge));
    if !standings.places.is_empty() {
        let dimensions: String = standings.weights.iter().map(|&(d, _)| format!(" {} |", short(d))).collect();
        let rules = "--:|".repeat(standings.weights.len());
        let _ =
            write!(page, "\n| # | range | name | language | outcome | score |{dimensions} main suspect |\n");
        let _ = writeln!(page, "|--:|--:|---|---|---|--:|{rules}---|");
        for place in &standings.places {
            let summary = place.summary;
            let _ = write!(
                page,
                "| {} | {} | {} | {} | {} | {} |",
                rank(place),
                range(place),
                cell(&code(&place.label)),
                cell(&code(&summary.submission.language)),
                summary.outcome.name(),
                score(place).replace('*', "\\*")
            );
            for &(dimension, _) in &standings.weights {
                let part = summary.dimensions.get(&dimension).and_then(|part| part.score);
                let _ = write!(page, " {} |", words::score(part));
            }
            let _ = writeln!(page, " {} |", cell(&text(summary.suspect.as_deref().unwrap_or(""))));
        }
        let _ = writeln!(page, "\n{}", legend(standings).replace('*', "\\*"));
    }
    let unranked = standings
        .unranked
        .iter()
        .map(|place| format!("Not ranked: {} ({})", code(&place.label), text(&why_unranked(place))));
    for line in unranked.chain(standings.cautions.iter().map(|caution| format!("Note: {caution}."))) {
        let _ = writeln!(page, "\n{line}");
    }
    page
}
